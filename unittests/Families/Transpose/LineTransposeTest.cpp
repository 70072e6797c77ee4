// Transposition of few rows: limits, launches, and the kernel's work on a run
// of y, walked through on the host.
#include "Families/Transpose/TransposeTesting.h"

#include "transpose/LineTransposeConfig.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// The vectors of a run in the order of LineTranspose::storeVectors: calls
/// \p visit(thread, vector, the kind's first element, columns further).
template <class F>
void forEachVector(const LineTransposeConfig &c, const TransposeSignature &s,
                   int rows, int head, int vectors, F &&visit) {
  const int common = std::gcd(rows, c.vector(s)), kinds = rows / common;
  const int kindColumns = c.vector(s) / common;
  const int groups = std::max(c.threads() / kinds, 1);
  for (int thread = 0; thread < c.threads(); ++thread) {
    const int group = kinds < c.threads() ? thread / kinds : 0;
    if (group == groups)
      continue;
    for (int kind = thread - group * kinds; kind < kinds; kind += c.threads()) {
      int columns = group * kindColumns;
      for (int i = kind + group * kinds; i < vectors; i += groups * kinds) {
        visit(thread, i, head + kind * c.vector(s), columns);
        columns += groups * kindColumns;
      }
    }
  }
}

/// The place of an element in shared memory. Rows of x begin \p pitch bytes
/// apart, the first at a multiple of 16.
int placeOf(const LineTransposeConfig &c, const TransposeSignature &s, int row,
            int column, int pitch) {
  return c.rowOffset(s, row) + row * pitch % c.copyBytes +
         column * s.elementBytes;
}

} // namespace

TEST_CASE("line transpose: prune names the limit that a config breaks") {
  llvm::StringRef few = "rows=9 cols=73144 dtype=int8";
  CHECK(reason(few, "line.tc256.t256.cp16") == "none");
  CHECK(reason(few, "line.tc1024.t1024.cp4") == "none");
  CHECK(reason(few, "line.tc96.t256.cp16") ==
        "instruction-shape: 96 columns a tile, a power of two from a sector to "
        "1024 allowed");
  CHECK(reason(few, "line.tc16.t256.cp16").find("instruction-shape: 16") == 0);
  CHECK(reason("rows=9 cols=64 dtype=bf16", "line.tc16.t256.cp16") == "none");
  CHECK(reason(few, "line.tc256.t96.cp16") ==
        "instruction-shape: 96 threads a block, a power of two from 32 to 1024 "
        "allowed");
  CHECK(reason(few, "line.tc256.t256.cp8") ==
        "instruction-shape: 8 bytes a copy, 4 or 16 allowed");
  CHECK(reason("rows=9 cols=64 dtype=int8 ldy=10", "line.tc64.t256.cp16") ==
        "alignment: 10 elements from row to row of y, limit 9 elements from "
        "row to row of y");
  CHECK(reason("rows=8192 cols=8192 dtype=int8", "line.tc32.t256.cp16") ==
        "shared-memory wall: 401408 B, 232448 allowed");
  CHECK(reason("rows=2147483647 cols=1 dtype=int8", "line.tc32.t256.cp16") ==
        "shared-memory wall: 2147483647 rows, 16384 allowed");
}

TEST_CASE("line transpose: it comes first where rows are few") {
  for (llvm::StringRef text :
       {"rows=9 cols=73144 dtype=int8", "rows=219 cols=31552 dtype=int8",
        "rows=9 cols=169536 dtype=bf16", "rows=2 cols=81024 dtype=fp32",
        "rows=1 cols=136576 dtype=fp16"}) {
    CAPTURE(text);
    CHECK(firstOf(text) == "line");
  }
  for (llvm::StringRef text :
       {"rows=8192 cols=8192 dtype=bf16", "rows=4096 cols=50257 dtype=int8",
        "rows=451 cols=219504 dtype=fp32",
        "rows=9 cols=73144 dtype=int8 ldy=12"}) {
    CAPTURE(text);
    CHECK(firstOf(text) != "line");
  }
}

