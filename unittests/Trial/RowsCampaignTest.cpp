// The families over rows through the trials that a tuner runs: a grid of sizes,
// and random problems, templates and configs. All must be right, on a real GPU.
#include "Families/Families.h"
#include "Trial/Campaign.h"

using namespace kiln;
using namespace kiln::fake;

namespace {

/// The options of one point of a grid: number \p i of those that a family goes
/// through, so that all points of as many columns share their kernels.
using Options = std::string (*)(size_t i);

constexpr const char *kRowTypes[] = {"bf16", "fp16", "fp32"};
constexpr size_t kTypeCount = std::size(kRowTypes);

std::string typeOf(size_t i) {
  return fmt::format(" dtype={}", kRowTypes[i % kTypeCount]);
}

std::string normOptions(size_t i) {
  constexpr const char *kOptions[] = {
      " weight=1",
      "",
      " weight=1 bias=1 residual=1",
      " weight=1 out=fp8_e4m3",
      " weight=1 bias=1",
      " bias=1 residual=1 out=int8",
      " weight=1 residual=1 out=fp32",
      " weight=1 residual=1 out=fp8_e4m3 scale_y=1x128",
  };
  return typeOf(i) + kOptions[i % std::size(kOptions)];
}

std::string softmaxOptions(size_t i) {
  constexpr const char *kOptions[] = {
      "",          " mask=1 scale=0.125",          " mask=2",
      " out=fp32", " mask=2 scale=0.125 out=bf16",
  };
  return typeOf(i) + kOptions[i % std::size(kOptions)];
}

std::string rowquantOptions(size_t i) {
  constexpr const char *kOptions[] = {"", " op=quant_int8_per_row",
                                      " scale_y=1x128",
                                      " scale_y=1x128 scale_order_y=rows"};
  return typeOf(i) + kOptions[i % std::size(kOptions)];
}

std::string reduceOptions(size_t i) {
  return typeOf(i) + (i % 2 ? " out=fp32" : "");
}

/// Long rows in matrices of few rows and of many, and short ones the same.
std::vector<std::string> sizes(size_t firstOption, Options options) {
  constexpr int64_t kMany[] = {1, 7, 31, 1000, 4097, 262143};
  constexpr int64_t kFew[] = {1, 7, 1000};
  std::vector<std::string> texts;
  for (size_t i = 0; i < std::size(kMany); ++i)
    for (int64_t rows : kFew)
      texts.push_back(fmt::format("rows={} cols={}", rows, kMany[i]) +
                      options(firstOption + i));
  for (size_t i = 0; i < std::size(kFew); ++i)
    for (int64_t rows : kMany)
      if (std::find(kFew, std::end(kFew), rows) == std::end(kFew))
        texts.push_back(fmt::format("rows={} cols={}", rows, kFew[i]) +
                        options(firstOption + i));
  return texts;
}

/// Adds the best configs of all sizes, with both kinds of data.
void addGrid(std::vector<Triple> &triples, const KernelFamily &family,
             const DeviceModel &device, size_t firstOption, Options options,
             const std::string &fixed = "") {
  constexpr size_t kConfigs = 3;
  for (const std::string &text : sizes(firstOption, options)) {
    Problem problem = must(family.parseProblem(text + fixed));
    auto configs = bestConfigs(family, problem, device, kConfigs);
    for (TrialData data : {TrialData::Usual, TrialData::Outliers})
      for (const std::string &config : configs)
        triples.push_back({&family, problem, config, data});
  }
}

/// All sizes of a family with all types.
std::vector<Triple> gridOf(const Registry &registry, const DeviceModel &device,
                           llvm::StringRef family, Options options) {
  std::vector<Triple> triples;
  for (size_t firstOption = 0; firstOption < kTypeCount; ++firstOption)
    addGrid(triples, **registry.get(family), device, firstOption, options);
  return triples;
}

std::vector<Triple> reduceGrid(const Registry &registry,
                               const DeviceModel &device,
                               const std::string &axis) {
  std::vector<Triple> triples;
  size_t firstOption = 0;
  for (const char *op : {"sum", "max", "mean", "sumsq"})
    addGrid(triples, **registry.get("reduce"), device, firstOption++,
            reduceOptions, fmt::format(" op={}", op) + axis);
  return triples;
}

/// Draws problems over rows.
class RowsGenerator {
public:
  /// No row is longer than \p longest, and no matrix larger than \p elements.
  RowsGenerator(const Registry &registry, const DeviceModel &device,
                unsigned seed, int64_t longest, int64_t elements)
      : registry(registry), device(device), draws(seed), longest(longest),
        elements(elements) {}

