// The files and modules that a first tuned call reads and loads, with the
// trials of this process on the stand-in driver.
#include "Tune/Tuner.h"

#include "Store/LoadedPlan.h"
#include "Support/WatchedFileOps.h"
#include "Trial/TrialsFixture.h"

#include <utility>

using namespace kiln;
using namespace kiln::fake;
using kiln::testing::WatchedFileOps;

namespace {

struct FirstCallFixture : TrialsFixture {
  FirstCallFixture() {
    // Near each other, so that batches, playoff and proofs have work.
    trials.durations = {{"fast.t16", 5400},  {"fast.t32", 5100},
                        {"fast.t64", 5000},  {"fast.t128", 5050},
                        {"fast.t256", 5500}, {"pair.t64", 2600},
                        {"pair.t128", 2700}, {"plain.t32", 6000}};
    tuning.batch = 2;
    tuning.top = tuning.maxTrials = 24;
    tuning.budget = std::chrono::seconds(60);
    files.age = std::chrono::hours(1);
    cache::StoreOptions options;
    options.writeDir = folder.path();
    options.files = &files;
    watched = cache::Store::open(options);
    records.emplace(*watched);
    model = deviceClassKey(device);
  }
  TuningResult tune(int64_t m) {
    problemAt = makeProblem(*tried, "fake m=" + std::to_string(m) + " n=33");
    RecordMatch match = records->find(*tried, problemAt, model,
                                      MeasurementMode::Cold, RecordAge::Now);
    TuningOutcome outcome =
        Tuner(device, *artifacts, *records, &runner())
            .attempt(*tried, problemAt, tuning, std::move(match));
    CAPTURE(outcome.error.message);
    CHECK(outcome.error.code == ErrorCode::Success);
    return std::move(outcome.result);
  }

  WatchedFileOps files{"record/"};
  std::unique_ptr<cache::Store> watched;
  std::optional<RecordStore> records;
  std::string model;
  TuningOptions tuning;
  Problem problemAt;
};

} // namespace

TEST_CASE("a first tuned call loads each kernel once, and hands on the best") {
  FirstCallFixture f;
  TuningResult result = f.tune(64);
  CHECK(result.choice.origin == ChoiceOrigin::Measured);
  REQUIRE(result.choice.loaded);
  CHECK(result.choice.loaded->plan().configText() ==
        result.choice.plan.configText());
  REQUIRE(result.trials.size() > 4);
  CHECK(f.trials.runsOf(result.choice.plan.configText()) > 20);
  uint64_t kernels = 2; // the tools, the reference
  for (const TuningTrial &trial : result.trials)
    kernels += trial.result.config.starts_with("pair") ? 2 : 1;
  CHECK(calls("cuModuleLoadData") == kernels);
  // The next step of an engine.
  KernelLoader loader(*f.driver);
  loader.adopt(*result.choice.loaded);
  auto plan = must(LoadedPlan::load(loader, result.choice.plan,
                                    result.choice.artifacts, 132));
  CHECK(calls("cuModuleLoadData") == kernels);
  // It stays when the trials and their results have gone.
  result = TuningResult();
  f.made.reset();
  plan.reset();
  CHECK(kilnFakeModulesLoaded() > 0);
  loader.unloadContext(must(contextId(*f.driver)));
  CHECK(kilnFakeModulesLoaded() == 0);
}

TEST_CASE("a first tuned call reads a record once") {
  FirstCallFixture f;
  SUBCASE("that there is") {
    CHECK(f.tune(64).recordStored);
    f.records.emplace(*f.watched);
    const int before = f.files.reads();
    CHECK(f.tune(1000).recordStored);
    CHECK(f.files.reads() == before + 1);
  }
  SUBCASE("that there is not yet") {
    CHECK(f.tune(64).recordStored);
    CHECK(f.files.reads() == 0);
  }
}

TEST_CASE("what others store meanwhile is read, and stays") {
  FirstCallFixture f;
  CHECK(f.tune(64).recordStored);
  f.records.emplace(*f.watched);
  bool isStored = false;
  f.tuning.progress = [&](const TuningProgress &) {
    if (std::exchange(isStored, true))
      return;
    RecordPoint point;
    point.extents = {7};
    Measurement measured;
    measured.config = point.winner = "fast.t16";
    measured.validated = true;
    measured.medianNs = measured.ciLowNs = measured.ciHighNs = 990;
    point.measurements.push_back(measured);
    RecordStore(*f.cache).store(
        *f.tried, makeProblem(*f.tried, "fake m=7 n=33"), f.model, point);
  };
  CHECK(f.tune(1000).recordStored);
  auto record = RecordStore(*f.cache).load(*f.tried, f.problemAt, f.model);
  CHECK(record->size() == 3);
}
