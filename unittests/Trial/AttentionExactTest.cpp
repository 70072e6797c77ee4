// Attentions whose answers are known to the bit: puzzles, and parts that are
// merged. On a real GPU.
#include "Trial/AttentionPuzzle.h"
#include "Trial/Campaign.h"

#include "Driver/DeviceMemory.h"
#include "Driver/Stream.h"
#include "Families/Attention/MergeProblem.h"
#include "Families/Families.h"
#include "Store/LoadedPlan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

using namespace kiln;
using namespace kiln::fake;

namespace {

/// {0} is the head dimension, which is that of V, too.
struct Kind {
  const char *problem;
  bool isWide = false; ///< for head dimensions of its own
};
constexpr Kind kKinds[] = {
    {"batch=3 sq=1 sk=1000 heads=8 kvheads=2 kvlen=used lse=1"},
    {"batch=2 sq=130 sk=333 heads=4 kvheads=2 mask=causal lse=1"},
    // The first rows see nothing.
    {"batch=2 sq=193 sk=100 heads=4 kvheads=2 mask=causal lse=1"},
    {"batch=4 sq=130 sk=200 heads=4 kvheads=4 qlen=packed kvlen=packed "
     "totalq=400 totalk=500 mask=causal lse=1"},
    {"batch=2 sq=64 sk=513 heads=6 kvheads=2 mask=window left=64 right=3"},
    {"batch=3 sq=5 sk=333 heads=8 kvheads=1 kvlen=used mask=causal pages=table "
     "page=16 poolpages=80 tablecols=30 lse=1"},
    {"batch=3 sq=129 sk=400 heads=7 kvheads=1 kvlen=used pages=list page=64 "
     "poolpages=20"},
    {"batch=3 sq=70 sk=300 heads=4 kvheads=2 kvlen=used qlen=packed "
     "pages=table page=256 poolpages=9 lse=1"},
    {"batch=2 sq=9 sk=70 heads=4 kvheads=2 pages=table page=1 poolpages=200"},
    // Nine splits, and 33 of which most are empty.
    {"batch=2 sq=70 sk=513 heads=6 kvheads=2 split=64 lse=1"},
    {"batch=3 sq=2 sk=513 heads=6 kvheads=2 split=16 kvlen=used lse=1"},
    // Shared K and V, and shared Q.
    {"batch=3 sq=130 sk=256 heads=4 kvheads=2 bsk=-1 bsv=-1 mask=causal"},
    {"batch=3 sq=1 sk=777 heads=8 kvheads=2 bsq=-1 bsk=-1 bsv=-1 lse=1"},
    // One tensor of Q, K and V; heads before tokens.
    {"batch=2 sq=66 sk=66 heads=4 kvheads=2 ldq={1} ldk={1} ldv={1}"},
    {"batch=2 sq=66 sk=129 heads=4 kvheads=2 ldq={0} hsq={2} ldk={0} hsk={3} "
     "ldv={0} hsv={3} ldo={0} hso={2} mask=causal"},
    {"batch=2 sq=5 sk=0 heads=4 kvheads=2 lse=1"},
    {"batch=2 sq=300 sk=0 heads=4 mask=causal"},
    {"batch=2 sq=1 sk=300 heads=16 kvheads=1 kvlen=used pages=table page=64 "
     "poolpages=20 d=576 dv=512 dtype=bf16 lse=1",
     true},
    {"batch=2 sq=130 sk=300 heads=4 kvheads=2 d=192 dv=128 dtype=bf16 "
     "mask=causal",
     true},
    {"batch=2 sq=130 sk=300 heads=4 kvheads=2 d=256 dtype=bf16 mask=causal "
     "lse=1",
     true},
};

struct Type {
  int headDim;
  const char *text;
};
constexpr Type kTypes[] = {{64, "dtype=bf16"},  {128, "dtype=bf16"},
                           {128, "dtype=fp16"}, {128, "dtype=bf16 kv=e4m3"},
                           {40, "dtype=bf16"},  {64, "dtype=e4m3"}};

std::vector<std::string> allPuzzles() {
  std::vector<std::string> texts;
  for (const Kind &kind : kKinds) {
    if (kind.isWide) {
      texts.push_back(kind.problem);
      continue;
    }
    for (const Type &type : kTypes) {
      const int d = type.headDim;
      texts.push_back(
          fmt::format(fmt::runtime(kind.problem), d, 8 * d, 66 * d, 129 * d) +
          fmt::format(" d={} {}", d, type.text));
    }
  }
  return texts;
}

/// Memory of operands and launches over it.
class Bench {
public:
  explicit Bench(GpuTrials &gpu)
      : gpu(gpu), stream(must(Stream::create(*gpu.driver))) {}

