// The problems and ranges of plans and portfolios if three extents vary.
#include "Call/CanonicalProblem.h"
#include "Choice/PortfolioPool.h"

#include "Choice/PlanRequest.h"
#include "Store/BoxFamily.h"
#include "Tune/RangeCover.h"

#include "Device/Catalog.h"

using namespace kiln;
using namespace kiln::fake;

namespace {

struct BoxFixture {
  Problem box(llvm::StringRef text) const { return makeBox(family, text); }
  ProblemRange range(const ExtentPoint &low, const ExtentPoint &high,
                     llvm::StringRef text = "rows=1 cols=1 depth=1") {
    auto ranges = must(
        rangesOf(family, box(text).values, family.dynamicExtents(), low, high));
    REQUIRE(ranges.size() == 1);
    return ranges.front();
  }
  /// Adds a portfolio of the layer.
  void add(const ProblemRange &served) {
    pool.add(std::make_shared<const KnownPortfolio>(
        must(coverRange(served, device)), /*isStored=*/false));
  }
  std::string layer(llvm::StringRef text) {
    auto made = layerOf(family, box(text), pool);
    return made ? made->text() : "none";
  }

  BoxFamily family;
  DeviceModel device = must(findDevice("h200-sxm"));
  PortfolioPool pool;
};

} // namespace

TEST_CASE_FIXTURE(BoxFixture, "a plan is made for the next powers of two") {
  const Problem own =
      box("batch=3 rows=17 cols=1000 typical=50 room=60 depth=1");
  const Problem cover = coverOf(family, own);
  CHECK(cover.text() == "box batch=4 rows=32 cols=1024 depth=1");
  CHECK(coverOf(family, cover).values == cover.values);
  // Incidental fields do not need another plan.
  const PlanRequest request{family, own};
  const PlanTargets targets = request.targets();
  REQUIRE(targets.all.size() == 3);
  CHECK(targets.shared == 2);
  CHECK(targets.all[0].values == cover.values);
  // A config that may not run for the cover gets a target that ends before.
  CHECK(targets.all[1].text() == "box batch=3 rows=20 cols=1024 depth=1");
  CHECK(targets.all[2].text() == "box batch=3 rows=17 cols=1000 depth=1");
  const Problem even = box("batch=4 rows=32 cols=1024 typical=9 depth=1");
  CHECK(PlanRequest{family, even}.targets().all.size() == 1);
  // An extent of 0 stays.
  CHECK(coverOf(family, box("rows=5 cols=0 depth=1")).text() ==
        "box rows=8 cols=0 depth=1");
}

TEST_CASE_FIXTURE(BoxFixture, "a range serves whatever is incidental") {
  const ProblemRange all =
      range({1, 1, 1}, {8, 64, 4096}, "rows=9 cols=4096 typical=512 depth=1");
  auto isServed = [&](llvm::StringRef text) {
    return serves(all, box(text).values);
  };
  CHECK(isServed("rows=64 cols=100 depth=1"));
  CHECK(isServed("rows=64 cols=100 typical=7 room=1000 depth=1"));
  CHECK(isServed("rows=64 cols=0 depth=1"));
  CHECK_FALSE(isServed("rows=65 cols=100 depth=1"));
  CHECK_FALSE(isServed("rows=64 cols=100 depth=2"));
  // A hint holds for all values above it.
  CHECK(all.find({2, 3, 1000})->text() ==
        "box batch=2 rows=3 cols=1000 typical=512 depth=1");
  CHECK(all.find({2, 3, 512})->text() == "box batch=2 rows=3 cols=512 depth=1");
  CHECK(all.find({2, 3, 40})->text() == "box batch=2 rows=3 cols=40 depth=1");
  // A plan serves launches with any hint.
  CHECK(all.covering({2, 3, 1000})->text() ==
        "box batch=2 rows=3 cols=1000 depth=1");
  CHECK(all.fixedText() == range({1, 1, 1}, {2, 2, 2}).fixedText());
}

TEST_CASE_FIXTURE(BoxFixture, "fields of a range are in the record's order") {
  const Problem at = box("rows=1 cols=1 depth=1");
  auto ranges = must(rangesOf(
      family, at.values, {BoxField::Cols, BoxField::Batch}, {1, 2}, {1000, 8}));
  REQUIRE(ranges.size() == 1);
  CHECK(ranges.front().text() == "batch=2..8 cols=1..1000");
}

TEST_CASE_FIXTURE(BoxFixture, "a layer grows with the values that it meets") {
  CHECK(layer("batch=64 rows=1 cols=4000 depth=1") ==
        "batch=1..64 rows=1..1 cols=1..4096");
  CHECK(layer("rows=2000 cols=2000 typical=7 room=5000 depth=1") ==
        "batch=1..1 rows=1..2048 cols=1..2048");
  CHECK(layer("rows=1 cols=0 depth=1") == "batch=1..1 rows=1..1 cols=1..1");
  add(range({1, 1, 1}, {64, 1, 4096}));
  CHECK(pool.find(family, box("batch=9 rows=1 cols=77 typical=5 depth=1")));
  CHECK_FALSE(pool.find(family, box("rows=2000 cols=2000 depth=1")));
  const char *const both = "batch=1..64 rows=1..2048 cols=1..4096";
  CHECK(layer("rows=2000 cols=2000 depth=1") == both);
  // Another layer has portfolios of its own.
  CHECK(layer("rows=2000 cols=2000 depth=2") ==
        "batch=1..1 rows=1..2048 cols=1..2048");
  add(*layerOf(family, box("rows=2000 cols=2000 depth=1"), pool));
  auto known = pool.find(family, box("batch=64 rows=1 cols=4096 depth=1"));
  REQUIRE(known);
  CHECK(known->range().text() == both);
  CHECK(pool.findAlike(known->range()).size() == 1);
}

TEST_CASE_FIXTURE(BoxFixture, "a lone extent's layer has its least values") {
  const FakeFamily lone;
  const Problem problem = makeProblem(lone, "fake m=77 n=64");
  CHECK(layerOf(lone, problem, pool)->text() == "m=1..8192");
}