  /// \p each triples of every template of every family.
  std::vector<Triple> drawAll(int each) {
    std::vector<Triple> triples;
    for (llvm::StringRef name :
         {"rmsnorm", "layernorm", "softmax", "rowquant", "reduce"}) {
      const KernelFamily &family = **registry.get(name);
      for (const auto &tmpl : family.templates())
        for (int i = 0; i < each; ++i) {
          // Rows longer than any of these have a template, and tests, of their
          // own.
          auto triple = draw(family, tmpl->name());
          if (!triple)
            break;
          triples.push_back(std::move(*triple));
          triples.back().data =
              i % 2 == 0 ? TrialData::Usual : TrialData::Outliers;
        }
    }
    return triples;
  }

private:
  std::optional<Triple> draw(const KernelFamily &family, llvm::StringRef tmpl) {
    return draws.tripleIfAny(family, tmpl, device, Evenly::Classes,
                             [&] { return problemText(family.name()); });
  }

  /// Ragged, or a multiple of vectors; often long enough for many blocks.
  int64_t columns() {
    if (draws.chance(15))
      return 1 + draws.below(40);
    if (draws.chance(30))
      return 8 * (1 + draws.below(longest / 8));
    if (draws.chance(50))
      return 8 * (1 + draws.below(longest / 64));
    // Odd ones as long as the others.
    return 1 + draws.below(draws.chance(30) ? longest : longest / 16);
  }

  std::string problemText(llvm::StringRef family) {
    int64_t cols = columns();
    int64_t mostRows = std::max<int64_t>(elements / cols, 1);
    int64_t rows = 1 + draws.below(std::min<int64_t>(mostRows, 300));
    std::string type = draws.pick({"bf16", "fp16", "fp32"});
    std::string text =
        fmt::format("rows={} cols={} dtype={}", rows, cols, type);
    text += draws.padded("ldx", cols);
    if (family == "reduce")
      text += reduction();
    else
      text += draws.padded("ldy", cols);
    if (family == "softmax")
      text += softmax(cols);
    else if (family == "rowquant")
      text += draws.pick({"", " op=quant_int8_per_row", " scale_y=1x128",
                          " scale_y=1x128 scale_order_y=rows"});
    else if (family == "rmsnorm" || family == "layernorm")
      text += norm(cols);
    return text + draws.alignment(1);
  }

  std::string reduction() {
    std::string text =
        fmt::format(" op={}", draws.pick({"sum", "max", "mean", "sumsq"}));
    text += draws.chance(30) ? " axis=all" : "";
    return text + draws.pick({"", "", " out=fp32", " out=bf16"});
  }

  std::string softmax(int64_t cols) {
    std::string text = draws.pick({"", "", " out=fp32", " out=fp16"});
    text += draws.pick({"", " scale=0.125", " scale=-0.5", " scale=3"});
    if (draws.chance(30))
      text += " mask=2";
    else if (draws.chance(50))
      text += " mask=1" + draws.padded("ldmask", cols);
    return text;
  }

  std::string norm(int64_t cols) {
    std::string text =
        draws.pick({"", "", " out=fp32", " out=bf16", " out=fp16",
                    " out=fp8_e4m3", " out=int8", " out=fp8_e4m3 scale_y=1x128",
                    " out=int8 scale_y=1x128"});
    text += draws.pick({"", "", " eps=0.1", " eps=0.000001"});
    text += draws.chance(60) ? " weight=1" : "";
    text += draws.chance(40) ? " bias=1" : "";
    if (draws.chance(40)) {
      text += " residual=1" + draws.padded("ldr", cols);
      text += draws.padded("ldh", cols);
    }
    return text;
  }