TEST_CASE("line transpose: bind takes all rows of some columns a block") {
  Problem problem = parse(transpose(), "rows=9 cols=1000 dtype=bf16");
  auto named = llvm::cantFail(transpose().parseConfig("line.tc128.t256.cp16"));
  Plan plan = named.tmpl->plan(problem, named.config, h200());
  Arguments arguments = transpose().defaultArguments(problem);
  LaunchSpec spec;
  plan.binder->bind(arguments, LaunchContext{}, spec);
  REQUIRE(spec.stepCount == 1);
  CHECK(spec.steps[0].kernel.grid == Dim3{8});
  CHECK(spec.steps[0].kernel.block == Dim3{256});
  // 17 copies a row, and one more behind the eighth.
  CHECK(plan.sharedBytes[0] == (9 * 17 + 1) * 16);
  CHECK(spec.steps[0].kernel.sharedBytes == plan.sharedBytes[0]);
  // The kernel does not depend on rows.
  Problem other = parse(transpose(), "rows=3 cols=1000 dtype=bf16");
  CHECK(named.tmpl->plan(other, named.config, h200()).kernels[0].source() ==
        plan.kernels[0].source());
}

TEST_CASE("line transpose: each vector of a run is stored once, with its "
          "elements") {
  for (int bytes : {1, 2, 4})
    for (int rows : {1, 2, 3, 9, 16, 31, 94, 219, 300})
      for (int threads : {64, 256}) {
        TransposeSignature s{bytes, bytes};
        LineTransposeConfig c{.tileCols = 64, .blockThreads = threads};
        const int v = c.vector(s);
        for (int head : {0, 1, v - 1})
          for (int cols : {64, 37}) {
            const int vectors = std::max(rows * cols - head, 0) / v;
            std::vector<int> stored(static_cast<size_t>(vectors));
            int wrong = 0;
            forEachVector(c, s, rows, head, vectors,
                          [&](int, int vector, int first, int columns) {
                            ++stored[static_cast<size_t>(vector)];
                            wrong +=
                                first + columns * rows != head + vector * v;
                          });
            CHECK(wrong == 0);
            CHECK(std::count(stored.begin(), stored.end(), 1) == vectors);
          }
      }
}

TEST_CASE("line transpose: rows have places of their own") {
  for (int bytes : {1, 2, 4})
    for (int copy : {4, 16})
      for (int pitch = 0; pitch < 16; pitch += bytes) {
        TransposeSignature s{bytes, bytes};
        LineTransposeConfig c{.tileCols = 64, .copyBytes = copy};
        for (int row = 0; row < 40; ++row)
          CHECK(placeOf(c, s, row, c.tileCols - 1, pitch) + bytes <=
                c.rowOffset(s, row + 1));
        CHECK(c.rowOffset(s, 40) <= c.sharedBytes(s, 40));
      }
}

// The estimate's bank conflicts: passesOf() of LineTranspose.cpp.
TEST_CASE("line transpose: narrow copies spread elements over the banks") {
  // Accesses of whole warps take this many passes on average.
  auto passesOf = [](const LineTransposeConfig &c, const TransposeSignature &s,
                     int rows) {
    std::map<std::pair<int, int>, std::map<int, std::set<int>>> wordsOf;
    std::set<std::pair<int, int>> seen; // of a thread only its first vector
    forEachVector(
        c, s, rows, 0, rows * c.tileCols / c.vector(s),
        [&](int thread, int, int first, int columns) {
          for (int k = 0; k < c.vector(s); ++k) {
            if (!seen.insert({thread, k}).second)
              continue;
            int column = (first + k) / rows;
            int place =
                placeOf(c, s, first + k - column * rows, column + columns, 0);
            wordsOf[{thread / 32, k}][place / 4 % 32].insert(place / 4);
          }
        });
    double passes = 0;
    for (const auto &[access, banks] : wordsOf) {
      size_t fullest = 0;
      for (const auto &[bank, words] : banks)
        fullest = std::max(fullest, words.size());
      passes += double(fullest);
    }
    return passes / double(wordsOf.size());
  };
  for (int bytes : {1, 2, 4}) {
    TransposeSignature s{bytes, bytes};
    double wide = 0, narrow = 0;
    int count = 0;
    for (int rows : {59, 98, 135, 219, 264, 340}) {
      wide += passesOf({.tileCols = 64, .copyBytes = 16}, s, rows);
      narrow += passesOf({.tileCols = 64, .copyBytes = 4}, s, rows);
      ++count;
    }
    CAPTURE(bytes);
    CHECK(wide / count < 4.7);
    CHECK(narrow / count < 2.7);
    CHECK(narrow < wide);
  }
}
