// Rows that begin anywhere: the configs that serve them, and those refused.
#include "Families/FamilyTesting.h"
#include "Kernel/Space.h"
#include "Support/Format.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringExtras.h>

#include <doctest/doctest.h>

using namespace kiln;
using namespace kiln::testing;

namespace {

const KernelFamily &family(llvm::StringRef problem) {
  return **registry().get(problem.split(' ').first);
}

std::string why(llvm::StringRef problem, llvm::StringRef config) {
  return reason(family(problem), problem, config);
}

/// The configs of the space of \p problem, best first.
std::vector<std::string> ranked(llvm::StringRef problem) {
  const KernelFamily &of = family(problem);
  Space space = llvm::cantFail(exploreSpace(of, parse(of, problem), h200()));
  std::vector<std::string> texts;
  for (const Candidate &candidate : space.ranked)
    texts.push_back(candidate.config.text());
  return texts;
}

bool hasPart(llvm::StringRef config, llvm::StringRef part) {
  for (llvm::StringRef each : llvm::split(config, '.'))
    if (each == part)
      return true;
  return false;
}

} // namespace

TEST_CASE("rows of any length and pitch are moved by whole accesses") {
  struct Case {
    const char *problem, *vector, *start; ///< "": rows begin aligned
  };
  for (const Case &c : {
           Case{"softmax rows=64 cols=50256 dtype=bf16", "v8", ""},
           {"softmax rows=64 cols=50257 dtype=bf16", "v8", "o1"},
           {"softmax rows=64 cols=50257 dtype=fp32", "v4", "o1"},
           {"rowquant rows=64 cols=50257 dtype=fp32", "v4", "o1"},
           {"softmax rows=64 cols=50257 dtype=bf16 align=2", "v8", "o2"},
           // Both pitches are odd; one does not add a whole number of vectors.
           {"softmax rows=64 cols=2000 ldx=2001 ldy=2009 dtype=bf16", "v8",
            "o1"},
           {"softmax rows=64 cols=2000 ldx=2001 ldy=2003 dtype=bf16", "v8",
            "o2"},
           {"rmsnorm rows=900 cols=4097 weight=1 dtype=bf16", "v8", "o1"},
           {"rmsnorm rows=900 cols=4097 residual=1 ldh=4099 dtype=bf16", "v8",
            "o2"},
           {"rowquant rows=900 cols=4097 dtype=fp16", "v8", "o1"},
           // One matrix: its own vectors are aligned, whatever its address.
           {"reduce op=max rows=9 cols=40001 dtype=bf16 align=2", "v8", "o1"},
           {"reduce op=max rows=9 cols=40001 axis=all ldx=40003 dtype=bf16",
            "v8", "o1"},
       }) {
    CAPTURE(std::string(c.problem));
    std::vector<std::string> configs = ranked(c.problem);
    REQUIRE_FALSE(configs.empty());
    CAPTURE(configs[0]);
    CHECK(hasPart(configs[0], c.vector));
    for (const char *start : {"o1", "o2"})
      CHECK(hasPart(configs[0], start) == (c.start == std::string(start)));
  }
}

TEST_CASE("no row is read by accesses of an element unless it is short") {
  for (const char *problem : {"layernorm rows=4096 cols=777 dtype=bf16",
                              "reduce op=sum rows=64 cols=100001 dtype=fp16"})
    for (const std::string &config : ranked(problem)) {
      CAPTURE(config);
      CHECK_FALSE(hasPart(config, "v1"));
    }
}

TEST_CASE("a config serves no rows that begin otherwise than it says") {
  constexpr llvm::StringLiteral kAlike = "softmax rows=64 cols=1001 dtype=bf16",
                                kAny = "softmax rows=64 cols=1001 "
                                       "dtype=bf16 align=2",
                                kSum = "reduce op=sum rows=9 cols=1001 "
                                       "dtype=bf16";
  const std::string wall = "alignment: 8 elements, limit 1 elements";
  for (const char *config :
       {"resident.t128.rt128.v8.n1.r1.c1.mb1{}", "reload.t256.rt32.v8.i4.c1{}"})
    for (const char *start : {"", ".o1", ".o2"}) {
      std::string text = fmt::format(fmt::runtime(config), start);
      CAPTURE(text);
      const std::string level = start;
      CHECK(why(kAlike, text) == (level == "" ? wall : "none"));
      CHECK(why(kAny, text) == (level == ".o2" ? "none" : wall));
    }
  CHECK(why(kSum, "split.t128.v8.i2") == wall);
  CHECK(why(kSum, "split.t128.v8.i2.o1") == "none");
  // The rows of a reduction belong to one matrix.
  CHECK(why(kSum, "split.t128.v8.i2.o2") != "none");
  // Copies to shared memory do not shift, and a vector of one has no ends.
  CHECK(why(kAny, "resident.t128.rt64.v8.n1.s1.r1.c1.mb1.o2") != "none");
  CHECK(why(kAlike, "resident.t256.rt256.v1.n4.r1.c1.mb1.o1") != "none");
}

TEST_CASE("rows that are read again by threads that spill are no candidates") {
  constexpr llvm::StringLiteral kNorm =
      "layernorm rows=64 cols=100000 weight=1 bias=1 residual=1 dtype=bf16";
  CHECK(why(kNorm, "reload.t1024.rt1024.v8.i4.c1") ==
        "register wall: 80 registers a thread, 64 allowed");
  CHECK(why(kNorm, "reload.t512.rt512.v8.i4.c1") == "none");
  for (const std::string &config : ranked(kNorm))
    CHECK(config != "reload.t1024.rt1024.v8.i4.c1");
}
