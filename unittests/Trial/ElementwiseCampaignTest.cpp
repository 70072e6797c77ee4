// Elementwise chains and transpositions through the trials that a tuner runs: a
// grid of sizes, and random problems and configs. All must be right, on a real
// GPU.
#include "Families/Families.h"
#include "Trial/Campaign.h"

using namespace kiln;
using namespace kiln::fake;

namespace {

constexpr size_t kConfigs = 2;
constexpr const char *kElementwiseTypes[] = {"bf16", "fp16", "fp32"};

/// Chains of models, every kind of operand, every function.
constexpr const char *kChains[] = {
    "add",
    "bias,gelu_tanh",
    "silu,mul",
    "scale",
    "relu",
    "gelu_erf",
    "bias",
    "row_bias",
    "col_scale,row_scale",
    "row_scale,col_scale,bias,add,relu",
};
constexpr const char *kCastTypes[] = {"bf16", "fp16", "fp32", "fp8_e4m3"};

/// Wide matrices and high ones, of few and of many rows and columns: pairs of
/// text and the index of the longer side's size.
std::vector<std::pair<std::string, size_t>> sizes() {
  constexpr int64_t kMany[] = {1, 7, 31, 1000, 4097, 262143};
  constexpr int64_t kFew[] = {1, 7, 1000};
  std::vector<std::pair<std::string, size_t>> texts;
  for (size_t i = 0; i < std::size(kMany); ++i)
    for (int64_t few : kFew) {
      texts.push_back({fmt::format("rows={} cols={}", few, kMany[i]), i});
      if (std::find(kFew, std::end(kFew), kMany[i]) == std::end(kFew))
        texts.push_back({fmt::format("rows={} cols={}", kMany[i], few), i});
    }
  return texts;
}

void addBest(std::vector<Triple> &triples, const KernelFamily &family,
             const std::string &text, const DeviceModel &device) {
  Problem problem = must(family.parseProblem(text));
  auto configs = bestConfigs(family, problem, device, kConfigs);
  for (TrialData data : {TrialData::Usual, TrialData::Outliers})
    for (const std::string &config : configs)
      triples.push_back({&family, problem, config, data});
}

std::vector<Triple> chainGrid(const Registry &registry,
                              const DeviceModel &device) {
  const KernelFamily &family = **registry.get("elementwise");
  std::vector<Triple> triples;
  for (size_t chain = 0; chain < std::size(kChains); ++chain)
    for (const auto &[size, index] : sizes()) {
      std::string text = fmt::format("{} op={} dtype={}", size, kChains[chain],
                                     kElementwiseTypes[(chain + index) % 3]);
      if (llvm::StringRef(kChains[chain]) == "scale")
        text += " scale=-1.75";
      addBest(triples, family, text, device);
    }
  return triples;
}

std::vector<Triple> castGrid(const Registry &registry,
                             const DeviceModel &device) {
  const KernelFamily &family = **registry.get("elementwise");
  std::vector<Triple> triples;
  for (const char *from : kCastTypes)
    for (const char *to : kCastTypes)
      for (const auto &[size, index] : sizes())
        if (from != to)
          addBest(triples, family,
                  fmt::format("{} op=cast_{}_{}", size, from, to), device);
        else
          addBest(triples, family, fmt::format("{} dtype={}", size, from),
                  device);
  return triples;
}

std::vector<Triple> transposeGrid(const Registry &registry,
                                  const DeviceModel &device) {
  const KernelFamily &family = **registry.get("transpose2d");
  std::vector<Triple> triples;
  for (const char *type : {"bf16", "fp32", "fp8_e4m3"})
    for (const auto &[size, index] : sizes())
      addBest(triples, family, fmt::format("{} dtype={}", size, type), device);
  return triples;
}

/// Draws problems of both families.
class ElementwiseGenerator {
public:
  ElementwiseGenerator(const Registry &registry, const DeviceModel &device,
                       unsigned seed, int64_t largest)
      : elementwise(**registry.get("elementwise")),
        transpose(**registry.get("transpose2d")), device(device), draws(seed),
        largest(largest) {}

  std::vector<Triple> drawAll(int chains, int transpositions) {
    std::vector<Triple> triples;
    for (int i = 0; i < chains + transpositions; ++i) {
      triples.push_back(draw(i < chains ? elementwise : transpose));
      triples.back().data = i % 2 == 0 ? TrialData::Usual : TrialData::Outliers;
    }
    return triples;
  }

private:
  Triple draw(const KernelFamily &family) {
    llvm::StringRef tmpl;
    do { // the rows that this one spreads are longer than all of these
      int64_t which =
          draws.below(static_cast<int64_t>(family.templates().size()));
      tmpl = family.templates()[which]->name();
    } while (tmpl == "spread");
    return draws.triple(family, tmpl, device, Evenly::Classes, [&] {
      return &family == &transpose ? transposeText() : elementwiseText();
    });
  }

