#include "kiln-bench/QualityReport.h"

#include "Device/Catalog.h"
#include "Store/StoreFixture.h"

#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace kiln;
using namespace kiln::cli;
using kiln::fake::FakeFamily;

static const DeviceModel &device() {
  static const DeviceModel h200 = llvm::cantFail(findDevice("h200-sxm"));
  return h200;
}

static const Registry &registry() {
  static const Registry made = [] {
    Registry registry;
    llvm::cantFail(registry.add(std::make_unique<FakeFamily>()));
    return registry;
  }();
  return made;
}

/// The family predicts 1000 ns for fast.t64, 1200 for t32 and t128, 3000 and
/// more for pair.
static RecordedSpace spaceOf(std::vector<TimedConfig> configs) {
  return {"layer", "fake m=64 n=64", 20, std::move(configs)};
}

TEST_CASE("a recorded space is ordered by today's estimate") {
  const RecordedSpace space = spaceOf({{"fast.t32", 7, 900, false},
                                       {"fast.t64", 1, 1000, false},
                                       {"fast.t128", 0, 1500, false},
                                       {"pair.t64", 3, 950, false},
                                       {"fast.t512", 4, 100, false},
                                       {"gone.x1", 5, 100, false}});
  SUBCASE("what is not allowed any more is left out") {
    const ReplayedSpace replayed =
        llvm::cantFail(replay(space, registry(), device()));
    CHECK(replayed.configs == 4);
    CHECK(replayed.refused == 2);
    CHECK(replayed.chosen == "fast.t64");
    CHECK(replayed.hasFirstChoice);
    CHECK(replayed.regime == "fake");
  }
  RecordedSpace kept = space;
  kept.configs.resize(4);
  const ReplayedSpace replayed =
      llvm::cantFail(replay(kept, registry(), device()));
  CHECK(replayed.best == "fast.t32");
  CHECK(replayed.main.top1 == doctest::Approx(0.9));
  CHECK(replayed.main.top5 == 1);
  CHECK(replayed.random.top1 ==
        doctest::Approx((1 + 0.9 + 0.6 + 900 / 950.0) / 4));
  CHECK(replayed.random.top5 == 1);
  CHECK(replayed.classic.top1 == 0); // it is no matrix product
  CHECK(replayed.errors.size() == 4);
  CHECK(replayed.errors[0] == doctest::Approx(1 / 3.0));
  CHECK(replayed.errors[1] == doctest::Approx(0));
}

TEST_CASE("the playoff says what is best") {
  const ReplayedSpace replayed = llvm::cantFail(replay(
      spaceOf({{"fast.t64", 0, 1000, true}, {"fast.t32", 1, 900, false}}),
      registry(), device()));
  CHECK(replayed.bestNs == 1000);
  CHECK(replayed.main.top1 == 1);
}

TEST_CASE("what cannot be replayed is an error") {
  RecordedSpace unknown = spaceOf({{"fast.t64", 0, 1, false}});
  SUBCASE("one config") {}
  SUBCASE("no such family") { unknown.problem = "gone m=1"; }
  auto replayed = replay(unknown, registry(), device());
  REQUIRE_FALSE(static_cast<bool>(replayed));
  llvm::consumeError(replayed.takeError());
}

TEST_CASE("what a random order reaches is the mean over all choices") {
  const std::vector<double> times = {100, 120, 90, 200, 150, 110};
  // All pairs and all triples, counted.
  for (unsigned count : {1u, 2u, 3u, 6u}) {
    double sum = 0;
    int sets = 0;
    for (unsigned bits = 0; bits < 1u << times.size(); ++bits) {
      if (static_cast<unsigned>(__builtin_popcount(bits)) != count)
        continue;
      double least = INFINITY;
      for (size_t i = 0; i < times.size(); ++i)
        if (bits >> i & 1)
          least = std::min(least, times[i]);
      sum += 90 / least;
      ++sets;
    }
    CHECK(expectedShare(times, 90, count) == doctest::Approx(sum / sets));
  }
  CHECK(expectedShare(times, 90, 20) == 1);
  CHECK(expectedShare({}, 90, 5) == 0);
}

/// \p count spaces of one regime with a first choice of \p top1.
static std::vector<ReplayedSpace> spacesOf(size_t count, size_t configs,
                                           double top1) {
  std::vector<ReplayedSpace> spaces(count);
  for (ReplayedSpace &space : spaces) {
    space.regime = "gemm 1-16";
    space.isTest = true;
    space.configs = configs;
    space.main = {top1, 0.9999};
    space.random = {0.5, 0.8};
    space.correlation = 0.5;
    space.errors = {0.1, 0.1234, 0.2};
  }
  return spaces;
}

TEST_CASE("figures fall below their floors or do not") {
  const QualityTable now = tabulate(spacesOf(4, 100, 0.9567));
  const QualityFloors floors = QualityFloors::of(now);
  const auto &kept = floors.floors.at("test").at("gemm 1-16");
  CHECK(kept.at("top1") == 956);
  CHECK(kept.at("time_error") == 124);
  CHECK(kept.at("correlation") == 500);
  CHECK(floors.violations(now).empty());
  CHECK(floors.violations(tabulate(spacesOf(4, 100, 0.99))).empty());
  const auto read = llvm::cantFail(QualityFloors::parse(floors.toJson()));
  CHECK(read.floors == floors.floors);
  // Violations of the regime and of all.
  const auto fell = read.violations(tabulate(spacesOf(4, 100, 0.95)));
  CHECK(fell.size() == 4);
  CHECK(std::count(fell.begin(), fell.end(),
                   "test, gemm 1-16: top1 is 0.9500, was 0.956") == 1);
  auto worse = spacesOf(4, 100, 0.9567);
  for (ReplayedSpace &space : worse)
    space.errors = {0.3};
  CHECK(read.violations(tabulate(worse)).size() == 2);
  CHECK(read.violations({}).size() == 2);
}

TEST_CASE("few problems have no floors, and few configs no ranks") {
  CHECK(QualityFloors::of(tabulate(spacesOf(2, 100, 0.9))).floors.empty());
  const auto floors = QualityFloors::of(tabulate(spacesOf(3, 5, 0.9)));
  const auto &kept = floors.floors.at("test").at("all");
  CHECK(kept.size() == 3);
  CHECK_FALSE(kept.count("correlation"));
}

TEST_CASE("a quality report has figures, the worst spaces and what fell") {
  QualityReport report;
  report.device = "h200-sxm";
  report.spaces = spacesOf(3, 100, 0.9);
  report.spaces[1].name = "layer/m7";
  report.spaces[1].main.top1 = 0.5;
  report.violations = {"test, all: top1 is 0.7, was 0.9"};
  std::string text;
  llvm::raw_string_ostream os(text);
  report.print(os);
  os.flush();
  CHECK(text.find("gemm 1-16") != std::string::npos);
  CHECK(text.find("layer/m7") != std::string::npos);
  CHECK(text.find("fell: test, all") != std::string::npos);
  const llvm::json::Object json = report.toJson();
  const llvm::json::Object *figures =
      json.getObject("figures")->getObject("test")->getObject("all");
  REQUIRE(figures);
  CHECK(figures->getInteger("problems") == 3);
  CHECK(figures->getNumber("top1_least") == 0.5);
  CHECK(json.getArray("spaces")->size() == 3);
}
