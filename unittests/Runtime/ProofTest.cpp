// Launches of kernels that trials proved, found wrong or did not try.
#include "Device/Catalog.h"
#include "Families/Families.h"
#include "Kernel/Space.h"
#include "Runtime/RuntimeFixture.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// An engine, and the configs that it chose.
class Choosing {
public:
  Choosing(RuntimeFixture &fixture, kiln_mode mode) {
    kiln_engine_options options = fixture.options(mode);
    options.event_user = &chosen;
    options.event = [](void *user, const kiln_event *event) {
      if (event->kind == KILN_EVENT_CHOSEN)
        static_cast<std::vector<std::string> *>(user)->push_back(event->config);
    };
    made = fixture.engine(options);
  }

  kiln_status launch(const kiln_gemm_args &args) {
    return kiln_gemm(made, &args, nullptr, nullptr);
  }

  kiln_engine *engine() const { return made; }
  std::vector<std::string> chosen;

private:
  kiln_engine *made = nullptr;
};

/// The text of all records in the cache: it names each config that was tried.
std::string recordsOf(const RuntimeFixture &fixture) {
  std::string text;
  for (const std::string &file : filesIn(fixture.cachePath + "/v1/record"))
    text += readBytes(file);
  return text;
}

/// The kernels that were compared with the reference, and the one that ran
/// last. Times follow from the kernel's text, so that all of them are close.
class Comparisons {
public:
  Comparisons() {
    kilnFakeOnLaunch("kiln_*", &Comparisons::run, this, 0);
    kilnFakeOnLaunch("trial/TrialTools.cuh", &Comparisons::compare, this,
                     sizeof(CompareToleranceParams));
  }

  std::set<size_t> compared, timed;
  size_t last = 0;

private:
  static void run(KilnFakeLaunch *launch, void *user) {
    auto *self = static_cast<Comparisons *>(user);
    std::string text = launch->moduleText;
    if (text.find("Reference") != std::string::npos)
      return;
    self->last = std::hash<std::string>()(text);
    self->timed.insert(self->last);
    launch->durationNs = 5000 + 40 * ((self->last >> 7) % 100);
  }
  static void compare(KilnFakeLaunch *launch, void *user) {
    auto *self = static_cast<Comparisons *>(user);
    if (std::string(launch->function) != "kilnCompareTolerance")
      return;
    CompareToleranceParams params;
    std::memcpy(static_cast<void *>(&params), launch->params, sizeof(params));
    params.result->checked += static_cast<uint64_t>(
        (params.rowEnd - params.rowBegin) * params.layout.cols);
    self->compared.insert(self->last);
  }
};

} // namespace

TEST_CASE("S5: where trials find all wrong, nothing is launched") {
  RuntimeFixture fixture;
  judgeTrials(/*wrong=*/true);
  kiln_gemm_args args = gemmArgs();
  for (int process = 0; process < 2; ++process) {
    Choosing tune(fixture, KILN_MODE_TUNE);
    for (int call = 0; call < 2; ++call) {
      CHECK(tuneValue(tune.engine(), args) == KILN_NO_CANDIDATE);
      CHECK(lastErrorHas("no kernel is known to compute gemm m=128"));
    }
    CHECK(tune.chosen.empty());
    kiln_statistics statistics = statisticsOf(tune.engine());
    CHECK(statistics.launches == 0);
    // Trials are reported, and are not repeated.
    CHECK((statistics.trials > 0) == (process == 0));
    CHECK(statistics.trial_failures == statistics.trials);
  }
  // To measure again may find otherwise.
  judgeTrials();
  Choosing tune(fixture, KILN_MODE_TUNE);
  CHECK(tuneValue(tune.engine(), args) == KILN_NO_CANDIDATE);
  kiln_problem problem = problemOf(args);
  kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
  options.flags = KILN_PREPARE_RETUNE;
  REQUIRE(kiln_prepare(tune.engine(), &problem, 1, &options, nullptr) ==
          KILN_SUCCESS);
  CHECK(tune.launch(args) == KILN_SUCCESS);
  CHECK(queryOf(tune.engine(), problem).source == KILN_SOURCE_RECORD);
}

