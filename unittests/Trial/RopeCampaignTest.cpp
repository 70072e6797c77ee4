// Rotary embeddings and appends on a GPU: random problems of all styles, types
// and ways to a cache, with awkward sizes.
#include "Families/Families.h"
#include "Trial/Campaign.h"

using namespace kiln;
using namespace kiln::fake;

namespace {

constexpr int kDraws = 120;

/// How tokens find their rows, and what the caches hold.
std::string drawnCaches(Draws &draws) {
  if (draws.chance(15))
    return " kout=1";
  std::string text = " page=" + std::to_string(draws.pick({1, 7, 16, 64}));
  text += draws.pick(
      {" kcache=1 vcache=1", " kcache=1 vcache=1 kout=1", " kcache=1"});
  text += draws.pick({" slots=array", " slots=array index=int64",
                      " slots=table", " slots=table seqs=1 pagerows=3"});
  if (draws.chance(30))
    text += std::string(" kv=e4m3") +
            draws.pick({"", " scales=tensor", " scales=head"});
  return text;
}

std::string drawnRope(Draws &draws) {
  const int headDim = draws.pick({64, 128, 128, 96, 80, 256, 576, 40, 33});
  const int rotary = draws.pick({headDim / 2 * 2, 64, 32, 22, 0});
  std::string text =
      "tokens=" + std::to_string(draws.pick({1, 7, 31, 333, 1000})) +
      " heads=" + std::to_string(draws.pick({1, 5, 32})) +
      " kvheads=" + std::to_string(draws.pick({1, 2, 8})) +
      " d=" + std::to_string(headDim) +
      " dtype=" + draws.pick({"bf16", "fp16"});
  if (rotary <= headDim && rotary > 0) {
    text += " rotary=" + std::to_string(rotary) +
            draws.pick(
                {"", "", " style=interleaved", " style=interleaved_to_halves"});
    if (rotary + 8 <= headDim && draws.chance(30))
      text += " offset=" + std::to_string(headDim - rotary);
  }
  if (draws.chance(30))
    text +=
        std::string(" qnorm=1 knorm=1 eps=1e-6") + draws.pick({"", " unit=1"});
  text += drawnCaches(draws);
  // Views of a packed tensor.
  if (draws.chance(40))
    text += " ldq=48000 ldk=48000 ldv=48000";
  return text + draws.alignment(2);
}

std::vector<Triple> randomRopes(const Registry &registry,
                                const DeviceModel &device, unsigned seed,
                                int count) {
  const KernelFamily &family = *registry.find("rope");
  Draws draws(seed);
  std::vector<Triple> triples;
  for (int i = 0; i < count; ++i) {
    Triple triple = draws.triple(family, "heads", device, Evenly::Configs,
                                 [&] { return drawnRope(draws); });
    triple.data = draws.chance(50) ? TrialData::Usual : TrialData::Outliers;
    triples.push_back(std::move(triple));
  }
  return triples;
}

} // namespace

TEST_CASE("the campaign of rotary embeddings finds a config for each problem") {
  const DeviceModel device = must(findDevice("h200-sxm"));
  CHECK(randomRopes(makeBuiltinRegistry(), device, 1, kDraws).size() == kDraws);
}

TEST_SUITE("gpu") {

  TEST_CASE("campaign: random rotary embeddings are right") {
    GpuTrials gpu(makeBuiltinRegistry());
    checkAll(gpu, randomRopes(gpu.registry, gpu.device, 1, kDraws));
  }

  // Small enough to run under compute-sanitizer.
  TEST_CASE("sample of rotary embeddings") {
    GpuTrials gpu(makeBuiltinRegistry());
    constexpr int kFew = 8;
    for (const Triple &triple :
         checkAll(gpu, randomRopes(gpu.registry, gpu.device, 2, kFew)))
      runWithoutRedZones(gpu, triple);
  }

} // TEST_SUITE
