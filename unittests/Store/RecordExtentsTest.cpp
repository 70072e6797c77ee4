// Records of a family with three dynamic extents.
#include "Store/BoxFamily.h"
#include "Store/RecordFixture.h"

using namespace kiln;
using namespace kiln::fake;

static RecordPoint pointAt(ExtentPoint extents, const char *winner) {
  RecordPoint p = point(0, winner, {measured(winner, 10)});
  p.extents = std::move(extents);
  return p;
}

static TuningRecord recordAt(const std::vector<ExtentPoint> &points) {
  TuningRecord record;
  for (const ExtentPoint &extents : points)
    record.merge(pointAt(extents, "tall.t16"));
  return record;
}

TEST_CASE("a point of several extents is written as a list, a lone one not") {
  const TuningRecord record =
      recordAt({{8, 1, 4096}, {1, 512, 512}, {8, 1, 300}});
  const std::string text = record.text();
  CHECK(text.find("\"extent\":[8,1,300]") != std::string::npos);
  const TuningRecord again = must(TuningRecord::parse(text));
  CHECK(again.skipped() == 0);
  REQUIRE(again.size() == 3);
  CHECK(again.at(0).extents == ExtentPoint{1, 512, 512});
  CHECK(again.at(1).extents == ExtentPoint{8, 1, 300});
  CHECK(again.find({8, 1, 4096}) == &again.at(2));
  CHECK_FALSE(again.find({8, 1}));
  CHECK_FALSE(again.find({8, 1, 301}));
  const std::string lone = recordAt({{64}}).text();
  CHECK(lone.find("\"extent\":64") != std::string::npos);
}

TEST_CASE("a point that no extents say is kept unread") {
  for (const char *extent :
       {"[]", "[1,-2]", "[1,\"2\"]", "{}", "-1", "\"1\""}) {
    CAPTURE(extent);
    const TuningRecord record = must(TuningRecord::parse(
        recordOf(fmt::format(R"({{"extent":{},"measurements":[]}})", extent))));
    CHECK(record.empty());
    CHECK(record.unread().size() == 1);
  }
}

TEST_CASE("what varies from launch to launch is not part of a record's key") {
  BoxFamily family;
  auto keyOf = [&](const char *text) {
    return recordKey(family, makeBox(family, text), "device");
  };
  const std::string key = keyOf("rows=3 cols=5 depth=7");
  CHECK(keyOf("batch=9 rows=300 cols=500 typical=40 room=9000 depth=7") == key);
  CHECK(keyOf("rows=3 cols=5 depth=8") != key);
}

TEST_CASE("a point is found by all of its extents, or the nearest is") {
  RecordFixture f;
  BoxFamily family;
  auto problemAt = [&](const ExtentPoint &at) {
    return makeBox(family, fmt::format("batch={} rows={} cols={} depth=1",
                                       at[0], at[1], at[2]));
  };
  const std::vector<ExtentPoint> points = {
      {1, 1, 1024}, {1, 1024, 1024}, {64, 1, 1024}, {64, 1, 4096}};
  for (const ExtentPoint &at : points)
    RecordStore(*f.cache).store(family, problemAt(at), f.device,
                                pointAt(at, "tall.t16"));
  RecordStore records(*f.cache);
  auto matchAt = [&](const ExtentPoint &at) {
    return records.find(family, problemAt(at), f.device);
  };
  for (const ExtentPoint &at : points) {
    CHECK(matchAt(at).kind == RecordMatchKind::Exact);
    CHECK(matchAt(at).point());
  }
  const RecordMatch near = matchAt({2, 400, 1000});
  CHECK(near.kind == RecordMatchKind::Neighbour);
  CHECK(near.extents == ExtentPoint{1, 1024, 1024});
  CHECK(matchAt({100, 2, 1500}).extents == ExtentPoint{64, 1, 1024});
  // Between two equally distant points the larger one counts.
  CHECK(matchAt({64, 1, 2048}).extents == ExtentPoint{64, 1, 4096});
  CHECK(matchAt({8, 1, 1024}).extents == ExtentPoint{64, 1, 1024});
}
