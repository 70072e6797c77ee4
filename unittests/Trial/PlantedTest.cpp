// One NaN or infinity in an input, on a real GPU: it reaches the results that
// it reaches in the reference, and no others.
#include "Trial/Planted.h"
#include "Families/Families.h"
#include "Trial/Campaign.h"

#include <llvm/ADT/STLExtras.h>

using namespace kiln;
using namespace kiln::fake;

namespace {

void checkPlanted(const std::vector<PlantedProblem> &problems) {
  GpuTrials gpu(makeBuiltinRegistry());
  std::vector<Triple> triples;
  for (const PlantedProblem &given : problems) {
    const KernelFamily &family = **gpu.registry.get(given.family);
    const Problem problem = must(family.parseProblem(given.text));
    constexpr size_t kLeast = 3;
    std::vector<std::string> configs =
        bestConfigs(family, problem, gpu.device, kLeast);
    if (gpu.device.computeCapability() == 90)
      for (const std::string &config : given.configs)
        if (!llvm::is_contained(configs, config))
          configs.push_back(config);
    for (const PlantedValue &planted :
         plantedValues(family, problem, given.takesInfinities))
      for (const std::string &config : configs)
        triples.push_back(
            {&family, problem, config, TrialData::Usual, planted});
  }
  checkAll(gpu, triples);
}

} // namespace

TEST_SUITE("gpu") {
  TEST_CASE("a NaN or an infinity in attention reaches its results") {
    checkPlanted(plantedAttention());
  }

  TEST_CASE("a NaN or an infinity in products reaches its results") {
    checkPlanted(plantedProducts());
  }

  TEST_CASE("a NaN or an infinity in experts reaches its results") {
    checkPlanted(plantedExperts());
  }

  TEST_CASE("a NaN or an infinity in rows and elements reaches its results") {
    checkPlanted(plantedStreams());
  }
}
