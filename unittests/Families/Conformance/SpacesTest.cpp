// Spaces of every family of Families.def: ranked configs may run, the order is
// unique, and the estimates follow from their terms and their derivations.
#include "Families/Conformance/DerivationCheck.h"
#include "Families/Conformance/Draw.h"
#include "Families/Conformance/LaunchCheck.h"

#include "Kernel/Roofline.h"
#include "Kernel/Space.h"
#include "Support/Error.h"
#include "Support/Format.h"

#include <doctest/doctest.h>

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

using namespace kiln;
using namespace kiln::conformance;

namespace {

bool isSame(double a, double b) {
  return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b));
}

/// The fault of a ranked config.
std::string faultOfCandidate(const KernelFamily &family, const Problem &problem,
                             const Candidate &candidate,
                             const DeviceModel &device) {
  auto parsed = family.parseConfig(candidate.config.text());
  if (!parsed)
    return "does not parse: " + llvm::toString(parsed.takeError());
  const Template &tmpl = *candidate.tmpl;
  if (parsed->tmpl != &tmpl || !(parsed->config == candidate.config))
    return "parses into " + parsed->config.text();
  if (auto rejection = tmpl.prune(problem, candidate.config, device))
    return "is pruned: " + rejection->text();
  CandidateClass alone = tmpl.classOf(problem, candidate.config);
  if (alone.key != candidate.candidateClass.key ||
      alone.rank != candidate.candidateClass.rank ||
      alone.ranksByTime != candidate.candidateClass.ranksByTime)
    return "is of another class alone";
  const Estimate &ranked = candidate.estimate;
  if (!std::isfinite(ranked.totalNs) || ranked.totalNs <= 0)
    return fmt::format("takes {} ns", ranked.totalNs);
  Estimate estimate = tmpl.estimate(problem, candidate.config, device);
  if (estimate.totalNs != ranked.totalNs || estimate.bound != ranked.bound)
    return fmt::format("takes {} ns in the space, {} ns alone", ranked.totalNs,
                       estimate.totalNs);
  return "";
}

/// The fault of the order of \p ranked: the best of each class and the configs
/// ranked by time come first, and in both parts times ascend, up to ties.
std::string faultOfOrder(llvm::ArrayRef<Candidate> ranked) {
  std::set<std::pair<const Template *, uint64_t>> classes;
  std::set<int32_t> orders;
  double slowest = 0;
  bool leadersPart = true;
  for (const Candidate &candidate : ranked) {
    if (!orders.insert(candidate.order).second)
      return "two candidates have one place in the space";
    bool byTime = candidate.candidateClass.ranksByTime;
    bool leads =
        byTime ||
        classes.insert({candidate.tmpl, candidate.candidateClass.key}).second;
    if (leads && !leadersPart)
      return candidate.config.text() + " is behind a class's second best";
    if (!leads && leadersPart) {
      leadersPart = false;
      slowest = 0;
    }
    const double ns = candidate.orderingNs();
    if (ns * (byTime ? 1 : kEstimateTie) < slowest)
      return candidate.config.text() + " is behind slower ones";
    slowest = std::max(slowest, ns);
  }
  return "";
}

/// Whether ranking \p space in any other order gives the same result.
bool isRankedAgain(const Space &space, Random &random) {
  std::vector<Candidate> shuffled = space.ranked;
  for (size_t i = shuffled.size(); i > 1; --i)
    std::swap(shuffled[i - 1], shuffled[random() % i]);
  rankCandidates(shuffled);
  return llvm::equal(shuffled, space.ranked,
                     [](const Candidate &a, const Candidate &b) {
                       return a.order == b.order && a.config == b.config;
                     });
}

