// Tokens chosen on a GPU: random problems of all rules, types and ways to write
// a result, with awkward vocabularies, for each way to share a row.
#include "Families/Families.h"
#include "Trial/Campaign.h"

using namespace kiln;
using namespace kiln::fake;

namespace {

constexpr int kSampleDraws = 40; // for a template

/// How the token is chosen among the logits, and what is told of them.
std::string drawnRules(Draws &draws, bool takesLists) {
  std::string text;
  if (draws.chance(60)) {
    text += " temperature=1";
    if (takesLists)
      text += draws.pick({"", " topk=1", " topp=1", " minp=1", " topk=1 topp=1",
                          " topk=1 topp=1 joint=1", " topk=1 topp=1 minp=1",
                          " topp=1 minp=1"});
  }
  if (draws.chance(20))
    text += draws.pick({" repetition=1", " frequency=1 presence=1",
                        " repetition=1 frequency=1 presence=1"});
  if (draws.chance(20))
    text += " allowed=1";
  if (takesLists && draws.chance(20))
    text += draws.pick({" logprobs=1", " top=1", " logprobs=1 top=20"});
  return text;
}

std::string drawnSample(Draws &draws, bool takesLists) {
  std::string text =
      "rows=" + std::to_string(draws.pick({1, 3, 16, 70})) +
      " vocab=" + std::to_string(draws.pick({40, 1000, 5003, 32000, 50257})) +
      " dtype=" + draws.pick({"bf16", "fp16", "fp32"}) +
      drawnRules(draws, takesLists);
  if (draws.chance(15))
    text += " softcap=30";
  if (draws.chance(15))
    text += draws.pick({" scale=0.7", " scale=-2"});
  text += draws.pick({"", "", " int64=1", " advance=1 lengths=1"});
  return text + draws.alignment(4);
}

std::vector<Triple> randomSamples(const Registry &registry,
                                  const DeviceModel &device, unsigned seed,
                                  int count) {
  const KernelFamily &family = *registry.find("sample");
  Draws draws(seed);
  std::vector<Triple> triples;
  for (const char *tmpl : {"block", "cluster", "spread"}) {
    const bool takesLists = llvm::StringRef(tmpl) != "spread";
    for (int i = 0; i < count; ++i)
      if (std::optional<Triple> triple =
              draws.tripleIfAny(family, tmpl, device, Evenly::Configs, [&] {
                return drawnSample(draws, takesLists);
              })) {
        triple->data =
            draws.chance(50) ? TrialData::Usual : TrialData::Outliers;
        triples.push_back(*std::move(triple));
      }
  }
  return triples;
}

} // namespace

TEST_CASE("the campaign of tokens finds a config of each template") {
  const DeviceModel device = must(findDevice("h200-sxm"));
  CHECK(randomSamples(makeBuiltinRegistry(), device, 1, kSampleDraws).size() ==
        3 * kSampleDraws);
}

TEST_SUITE("gpu") {

  TEST_CASE("campaign: random tokens are right") {
    GpuTrials gpu(makeBuiltinRegistry());
    checkAll(gpu, randomSamples(gpu.registry, gpu.device, 1, kSampleDraws));
  }

  // Small enough to run under compute-sanitizer.
  TEST_CASE("sample of tokens") {
    GpuTrials gpu(makeBuiltinRegistry());
    constexpr int kFew = 3;
    for (const Triple &triple :
         checkAll(gpu, randomSamples(gpu.registry, gpu.device, 2, kFew)))
      runWithoutRedZones(gpu, triple);
  }

} // TEST_SUITE