TEST_CASE("S5: no mode chooses a kernel that the record rejects") {
  kiln_gemm_args args = gemmArgs();
  std::string first;
  {
    RuntimeFixture untouched;
    Choosing predict(untouched, KILN_MODE_PREDICT);
    REQUIRE(predict.launch(args) == KILN_SUCCESS);
    first = predict.chosen.back();
  }
  RuntimeFixture fixture;
  judgeTrials(/*wrong=*/true);
  REQUIRE(tuneValue(fixture.engine(KILN_MODE_TUNE), args) == KILN_NO_CANDIDATE);
  const std::string tried = recordsOf(fixture);
  REQUIRE(tried.find(first) != std::string::npos);
  for (kiln_mode mode : {KILN_MODE_PREDICT, KILN_MODE_STRICT}) {
    CAPTURE(mode);
    Choosing other(fixture, mode);
    // Also at a neighbouring value: a kernel that is wrong there is not
    // launched here.
    for (int64_t m : {128, 120}) {
      args.m = m;
      REQUIRE(other.launch(args) == KILN_SUCCESS);
      CAPTURE(other.chosen.back());
      CHECK(tried.find("\"" + other.chosen.back() + "\"") == std::string::npos);
    }
  }
}

TEST_CASE("S5: a decision does not stand against what trials found") {
  RuntimeFixture fixture;
  kiln_gemm_args args = gemmArgs();
  kiln_problem problem = problemOf(args);
  kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
  options.flags = KILN_PREPARE_COMPILE_ONLY;
  kiln_engine *engine = fixture.engine();
  REQUIRE(kiln_prepare(engine, &problem, 1, &options, nullptr) == KILN_SUCCESS);
  judgeTrials(/*wrong=*/true);
  kilnFakeSetHollowMemory(1 << 20);
  {
    Choosing tune(fixture, KILN_MODE_TUNE);
    REQUIRE(kiln_prepare(tune.engine(), &problem, 1, nullptr, nullptr) ==
            KILN_NO_CANDIDATE);
    CHECK(tune.launch(args) == KILN_NO_CANDIDATE);
    CHECK(tune.chosen.empty());
  }
  Choosing predict(fixture, KILN_MODE_PREDICT);
  REQUIRE(predict.launch(args) == KILN_SUCCESS);
  CHECK(recordsOf(fixture).find("\"" + predict.chosen.back() + "\"") ==
        std::string::npos);
}

/// Whether measuring may put \p config before the estimator's first choice,
/// which is predicted within 25 % of it.
bool isNextToFirst(const kiln_gemm_args &args, const std::string &config) {
  const Registry families = makeBuiltinRegistry();
  auto named = llvm::cantFail(families.parseProblem(fmt::format(
      "gemm m={} n={} k={} dtype=bf16 layout=NT", args.m, args.n, args.k)));
  auto space = llvm::cantFail(exploreSpace(
      *named.family, named.problem, llvm::cantFail(findDevice("h200-sxm"))));
  const double limitNs = 1.25 * space.ranked.front().estimate.totalNs;
  return llvm::any_of(space.ranked, [&](const Candidate &candidate) {
    return candidate.config.text() == config &&
           candidate.estimate.totalNs <= limitNs;
  });
}

TEST_CASE("S6: values beside a tuned one launch what was compared, or what the "
          "estimator puts first") {
  for (int64_t n : {1472, 1664}) {
    CAPTURE(n);
    RuntimeFixture fixture;
    Comparisons comparisons;
    Choosing choosing(fixture, KILN_MODE_TUNE);
    kiln_engine *engine = choosing.engine();
    kiln_gemm_args args = gemmArgs(1024, n, n == 1472 ? 1024 : 768);
    kilnFakeSetHollowMemory(1 << 20);
    REQUIRE(choosing.launch(args) == KILN_SUCCESS);
    const std::set<size_t> compared = comparisons.compared;
    CHECK_FALSE(compared.empty());
    uint64_t trials = statisticsOf(engine).trials;
    for (args.m = 520; args.m < 1024; args.m += 24) {
      CAPTURE(args.m);
      REQUIRE(choosing.launch(args) == KILN_SUCCESS);
      const bool isProven =
          queryOf(engine, problemOf(args)).source == KILN_SOURCE_RECORD;
      CHECK(compared.contains(comparisons.last) == isProven);
      CHECK((isProven || isNextToFirst(args, choosing.chosen.back())));
    }
    CHECK(statisticsOf(engine).trials == trials);
  }
}