/// The fault of the whole space of \p problem.
std::string faultOfSpace(const KernelFamily &family, const Problem &problem,
                         const DeviceModel &device, Random &random) {
  auto space = exploreSpace(family, problem, device, {.keepRejected = true});
  if (!space)
    return llvm::toString(space.takeError());
  std::set<std::string> seen;
  for (const Candidate &candidate : space->ranked) {
    std::string config = candidate.config.text();
    if (!seen.insert(config).second)
      return config + ": twice in the space";
    std::string fault = faultOfCandidate(family, problem, candidate, device);
    if (!fault.empty())
      return config + ": " + fault;
  }
  for (const Rejected &rejected : space->rejected) {
    auto alone = rejected.tmpl->prune(problem, rejected.config, device);
    if (!alone || alone->text() != rejected.rejection.text())
      return rejected.config.text() + ": is rejected for another reason alone";
  }
  if (std::string fault = faultOfOrder(space->ranked); !fault.empty())
    return fault;
  return isRankedAgain(*space, random) ? "" : "its order is not its own";
}

} // namespace

TEST_CASE("conformance: what a space ranks may run, in one order") {
  for (const auto &family : registry().families()) {
    CAPTURE(family->name().str());
    std::vector<Problem> problems = drawWork(*family, Sizes::Usual, 12);
    for (const Problem &problem : suiteProblems(*family))
      if (problems.size() < 24)
        problems.push_back(problem);
    Random random(23);
    for (const Problem &problem : problems) {
      CAPTURE(problem.text());
      CHECK(faultOfSpace(*family, problem, h200(), random) == "");
    }
  }
}

TEST_CASE("conformance: every device has a first choice that can be launched") {
  for (const auto &family : registry().families()) {
    CAPTURE(family->name().str());
    CHECK(llvm::any_of(family->templates(),
                       [](const auto &tmpl) { return tmpl->isGeneric(); }));
    std::vector<Problem> problems = drawWork(*family, Sizes::Usual, 30);
    for (llvm::StringRef name : catalogNames()) {
      CAPTURE(name.str());
      DeviceModel model = device(name);
      for (const Problem &problem : problems) {
        CAPTURE(problem.text());
        auto space = exploreSpace(*family, problem, model);
        if (!space) {
          CHECK(llvm::toString(space.takeError()) == "");
          continue;
        }
        // The candidates for a fallback.
        CHECK(llvm::any_of(space->ranked, [](const Candidate &candidate) {
          return candidate.tmpl->isGeneric();
        }));
        const Candidate &first = space->ranked.front();
        CAPTURE(first.config.text());
        Plan plan = first.tmpl->plan(problem, first.config, model);
        CHECK(faultOfPlan(plan, model) == "");
        CHECK(faultOfLaunch(*family, problem, plan, model) == "");
      }
    }
  }
}

TEST_CASE("conformance: absurd problems have a finite space or a clear line") {
  for (const auto &family : registry().families()) {
    CAPTURE(family->name().str());
    for (const Problem &problem : drawWork(*family, Sizes::Extreme, 30)) {
      CAPTURE(problem.text());
      auto space = exploreSpace(*family, problem, h200());
      if (!space) {
        ErrorSummary error = summarize(space.takeError());
        CHECK(error.code == ErrorCode::NoCandidate);
        CHECK(llvm::StringRef(error.message).contains(problem.text()));
        continue;
      }
      CHECK(llvm::all_of(space->ranked, [](const Candidate &candidate) {
        double ns = candidate.estimate.totalNs;
        return std::isfinite(ns) && ns > 0;
      }));
    }
  }
}

TEST_CASE("conformance: a problem without elements has no space, but an "
          "error") {
  for (const auto &family : registry().families()) {
    CAPTURE(family->name().str());
    int empty = 0;
    for (const DrawnProblem &drawn :
         drawProblems(*family, Sizes::Extreme, 100)) {
      if (!family->isEmpty(drawn.problem))
        continue;
      ++empty;
      CAPTURE(drawn.problem.text());
      auto space = exploreSpace(*family, drawn.problem, h200());
      CHECK(summarize(space.takeError()).code == ErrorCode::InvalidArgument);
    }
    // A route without tokens has ends to write.
    CHECK((empty > 0) == (family->name() != "route"));
  }
}