  const Registry &registry;
  const DeviceModel &device;
  Draws draws;
  int64_t longest, elements;
};

std::vector<Triple> randomRows(const Registry &registry,
                               const DeviceModel &device) {
  constexpr unsigned kSeed = 20250307;
  constexpr int kEach = 16;
  constexpr int64_t kLongest = 70000, kElements = 1 << 22;
  return RowsGenerator(registry, device, kSeed, kLongest, kElements)
      .drawAll(kEach);
}

/// Small enough to run under a sanitizer.
std::vector<Triple> sampleOfRows(const Registry &registry,
                                 const DeviceModel &device) {
  constexpr unsigned kSeed = 11;
  constexpr int kEach = 3;
  constexpr int64_t kLongest = 4000, kElements = 30000;
  std::vector<Triple> triples =
      RowsGenerator(registry, device, kSeed, kLongest, kElements)
          .drawAll(kEach);
  // Rows that clusters and shared memory hold, which are seldom drawn.
  for (llvm::StringRef text :
       {"layernorm rows=3 cols=40000 dtype=bf16 residual=1 out=fp8_e4m3",
        "softmax rows=2 cols=131072 dtype=fp16 mask=2"}) {
    constexpr size_t kConfigs = 6;
    const KernelFamily &family = **registry.get(text.split(' ').first);
    Problem problem = must(family.parseProblem(text));
    for (std::string &config : bestConfigs(family, problem, device, kConfigs))
      triples.push_back({&family, problem, std::move(config)});
  }
  return triples;
}

} // namespace

TEST_CASE("the campaigns over rows find configs for all of their problems") {
  Registry registry = makeBuiltinRegistry();
  for (const char *name : {"h200-sxm", "rtx-4090"}) {
    DeviceModel device = must(findDevice(name));
    for (const char *family : {"rmsnorm", "layernorm"})
      CHECK(gridOf(registry, device, family, normOptions).size() >= 12 * 27);
    CHECK(sampleOfRows(registry, device).size() > 33);
    std::vector<Triple> random = randomRows(registry, device);
    CHECK(random.size() == 15 * 16);
    // Also what the best configs seldom are.
    auto has = [&](llvm::StringRef part) {
      return std::any_of(random.begin(), random.end(), [&](const Triple &t) {
        return llvm::StringRef(t.text()).contains(part);
      });
    };
    CHECK(has("mask=2"));
    CHECK(has("align=2"));
    CHECK(has(".o1")); // rows that begin anywhere, alike and not
    CHECK(has(".o2"));
    CHECK(has("axis=all"));
    CHECK(has("out=int8"));
  }
}

TEST_SUITE("gpu") {

  TEST_CASE("campaign: a grid of rmsnorms is right") {
    GpuTrials gpu(makeBuiltinRegistry());
    checkAll(gpu, gridOf(gpu.registry, gpu.device, "rmsnorm", normOptions));
  }

  TEST_CASE("campaign: a grid of layernorms is right") {
    GpuTrials gpu(makeBuiltinRegistry());
    checkAll(gpu, gridOf(gpu.registry, gpu.device, "layernorm", normOptions));
  }

  TEST_CASE("campaign: a grid of softmaxes is right") {
    GpuTrials gpu(makeBuiltinRegistry());
    checkAll(gpu, gridOf(gpu.registry, gpu.device, "softmax", softmaxOptions));
  }

  TEST_CASE("campaign: a grid of quantisations is right") {
    GpuTrials gpu(makeBuiltinRegistry());
    checkAll(gpu,
             gridOf(gpu.registry, gpu.device, "rowquant", rowquantOptions));
  }

  TEST_CASE("campaign: a grid of reductions of rows is right") {
    GpuTrials gpu(makeBuiltinRegistry());
    checkAll(gpu, reduceGrid(gpu.registry, gpu.device, ""));
  }

  TEST_CASE("campaign: a grid of reductions of all rows is right") {
    GpuTrials gpu(makeBuiltinRegistry());
    checkAll(gpu, reduceGrid(gpu.registry, gpu.device, " axis=all"));
  }

  TEST_CASE("campaign: random problems over rows are right") {
    GpuTrials gpu(makeBuiltinRegistry());
    checkAll(gpu, randomRows(gpu.registry, gpu.device));
  }

  // Small enough to run under compute-sanitizer.
  TEST_CASE("sample of every template over rows") {
    GpuTrials gpu(makeBuiltinRegistry());
    std::vector<Triple> triples = sampleOfRows(gpu.registry, gpu.device);
    for (const Triple &triple : checkAll(gpu, triples))
      runWithoutRedZones(gpu, triple);
  }

} // TEST_SUITE
