// Host time to plan a GEMM or an attention: every config of every template is
// enumerated, pruned, estimated and ranked. The bounds are far above the goals
// of 100 us and 300 us a problem, because machines that run tests are busy.
#include "Families/FamilyTesting.h"
#include "Kernel/Space.h"
#include "Support/Json.h"

#include <doctest/doctest.h>

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// The time and the results of planning the problems of a suite.
struct PlanningTimes {
  double medianUs = 0, worstUs = 0;
  size_t medianConfigs = 0, mostConfigs = 0;
};

/// The problems of \p family in benchmarks/suites/<suite>.json.
std::vector<Problem> suiteProblems(const KernelFamily &family,
                                   llvm::StringRef suite) {
  auto json = llvm::cantFail(readJsonFile(
      (llvm::Twine(KILN_SOURCE_DIR "/benchmarks/suites/") + suite + ".json")
          .str()));
  std::vector<Problem> problems;
  for (const llvm::json::Value &value :
       *json.getAsObject()->getArray("cases")) {
    const llvm::json::Object &record = *value.getAsObject();
    if (record.getString("family").value_or(family.name()) != family.name())
      continue;
    problems.push_back(
        llvm::cantFail(family.canonicalise(llvm::cantFail(Values::fromJson(
            family.problemSchema(), record, {"name", "family"})))));
  }
  return problems;
}

/// The least time of several plannings of \p problem, after a first one.
double planningUs(const KernelFamily &family, const Problem &problem,
                  const DeviceModel &device, size_t &configs) {
  constexpr int kRounds = 10;
  double best = 1e30;
  for (int round = 0; round <= kRounds; ++round) {
    auto start = std::chrono::steady_clock::now();
    Space space = llvm::cantFail(exploreSpace(family, problem, device));
    std::chrono::duration<double, std::micro> elapsed =
        std::chrono::steady_clock::now() - start;
    configs = space.ranked.size();
    if (round > 0)
      best = std::min(best, elapsed.count());
  }
  return best;
}

PlanningTimes planSuite(const KernelFamily &family,
                        llvm::ArrayRef<Problem> problems,
                        const DeviceModel &device) {
  std::vector<double> times;
  std::vector<size_t> counts;
  for (const Problem &problem : problems) {
    counts.emplace_back();
    times.push_back(planningUs(family, problem, device, counts.back()));
  }
  llvm::sort(times);
  llvm::sort(counts);
  return {times[times.size() / 2], times.back(), counts[counts.size() / 2],
          counts.back()};
}

/// Plans all of a suite for three architectures and prints the times.
void checkPlanning(llvm::StringRef familyName, llvm::StringRef suite,
                   double limitUs) {
  const KernelFamily &family = *registry().find(familyName);
  std::vector<Problem> problems = suiteProblems(family, suite);
  REQUIRE(problems.size() > 20);
  for (llvm::StringRef name : {"h200-sxm", "a100-sxm4-80gb", "b200-sxm"}) {
    PlanningTimes times =
        planSuite(family, problems, llvm::cantFail(findDevice(name)));
    std::printf("planning %s for %s: median %.0f us (%zu candidates), at "
                "most %.0f us (%zu candidates)\n",
                suite.str().c_str(), name.str().c_str(), times.medianUs,
                times.medianConfigs, times.worstUs, times.mostConfigs);
    CHECK(times.medianUs < limitUs);
  }
}

} // namespace

TEST_CASE("planning a GEMM's whole space") {
  for (llvm::StringRef suite : {"gemm_llm_bf16", "gemm_shapes"})
    checkPlanning("gemm", suite, /*limitUs=*/1500);
}

TEST_CASE("planning an attention's whole space") {
  checkPlanning("attention", "attention", /*limitUs=*/3000);
}