/// The least of three times, since other processes use the machine as well.
static double secondsToExplore(const KernelFamily &family,
                               const Problem &problem) {
  double least = INFINITY;
  for (int i = 0; i < 3; ++i) {
    const auto start = std::chrono::steady_clock::now();
    auto space = exploreSpace(family, problem, h200());
    llvm::consumeError(space.takeError());
    least = std::min(least, std::chrono::duration<double>(
                                std::chrono::steady_clock::now() - start)
                                .count());
  }
  return least;
}

TEST_CASE("conformance: large extents take no longer to plan for") {
  for (const auto &family : registry().families()) {
    CAPTURE(family->name().str());
    double usual = 0;
    for (const Problem &problem : drawWork(*family, Sizes::Usual, 10))
      usual = std::max(usual, secondsToExplore(*family, problem));
    std::vector<Problem> large = drawWork(*family, Sizes::Extreme, 40);
    if (family->name() == "gemm")
      for (const char *types :
           {"dtype=bf16", "b=int4 order_b=k64r16 scale_b=1x128 dtype=bf16",
            "dtype=e4m3 out=bf16"})
        large.push_back(llvm::cantFail(family->parseProblem(fmt::format(
            "gemm m=2147483647 n=8192 k=8192 layout=NT {}", types))));
    for (const Problem &problem : large) {
      CAPTURE(problem.text());
      CHECK(secondsToExplore(*family, problem) <= 20 * usual + 0.02);
    }
  }
}

//===----------------------------------------------------------------------===//
// Derivations
//===----------------------------------------------------------------------===//

namespace {

/// The first choice, the first of two other templates, and the last.
std::vector<Candidate> sample(const Space &space) {
  constexpr size_t kTemplates = 3;
  std::vector<Candidate> chosen;
  std::set<const Template *> seen;
  for (const Candidate &candidate : space.ranked)
    if (seen.size() < kTemplates && seen.insert(candidate.tmpl).second)
      chosen.push_back(candidate);
  chosen.push_back(space.ranked.back());
  return chosen;
}

/// Checks the derivations of \p problem; returns their number.
size_t checkDerivations(const KernelFamily &family, const Problem &problem,
                        const DeviceModel &device) {
  auto space = exploreSpace(family, problem, device);
  if (!space) {
    llvm::consumeError(space.takeError()); // checked by another test
    return 0;
  }
  const double leastNs = rooflineOf(family, problem, device).leastNs();
  const double ns = space->ranked.front().estimate.totalNs;
  if (ns < leastNs) {
    CAPTURE(device.name);
    CAPTURE(problem.text());
    CAPTURE(space->ranked.front().config.text());
    CHECK(ns >= leastNs);
  }
  size_t count = 0;
  for (const Candidate &candidate : sample(*space)) {
    Estimate estimate =
        candidate.tmpl->estimate(problem, candidate.config, device);
    std::string fault = "the space has another estimate";
    if (isSame(estimate.totalNs, candidate.estimate.totalNs)) {
      const Derivation derivation = candidate.derive(problem, device);
      fault = faultOf(derivation, estimate);
      if (fault.empty() && count == 0) // some thousand evaluations
        fault = faultOfMutations(derivation);
    }
    ++count;
    if (fault.empty())
      continue;
    CAPTURE(device.name);
    CAPTURE(problem.text());
    CAPTURE(candidate.config.text());
    CHECK(fault == "");
  }
  return count;
}

} // namespace

TEST_CASE("conformance: every derivation makes the estimate it explains") {
  for (const auto &family : registry().families()) {
    CAPTURE(family->name().str());
    std::vector<Problem> problems = suiteProblems(*family);
    llvm::append_range(problems, drawWork(*family, Sizes::Usual, 10));
    size_t count = 0;
    for (llvm::StringRef name : catalogNames())
      for (const Problem &problem : problems)
        count += checkDerivations(*family, problem, device(name));
    // Two at least of each: the first choice and the last.
    CHECK(count >= 2 * problems.size() * catalogNames().size());
  }
}
