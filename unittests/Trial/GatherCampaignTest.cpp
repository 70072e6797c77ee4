// Random gathers, scatters and copies of rows on a real GPU.
#include "Families/Families.h"
#include "Support/Format.h"
#include "Trial/Campaign.h"

using namespace kiln;
using namespace kiln::fake;

namespace {

/// Draws problems.
class GatherGenerator {
public:
  GatherGenerator(const Registry &registry, const DeviceModel &device,
                  unsigned seed, int64_t largest)
      : family(**registry.get("gather")), device(device), draws(seed),
        largest(largest) {}

  std::vector<Triple> drawAll(int count) {
    std::vector<Triple> triples;
    for (int i = 0; i < count; ++i) {
      triples.push_back(draws.triple(family, "lanes", device, Evenly::Classes,
                                     [&] { return text(); }));
      triples.back().data = i % 2 == 0 ? TrialData::Usual : TrialData::Outliers;
    }
    return triples;
  }

private:
  /// Ragged, or a multiple of vectors.
  int64_t extent() {
    if (draws.chance(20))
      return 1 + draws.below(9);
    if (draws.chance(50))
      return 16 * (1 + draws.below(largest / 16));
    return 1 + draws.below(largest);
  }

  std::string text() {
    const int64_t rows = extent(), cols = extent();
    std::string text =
        fmt::format("rows={} cols={} xrows={} by={}", rows, cols, extent(),
                    draws.pick({"indices", "targets", "both"}));
    text += types();
    if (draws.chance(30))
      text += fmt::format(" batch={}", 1 + draws.below(4));
    if (draws.chance(50))
      text += fmt::format(" yrows={}", extent());
    if (draws.chance(30))
      text += " index=int64";
    if (draws.chance(30))
      text += fmt::format(" first={}", draws.below(100000));
    if (draws.chance(30))
      text += fmt::format(" divisor={}", 1 + draws.below(9));
    if (draws.chance(30))
      text += draws.pick({" scale=0.3", " scale=-2", " scale=1"});
    text += draws.padded("ldx", cols);
    text += draws.padded("ldy", cols);
    return text + draws.alignment(1);
  }

  std::string types() {
    const std::string from =
        draws.pick({"bf16", "bf16", "fp16", "fp32", "fp8_e4m3", "int8"});
    std::string text = " dtype=" + from;
    if (from != "int8" && draws.chance(40))
      text += std::string(" out=") + draws.pick({"bf16", "fp16", "fp32"});
    return text;
  }

  const KernelFamily &family;
  const DeviceModel &device;
  Draws draws;
  int64_t largest;
};

std::vector<Triple> randomGathers(const Registry &registry,
                                  const DeviceModel &device) {
  return GatherGenerator(registry, device, 20261130, 2100).drawAll(120);
}

/// Small enough to run under a sanitizer.
std::vector<Triple> sampleOfGathers(const Registry &registry,
                                    const DeviceModel &device) {
  return GatherGenerator(registry, device, 17, 140).drawAll(10);
}

/// The best configs of awkward sizes.
std::vector<Triple> gatherGrid(const Registry &registry,
                               const DeviceModel &device) {
  const KernelFamily &family = **registry.get("gather");
  constexpr int64_t kSizes[] = {1, 7, 31, 1000, 4097};
  std::vector<Triple> triples;
  for (int64_t rows : kSizes)
    for (int64_t cols : kSizes)
      for (const char *rest : {"dtype=bf16 xrows=5000", "dtype=int8 by=targets",
                               "dtype=fp32 by=both yrows=4099 out=bf16"}) {
        const Problem problem = must(family.parseProblem(
            fmt::format("rows={} cols={} {}", rows, cols, rest)));
        for (const std::string &config :
             bestConfigs(family, problem, device, 3))
          triples.push_back({&family, problem, config, TrialData::Outliers});
      }
  return triples;
}

} // namespace

TEST_CASE("the campaigns of gathers find configs for all of their problems") {
  Registry registry = makeBuiltinRegistry();
  for (const char *name : {"h200-sxm", "rtx-4090"}) {
    DeviceModel device = must(findDevice(name));
    CHECK(randomGathers(registry, device).size() == 120);
    CHECK(sampleOfGathers(registry, device).size() == 10);
    CHECK(gatherGrid(registry, device).size() >= 2 * 75);
  }
}

TEST_SUITE("gpu") {

  TEST_CASE("campaign: a grid of gathers is right") {
    GpuTrials gpu(makeBuiltinRegistry());
    checkAll(gpu, gatherGrid(gpu.registry, gpu.device));
  }

  TEST_CASE("campaign: random gathers are right") {
    GpuTrials gpu(makeBuiltinRegistry());
    checkAll(gpu, randomGathers(gpu.registry, gpu.device));
  }

  // Small enough to run under compute-sanitizer.
  TEST_CASE("sample of gathers") {
    GpuTrials gpu(makeBuiltinRegistry());
    std::vector<Triple> triples = sampleOfGathers(gpu.registry, gpu.device);
    for (const Triple &triple : checkAll(gpu, triples))
      runWithoutRedZones(gpu, triple);
  }

} // TEST_SUITE
