#include "Tune/Records.h"

#include "Support/Json.h"
#include "Tune/TuneFixture.h"

#include <thread>

using namespace kiln;
using namespace kiln::fake;

namespace {

Measurement measured(const char *config, double ns, int64_t atMs = 0) {
  Measurement m;
  m.config = config;
  m.medianNs = ns;
  m.ciLowNs = ns * 0.99;
  m.ciHighNs = ns * 1.01;
  m.samples = 20;
  m.predictedNs = ns / 2;
  m.bound = "dram";
  m.terms = {{"dram", ns / 2, "ns"}};
  m.kernel = "0123abcd";
  m.measuredAtMs = atMs;
  return m;
}

Measurement rejected(const char *config) {
  Measurement m;
  m.config = config;
  m.valid = false;
  m.reason = "wrong: element 7";
  return m;
}

RecordPoint point(int64_t extent, const char *winner,
                  std::vector<Measurement> measurements,
                  int64_t generation = 0) {
  RecordPoint p;
  p.extent = extent;
  p.winner = winner;
  p.measurements = std::move(measurements);
  p.generation = generation;
  return p;
}

TuningRecord reparse(const TuningRecord &record) {
  return must(TuningRecord::parse(printJson(record.toJson())));
}

struct RecordFixture {
  RecordFixture() {
    cache::StoreOptions options;
    options.writeDir = folder.path();
    cache = cache::Store::open(options);
  }
  Problem problem(int64_t m) const {
    return makeProblem(family, "fake m=" + std::to_string(m) + " n=64");
  }
  RecordMatch find(int64_t m) const {
    return RecordStore(*cache).find(family, problem(m), device);
  }
  RecordPoint store(const RecordPoint &p) const {
    return RecordStore(*cache)
        .store(family, problem(p.extent), device, p)
        .point;
  }
  TemporaryFolder folder;
  FakeFamily family;
  std::string device = "h200-sxm cc=9.0";
  std::unique_ptr<cache::Store> cache;
};

TEST_CASE("a record survives its text") {
  TuningRecord record;
  mergePoint(record,
             point(64, "fast.t64",
                   {measured("fast.t64", 1234.5, 17), rejected("fast.t32")}));
  TuningRecord again = reparse(record);
  REQUIRE(again.points.size() == 1);
  const RecordPoint &p = again.points[0];
  CHECK(p.extent == 64);
  CHECK(p.winner == "fast.t64");
  REQUIRE(p.measurements.size() == 2);
  const Measurement &m = p.measurements[0];
  CHECK(m.medianNs == 1234.5);
  CHECK(m.ciLowNs == record.points[0].measurements[0].ciLowNs);
  CHECK(m.samples == 20);
  CHECK(m.predictedNs == 617.25);
  CHECK(m.bound == "dram");
  REQUIRE(m.terms.size() == 1);
  CHECK(m.terms[0].name == "dram");
  CHECK(m.terms[0].value == 617.25);
  CHECK(m.kernel == "0123abcd");
  CHECK(m.measuredAtMs == 17);
  CHECK_FALSE(p.measurements[1].valid);
  CHECK(p.measurements[1].reason == "wrong: element 7");
  CHECK(printJson(again.toJson()) == printJson(record.toJson()));
}

TEST_CASE("fault 26: damaged parts are skipped, counted and kept") {
  // A good one, then: negative, infinite, missing time; no config; a wrong
  // type; no object at all; the same config twice.
  std::string text = R"({"new": 1, "points": [
    {"extent": 64, "generation": 2, "winner": "fast.t64", "extra": "x",
     "measurements": [
      {"config": "fast.t64", "medianNs": 10, "ciLowNs": 9, "ciHighNs": 11,
       "colour": "blue"},
      {"config": "fast.t32", "medianNs": -1, "ciLowNs": 9, "ciHighNs": 11},
      {"config": "fast.t16", "medianNs": 1e999, "ciLowNs": 9, "ciHighNs": 11},
      {"config": "fast.t128", "ciLowNs": 9, "ciHighNs": 11},
      {"medianNs": 10, "ciLowNs": 9, "ciHighNs": 11},
      {"config": "fast.t256", "medianNs": "10", "ciLowNs": 9, "ciHighNs": 11},
      17,
      {"config": "fast.t64", "medianNs": 12, "ciLowNs": 12, "ciHighNs": 12}
     ]},
    {"extent": -3}, "no point"]})";
  TuningRecord record = must(TuningRecord::parse(text));
  CHECK(record.skipped == 9);
  REQUIRE(record.points.size() == 1);
  const RecordPoint &p = record.points[0];
  REQUIRE(p.measurements.size() == 1);
  CHECK(p.measurements[0].medianNs == 12);
  CHECK(p.winner == "fast.t64");

  TuningRecord again = reparse(record);
  // The repeated one is united, the infinite one cannot be written.
  CHECK(again.skipped == 7);
  CHECK(again.unknown.getInteger("new") == 1);
  CHECK(again.points[0].unknown.getString("extra") == "x");
  // A new measurement supersedes what could not be read of its config.
  mergePoint(again, point(64, "", {measured("fast.t32", 10)}));
  CHECK(reparse(again).skipped == 6);
}

