// Experts chosen and added up on a GPU: random problems of all rules and types,
// with awkward sizes, for each template.
#include "Families/Families.h"
#include "Families/Route/RouteProblem.h"
#include "Trial/Campaign.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

using namespace kiln;
using namespace kiln::fake;

namespace {

constexpr int kMoeDraws = 40; // for a template

std::string drawnRoute(Draws &draws, int mostTokens) {
  const int tokens = draws.pick({1, 7, 64, 333, 2000});
  std::string text = "tokens=" + std::to_string(std::min(tokens, mostTokens)) +
                     " dtype=" + draws.pick({"bf16", "fp16", "fp32"});
  const std::string_view experts = draws.pick(
      {" experts=8 topk=2", " experts=128 topk=8", " experts=257 topk=5",
       " experts=1024 topk=32", " experts=32 topk=32", " experts=1 topk=1",
       " experts=256 topk=8 groups=8 top_groups=4",
       " experts=160 topk=6 groups=8 top_groups=3 group_max=1"});
  text += experts;
  if (!experts.starts_with(" experts=1 "))
    text += draws.pick({"", "", " first=3", " first=3 local=5", " local=2"});
  text += draws.pick({"", "", " ldx=1031"});
  text += draws.pick({"", " score=sigmoid"});
  for (const char *rule :
       {" renorm=1", " logit_bias=1", " choice_bias=1", " count=1", " chosen=1",
        " sizes=1", " scale=2.5", " group_align=64"})
    if (draws.chance(30))
      text += rule;
  return text + draws.alignment(4);
}

/// A NaN or an infinity, or a row of them, among the logits.
PlantedValue drawnLogit(Draws &draws, const Problem &problem) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const RouteProblem p = readRouteProblem(problem.values.array().data());
  PlantedValue planted;
  planted.operand = RouteOperand::Logits;
  planted.row = draws.below(p.tokens);
  planted.column = draws.below(p.experts);
  planted.value = draws.pick({std::nanf(""), kInfinity, -kInfinity});
  if (draws.chance(30))
    planted.count = static_cast<uint64_t>(p.experts - planted.column);
  return planted;
}

std::string drawnCombine(Draws &draws) {
  std::string text =
      "tokens=" + std::to_string(draws.pick({1, 7, 64, 333})) +
      " cols=" + std::to_string(draws.pick({8, 77, 520, 2048, 7168, 20000})) +
      " topk=" + std::to_string(draws.pick({1, 2, 8, 10, 32})) +
      " dtype=" + draws.pick({"bf16", "fp16", "fp32"});
  text += draws.pick({"", " weights=present", " weights=applied"});
  text += draws.pick({"", " residual=1"});
  text += draws.pick({"", " shared=1"});
  text += draws.pick({"", " norm=1 eps=1e-6"});
  return text + draws.alignment(4);
}

std::vector<Triple> randomMoe(const Registry &registry,
                              const DeviceModel &device, unsigned seed,
                              int count, int mostTokens = 2000) {
  Draws draws(seed);
  std::vector<Triple> triples;
  auto add = [&](llvm::StringRef name, llvm::StringRef tmpl, auto drawn) {
    for (int i = 0; i < count; ++i)
      if (std::optional<Triple> triple = draws.tripleIfAny(
              *registry.find(name), tmpl, device, Evenly::Configs,
              [&] { return drawn(draws); })) {
        triple->data =
            draws.chance(50) ? TrialData::Usual : TrialData::Outliers;
        if (name == "route" && draws.chance(30))
          triple->planted = drawnLogit(draws, triple->problem);
        triples.push_back(*std::move(triple));
      }
  };
  auto route = [mostTokens](Draws &drawn) {
    return drawnRoute(drawn, mostTokens);
  };
  add("route", "cluster", route);
  add("route", "spread", route);
  add("combine", "rows", drawnCombine);
  return triples;
}

} // namespace

TEST_CASE("the campaign of experts finds a config of each template") {
  const DeviceModel device = must(findDevice("h200-sxm"));
  CHECK(randomMoe(makeBuiltinRegistry(), device, 1, kMoeDraws).size() ==
        3 * kMoeDraws);
}

TEST_SUITE("gpu") {

  TEST_CASE("campaign: random experts are right") {
    GpuTrials gpu(makeBuiltinRegistry());
    checkAll(gpu, randomMoe(gpu.registry, gpu.device, 1, kMoeDraws));
  }

  // Small enough to run under compute-sanitizer.
  TEST_CASE("sample of experts") {
    GpuTrials gpu(makeBuiltinRegistry());
    constexpr int kFew = 3, kMostTokens = 100;
    for (const Triple &triple : checkAll(
             gpu, randomMoe(gpu.registry, gpu.device, 2, kFew, kMostTokens)))
      runWithoutRedZones(gpu, triple);
  }

} // TEST_SUITE