  /// Ragged, or a multiple of vectors.
  int64_t extent() {
    if (draws.chance(20))
      return 1 + draws.below(9);
    if (draws.chance(50))
      return 16 * (1 + draws.below(largest / 16));
    return 1 + draws.below(largest);
  }

  std::string elementwiseText() {
    int64_t rows = extent(), cols = extent();
    std::string text =
        fmt::format("rows={} cols={} dtype={}", rows, cols, type());
    if (draws.chance(30)) // is refused with some types and links
      text += draws.pick({" out=fp8_e4m3 scale_y=1x128",
                          " out=int8 scale_y=row", " out=fp8_e4m3 scale_y=row",
                          " out=int8 scale_y=1x128 scale_order_y=rows"});
    else if (draws.chance(50))
      text += fmt::format(" out={}", type());
    text += draws.padded("ldx", cols);
    text += draws.padded("ldy", cols);
    text += draws.padded("ldo", cols);
    text += draws.alignment(1);
    return text + chain();
  }

  std::string type() {
    return draws.pick({"bf16", "bf16", "fp16", "fp32", "fp8_e4m3"});
  }

  std::string chain() {
    std::string text;
    bool hasScale = false;
    for (int64_t links = draws.below(5); links > 0; --links) {
      std::string op = draws.pick({"add", "mul", "bias", "scale", "relu",
                                   "gelu_erf", "gelu_tanh", "silu", "row_bias",
                                   "col_scale", "row_scale"});
      if (op == "scale" && hasScale)
        continue;
      hasScale |= op == "scale";
      text += (text.empty() ? " op=" : ",") + op;
    }
    return text + (hasScale ? draws.pick({" scale=0.3", " scale=-2"}) : "");
  }

  std::string transposeText() {
    int64_t rows = extent(), cols = extent();
    std::string text =
        fmt::format("rows={} cols={} dtype={}", rows, cols,
                    draws.pick({"bf16", "fp16", "fp32", "fp8_e4m3", "int8"}));
    text += draws.padded("ldx", cols);
    text += draws.padded("ldy", rows);
    return text + draws.alignment(1);
  }

  const KernelFamily &elementwise, &transpose;
  const DeviceModel &device;
  Draws draws;
  int64_t largest;
};

std::vector<Triple> randomChains(const Registry &registry,
                                 const DeviceModel &device) {
  constexpr unsigned kSeed = 20250308;
  constexpr int kChainCount = 80, kTranspositions = 40;
  constexpr int64_t kLargest = 2100;
  return ElementwiseGenerator(registry, device, kSeed, kLargest)
      .drawAll(kChainCount, kTranspositions);
}

/// Small enough to run under a sanitizer.
std::vector<Triple> sampleOfChains(const Registry &registry,
                                   const DeviceModel &device) {
  constexpr unsigned kSeed = 13;
  constexpr int kChainCount = 9, kTranspositions = 6;
  constexpr int64_t kLargest = 140;
  return ElementwiseGenerator(registry, device, kSeed, kLargest)
      .drawAll(kChainCount, kTranspositions);
}

} // namespace

TEST_CASE("the campaigns of chains find configs for all of their problems") {
  Registry registry = makeBuiltinRegistry();
  for (const char *name : {"h200-sxm", "rtx-4090"}) {
    DeviceModel device = must(findDevice(name));
    CHECK(chainGrid(registry, device).size() >= 2 * 27 * std::size(kChains));
    CHECK(castGrid(registry, device).size() >= 2 * 27 * 16);
    CHECK(transposeGrid(registry, device).size() >= 2 * 27 * 3);
    CHECK(randomChains(registry, device).size() == 120);
    CHECK(sampleOfChains(registry, device).size() == 15);
  }
}

TEST_SUITE("gpu") {

  TEST_CASE("campaign: a grid of chains is right") {
    GpuTrials gpu(makeBuiltinRegistry());
    checkAll(gpu, chainGrid(gpu.registry, gpu.device));
  }

  TEST_CASE("campaign: a grid of casts is right") {
    GpuTrials gpu(makeBuiltinRegistry());
    checkAll(gpu, castGrid(gpu.registry, gpu.device));
  }

  TEST_CASE("campaign: a grid of transpositions is right") {
    GpuTrials gpu(makeBuiltinRegistry());
    checkAll(gpu, transposeGrid(gpu.registry, gpu.device));
  }

  TEST_CASE("campaign: random chains and transpositions are right") {
    GpuTrials gpu(makeBuiltinRegistry());
    checkAll(gpu, randomChains(gpu.registry, gpu.device));
  }

  // Small enough to run under compute-sanitizer.
  TEST_CASE("sample of every template of chains and transpositions") {
    GpuTrials gpu(makeBuiltinRegistry());
    std::vector<Triple> triples = sampleOfChains(gpu.registry, gpu.device);
    for (const Triple &triple : checkAll(gpu, triples))
      runWithoutRedZones(gpu, triple);
  }

} // TEST_SUITE