TEST_CASE("fault 26: what is no record is an error, never a crash") {
  std::string deep(100000, '[');
  for (const std::string &text :
       {std::string(), std::string("{"), std::string("[]"), std::string("{}"),
        std::string("{\"points\": 3}"), std::string("\0\xff", 2), deep}) {
    auto record = TuningRecord::parse(text);
    REQUIRE_FALSE(record);
    CHECK(summarize(record.takeError()).code == ErrorCode::InvalidArgument);
  }
}

TEST_CASE("a measurement that cannot be true is not merged") {
  TuningRecord record;
  Measurement nan = measured("fast.t64", 1);
  nan.medianNs = std::nan("");
  Measurement outside = measured("fast.t32", 10);
  outside.ciHighNs = 5;
  mergePoint(record, point(1, "fast.t64", {nan, outside}));
  CHECK(record.points[0].measurements.empty());
  CHECK(record.points[0].winner.empty());
}

TEST_CASE("measurements unite and the newer one of a config stays") {
  TuningRecord record;
  mergePoint(record, point(8, "fast.t64",
                           {measured("fast.t64", 100, 5),
                            measured("fast.t32", 120, 5)}));
  mergePoint(record,
             point(8, "fast.t64",
                   {measured("fast.t64", 90, 4), measured("fast.t32", 110, 6),
                    measured("fast.t16", 130, 6)}));
  const RecordPoint &p = record.points[0];
  CHECK(p.measurements.size() == 3);
  CHECK(p.find("fast.t64")->medianNs == 100);
  CHECK(p.find("fast.t32")->medianNs == 110);
  CHECK(p.find("fast.t16")->medianNs == 130);
  CHECK_FALSE(p.find("fast.t16", MeasurementMode::Hot));
}

TEST_CASE("of one generation the first winner stays, a later one replaces it") {
  TuningRecord record;
  mergePoint(record, point(8, "fast.t64", {measured("fast.t64", 100)}));
  mergePoint(record, point(8, "fast.t32", {measured("fast.t32", 50)}));
  CHECK(record.points[0].winner == "fast.t64");
  mergePoint(record, point(8, "fast.t32", {measured("fast.t32", 50)}, 1));
  CHECK(record.points[0].winner == "fast.t32");
  CHECK(record.points[0].generation == 1);
  mergePoint(record, point(8, "fast.t64", {measured("fast.t64", 10)}));
  CHECK(record.points[0].winner == "fast.t32");
  // A winner that turned out to be wrong stays in no case.
  mergePoint(record, point(8, "fast.t64", {rejected("fast.t32")}, 1));
  CHECK(record.points[0].winner == "fast.t64");
}

TEST_CASE("points are sorted by extent") {
  TuningRecord record;
  for (int64_t extent : {64, 1, 4096, 16})
    mergePoint(record, point(extent, "", {measured("fast.t64", 1)}));
  std::vector<int64_t> extents;
  for (const RecordPoint &p : record.points)
    extents.push_back(p.extent);
  CHECK(extents == std::vector<int64_t>{1, 16, 64, 4096});
}

TEST_CASE("buckets are powers of two, upper end included") {
  for (auto [extent, bucket] : std::vector<std::pair<int64_t, int>>{
           {0, 0}, {1, 0}, {2, 1}, {3, 2}, {4, 2}, {5, 3}, {8, 3}, {4097, 13}})
    CHECK(extentBucket(extent) == bucket);
}