  /// \p bytes with poison around them.
  DeviceAddress place(const Bytes &bytes) {
    constexpr size_t kGuard = 256;
    Bytes all(bytes.size() + 2 * kGuard, AttentionPuzzle::kPoison);
    std::copy(bytes.begin(), bytes.end(), all.begin() + kGuard);
    memory.push_back(must(DeviceMemory::allocate(*gpu.driver, all.size())));
    must(copyToDevice(*gpu.driver, memory.back().address(), all.data(),
                      all.size()));
    return memory.back().address() + kGuard;
  }
  Bytes read(DeviceAddress address, size_t bytes) {
    Bytes result(bytes);
    must(copyToHost(*gpu.driver, result.data(), address, bytes));
    return result;
  }
  void run(const KernelFamily &family, const Problem &problem,
           const std::string &config, const Arguments &arguments) {
    auto named = must(family.parseConfig(config));
    auto plan = must(obtainPlan(
        *gpu.artifacts, loader,
        named.tmpl->plan(problem, named.config, gpu.device),
        static_cast<int32_t>(gpu.device.smCount), KernelLifetime::Users));
    const WorkspaceLayout layout = plan->workspace();
    const DeviceMemory scratch =
        must(DeviceMemory::allocate(*gpu.driver, layout.bytes()));
    // Partial sums that are not written are NaN.
    if (layout.bytes())
      must(fillAsync(*gpu.driver, scratch.address(), 0xff, layout.bytes(),
                     stream.handle()));
    must(plan->launch(arguments, {scratch.address(), layout.bytes(), false},
                      stream.handle()));
    must(stream.synchronize());
  }

private:
  GpuTrials &gpu;
  Stream stream;
  KernelLoader loader{*gpu.driver};
  std::vector<DeviceMemory> memory;
};

/// Where \p got differs first, in elements of 16 bits.
std::string differenceOf(const Bytes &got, const Bytes &wanted) {
  auto [at, other] = std::mismatch(got.begin(), got.end(), wanted.begin());
  if (at == got.end())
    return "";
  const auto element = static_cast<size_t>(at - got.begin()) / 2;
  auto bits = [&](const Bytes &bytes) {
    return bytes[2 * element] | bytes[2 * element + 1] << 8;
  };
  return fmt::format("o[{}] is {:#06x}, expected {:#06x}", element, bits(got),
                     bits(wanted));
}

void checkPuzzle(GpuTrials &gpu, const Triple &triple,
                 const AttentionPuzzle &puzzle) {
  INFO(triple.text());
  Bench bench(gpu);
  Arguments arguments = triple.family->defaultArguments(triple.problem);
  for (int i = 0; i < AttentionOperand::Count; ++i)
    if (!puzzle.given(i).empty())
      arguments.operands[i].address = bench.place(puzzle.given(i));
  bench.run(*triple.family, triple.problem, triple.config, arguments);
  auto after = [&](int operand) {
    return bench.read(arguments.operands[operand].address,
                      puzzle.given(operand).size());
  };
  CHECK(differenceOf(after(AttentionOperand::O), puzzle.expectedO()) == "");
  CHECK(puzzle.faultOfLse(after(AttentionOperand::Lse)) == "");
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

/// Normal numbers in bf16.
Bytes normals(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Bytes bytes(2 * count);
  for (size_t i = 0; i < count; ++i) {
    const float value = normal(random);
    std::memcpy(bytes.data() + 2 * i,
                reinterpret_cast<const uint8_t *>(&value) + 2, 2);
  }
  return bytes;
}

float bf16At(const Bytes &bytes, size_t index) {
  float value = 0;
  std::memcpy(reinterpret_cast<uint8_t *>(&value) + 2, bytes.data() + 2 * index,
              2);
  return value;
}
float fp32At(const Bytes &bytes, size_t index) {
  float value;
  std::memcpy(&value, bytes.data() + 4 * index, 4);
  return value;
}

/// Rows of heads, and where the results of an attention over them lie.
struct Part {
  DeviceAddress o = 0, lse = 0;
};

/// Attentions of the same queries over any keys of one tensor.
class Parts {
public:
  static constexpr int64_t kBatch = 2, kHeads = 4, kDim = 64, kKeys = 300;

  Parts(GpuTrials &gpu, int64_t queries)
      : gpu(gpu), bench(gpu), queries(queries),
        attention(**gpu.registry.get("attention")),
        merge(**gpu.registry.get("attention_merge")),
        q(bench.place(normals(rows() * kDim, 1))),
        k(bench.place(normals(kBatch * kKeys * kHeads * kDim, 2))),
        v(bench.place(normals(kBatch * kKeys * kHeads * kDim, 3))) {}

  size_t rows() const { return size_t(kBatch * kHeads * queries); }
  size_t elements() const { return rows() * kDim; }

  Part room() {
    return {bench.place(Bytes(2 * elements(), 0xff)), // NaN
            bench.place(Bytes(4 * rows(), 0xff))};
  }
  /// Over the keys [\p first, \p last).
  Part attend(int64_t first, int64_t last) {
    const Problem problem = must(attention.parseProblem(fmt::format(
        "batch={} sq={} sk={} heads={} d={} dtype=bf16 lse=1 bsk={} bsv={}",
        kBatch, queries, last - first, kHeads, kDim, kKeys * kHeads * kDim,
        kKeys * kHeads * kDim)));
    const Part part = room();
    Arguments arguments = attention.defaultArguments(problem);
    const auto skipped = static_cast<uint64_t>(first * kHeads * kDim * 2);
    const std::pair<int, DeviceAddress> addresses[] = {
        {AttentionOperand::Q, q},
        {AttentionOperand::K, k + skipped},
        {AttentionOperand::V, v + skipped},
        {AttentionOperand::O, part.o},
        {AttentionOperand::Lse, part.lse}};
    for (auto [operand, address] : addresses)
      arguments.operands[operand].address = address;
    bench.run(attention, problem,
              bestConfigs(attention, problem, gpu.device, 1).front(),
              arguments);
    return part;
  }
  Problem mergeProblem() const {
    return must(merge.parseProblem(
        fmt::format("batch={} rows={} heads={} d={} dtype=bf16 lse=1", kBatch,
                    queries, kHeads, kDim)));
  }
  Part merged(const Part &a, const Part &b, const std::string &config) {
    const Problem problem = mergeProblem();
    const Part part = room();
    Arguments arguments = merge.defaultArguments(problem);
    const std::pair<int, DeviceAddress> addresses[] = {
        {MergeOperand::O1, a.o},   {MergeOperand::Lse1, a.lse},
        {MergeOperand::O2, b.o},   {MergeOperand::Lse2, b.lse},
        {MergeOperand::O, part.o}, {MergeOperand::Lse, part.lse}};
    for (auto [operand, address] : addresses)
      arguments.operands[operand].address = address;
    bench.run(merge, problem, config, arguments);
    return part;
  }
  /// A part without keys, whose O is not a number.
  Part nothing() {
    const float none = -std::numeric_limits<float>::infinity();
    Bytes lse(4 * rows());
    for (size_t i = 0; i < rows(); ++i)
      std::memcpy(lse.data() + 4 * i, &none, 4);
    return {room().o, bench.place(lse)};
  }
  Bytes o(const Part &part) { return bench.read(part.o, 2 * elements()); }
  Bytes lse(const Part &part) { return bench.read(part.lse, 4 * rows()); }

  GpuTrials &gpu;
  Bench bench;
  const int64_t queries;
  const KernelFamily &attention, &merge;

private:
  DeviceAddress q, k, v;
};

void checkParts(Parts &parts, const std::string &config) {
  INFO(config);
  const Part whole = parts.attend(0, Parts::kKeys);
  const Bytes o = parts.o(whole), lse = parts.lse(whole);
  for (int64_t split : {1, 77, 299}) {
    INFO(split);
    const Part both = parts.merged(parts.attend(0, split),
                                   parts.attend(split, Parts::kKeys), config);
    const Bytes o2 = parts.o(both), lse2 = parts.lse(both);
    // Three roundings to bf16 beside those of the weights.
    double worst = 0, worstLse = 0;
    for (size_t i = 0; i < parts.elements(); ++i)
      worst = std::max(worst, double(std::abs(bf16At(o, i) - bf16At(o2, i))));
    for (size_t i = 0; i < parts.rows(); ++i)
      worstLse = std::max(worstLse,
                          double(std::abs(fp32At(lse, i) - fp32At(lse2, i))));
    CHECK(worst < 0.02);
    CHECK(worstLse < 1e-4);
    CHECK(o2 != Bytes(o2.size(), 0));
  }
  // A part without keys changes nothing, whichever it is.
  for (bool isFirst : {false, true}) {
    INFO(isFirst);
    const Part none = parts.nothing();
    const Part same = isFirst ? parts.merged(none, whole, config)
                              : parts.merged(whole, none, config);
    CHECK(parts.o(same) == o);
    CHECK(parts.lse(same) == lse);
  }
  const Part none = parts.merged(parts.nothing(), parts.nothing(), config);
  CHECK(parts.o(none) == Bytes(2 * parts.elements(), 0));
  CHECK(parts.lse(none) == parts.lse(parts.nothing()));
}

} // namespace

TEST_CASE("puzzles of attention have answers") {
  Registry registry = makeBuiltinRegistry();
  const KernelFamily &family = **registry.get("attention");
  for (const std::string &text : allPuzzles()) {
    CAPTURE(text);
    const AttentionPuzzle puzzle(family, text);
    const bool hasKeys = text.find("sk=0") == std::string::npos;
    CHECK((puzzle.solvedRows() > 0) == hasKeys);
    CHECK(puzzle.expectedO().size() ==
          puzzle.given(AttentionOperand::O).size());
    CHECK(puzzle.expectedO() != puzzle.given(AttentionOperand::O));
    CHECK(puzzle.faultOfLse(puzzle.given(AttentionOperand::Lse)).empty() !=
          (puzzle.problem().text().find("lse=1") != std::string::npos));
  }
}

TEST_SUITE("gpu") {

  TEST_CASE("campaign: each query of attention finds its one key") {
    GpuTrials gpu(makeBuiltinRegistry());
    const KernelFamily &family = **gpu.registry.get("attention");
    constexpr size_t kConfigs = 6;
    std::vector<Triple> triples;
    for (const std::string &text : allPuzzles()) {
      const Problem problem = must(family.parseProblem(text + " scale=1"));
      for (std::string &config :
           bestConfigs(family, problem, gpu.device, kConfigs))
        triples.push_back({&family, problem, std::move(config)});
    }
    triples = compileAll(gpu, triples);
    size_t checked = 0;
    for (const std::string &text : allPuzzles()) {
      const AttentionPuzzle puzzle(family, text);
      for (const Triple &triple : triples)
        if (triple.problem.text() == puzzle.problem().text()) {
          checkPuzzle(gpu, triple, puzzle);
          ++checked;
        }
    }
    CHECK(checked == triples.size());
    MESSAGE("puzzles with configs: ", checked);
  }

  TEST_CASE("parts of an attention make the whole, and nothing adds nothing") {
    GpuTrials gpu(makeBuiltinRegistry());
    for (int64_t queries : {1, 130}) {
      INFO(queries);
      Parts parts(gpu, queries);
      for (const std::string &config :
           bestConfigs(parts.merge, parts.mergeProblem(), gpu.device, 4))
        checkParts(parts, config);
    }
  }

} // TEST_SUITE