TEST_CASE("a key holds what is fixed and nothing that varies") {
  RecordFixture f;
  std::string key = recordKey(f.family, f.problem(64), f.device);
  CHECK(recordKey(f.family, f.problem(65), f.device) == key);
  CHECK(recordKey(f.family, makeProblem(f.family, "fake m=64 n=65"),
                  f.device) != key);
  CHECK(recordKey(f.family, makeProblem(f.family, "fake m=64 n=64 type=fp16"),
                  f.device) != key);
  CHECK(recordKey(f.family, f.problem(64), "another") != key);
}

TEST_CASE("find tells how well a record matches") {
  RecordFixture f;
  CHECK(f.find(64).kind == RecordMatchKind::None);
  f.store(point(64, "fast.t32",
                {measured("fast.t64", 90), measured("fast.t32", 100),
                 rejected("fast.t16")}));
  f.store(point(100, "fast.t128", {measured("fast.t128", 100)}));

  RecordMatch exact = f.find(64);
  CHECK(exact.kind == RecordMatchKind::Exact);
  CHECK(exact.distance == 0);
  REQUIRE(exact.configs.size() == 2);
  CHECK(exact.hasWinner);
  CHECK(exact.configs[0].config.text() == "fast.t32");
  CHECK(exact.configs[0].tmpl->name() == "fast");
  CHECK(exact.configs[1].config.text() == "fast.t64");
  REQUIRE(exact.rejected.size() == 1);
  CHECK(exact.rejected[0].config.text() == "fast.t16");

  // 65 is nearer to 64, but shares its bucket with 100.
  RecordMatch near = f.find(65);
  CHECK(near.kind == RecordMatchKind::Neighbour);
  CHECK(near.extent == 100);
  CHECK(near.sameBucket);
  RecordMatch far = f.find(16);
  CHECK(far.extent == 64);
  CHECK(far.distance == doctest::Approx(2));
  CHECK_FALSE(far.sameBucket);
}

TEST_CASE("configs the family does not know are skipped and counted") {
  RecordFixture f;
  f.store(point(64, "gone.t64",
                {measured("gone.t64", 10), measured("fast.t64", 100),
                 measured("fast.t99999", 20)}));
  f.store(point(32, "gone.t64", {measured("gone.t64", 10)}));
  RecordMatch match = f.find(64);
  CHECK(match.skipped == 2);
  CHECK_FALSE(match.hasWinner);
  REQUIRE(match.configs.size() == 1);
  CHECK(match.configs[0].config.text() == "fast.t64");
  // A point of unknown configs alone is no match; its neighbour is.
  CHECK(f.find(32).kind == RecordMatchKind::Neighbour);
  CHECK(f.find(32).extent == 64);
}

TEST_CASE("fault 25: concurrent stores lose nothing and agree on a winner") {
  RecordFixture f;
  const char *configs[] = {"fast.t16", "fast.t32", "fast.t64", "fast.t128"};
  std::vector<std::string> adopted(4);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      adopted[i] =
          f.store(point(8, configs[i], {measured(configs[i], 10 + i)})).winner;
      for (int64_t extent = 100; extent < 105; ++extent)
        f.store(point(extent, configs[i], {measured(configs[i], 10)}));
    });
  for (std::thread &thread : threads)
    thread.join();
  TuningRecord record =
      RecordStore(*f.cache).load(f.family, f.problem(8), f.device);
  CHECK(record.points.size() == 6);
  for (const RecordPoint &p : record.points)
    CHECK(p.measurements.size() == 4);
  for (const std::string &winner : adopted)
    CHECK(winner == record.points[0].winner);
}

TEST_CASE("an estimate is recorded with its terms") {
  FakeFamily family;
  Problem problem = makeProblem(family, "fake m=64 n=64");
  const DeviceModel device = must(findDevice("h200-sxm"));
  Space space = must(exploreSpace(family, problem, device));
  space.ranked[0].fillTerms(problem, device);
  Measurement m;
  m.setEstimate(space.ranked[0].estimate);
  CHECK(m.predictedNs == space.ranked[0].estimate.totalNs);
  CHECK(m.bound == "dram");
  REQUIRE(m.terms.size() == 1);
  CHECK(m.terms[0].unit == "ns");
}

} // namespace
