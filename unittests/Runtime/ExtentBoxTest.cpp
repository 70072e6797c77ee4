// Ranges of a problem's extents and the parts that they are cut into.
#include "Runtime/ExtentBox.h"

#include "Families/Families.h"
#include "Support/Error.h"

#include <doctest/doctest.h>

using namespace kiln;

TEST_CASE("S2: strides count for the largest batch of a range") {
  Registry registry = makeBuiltinRegistry();
  const int align = registry.find("gemm")->problemSchema().find("align");
  kiln_gemm_args args = kiln_gemm_args_init(); // of one product
  args.m = 100;
  args.n = args.k = 64;
  args.layout = KILN_LAYOUT_NT;
  args.a.type = KILN_BF16;
  args.a.batch_stride = args.b.batch_stride = args.d.batch_stride = 6401;
  kiln_range ranges[2] = {KILN_INIT(kiln_range), KILN_INIT(kiln_range)};
  ranges[0].name = "m";
  ranges[0].first = 1;
  ranges[0].last = 128;
  ranges[1].name = "batch";
  ranges[1].first = 1;
  ranges[1].last = 4;
  kiln_problem problem = KILN_INIT(kiln_problem);
  problem.family = KILN_FAMILY_GEMM;
  problem.args = &args;
  problem.ranges = ranges;
  problem.range_count = 2;
  auto alignment = [&]() -> int64_t {
    auto spec = ProblemSpec::parse(registry, &problem);
    if (!spec) {
      FAIL(summarize(spec.takeError()).message);
      return 0;
    }
    // In every part of the ranges, and so in the plan of each.
    auto boxes = boxesOf(*spec);
    REQUIRE(static_cast<bool>(boxes));
    for (const ExtentBox &box : *boxes)
      CHECK(box.largest.record[align] == spec->problem.record[align]);
    return spec->problem.record[align];
  };
  auto refusal = [&] {
    auto spec = ProblemSpec::parse(registry, &problem);
    return spec ? "" : summarize(spec.takeError()).message;
  };
  for (int64_t described : {1, 2, 4}) {
    args.batch = described;
    CHECK(alignment() == 2);
  }
  args.batch = 1;
  problem.range_count = 1; // one product, whose strides nobody uses
  CHECK(alignment() == 16);
  problem.range_count = 2;
  args.b.batch_stride = args.d.batch_stride = 6400;
  CHECK(alignment() == 2); // A's
  args.a.batch_stride = 0; // one A for all
  CHECK(alignment() == 16);
  args.d.batch_stride = 0;
  CHECK(refusal() == "d.batch_stride is 0 with a batch of 4");
  ranges[1].last = 1;
  CHECK(refusal() == "");
  args.d.batch_stride = -6400;
  CHECK(refusal() == "d.batch_stride is -6400, it may not be negative");
}

TEST_CASE("boxes cover a range exactly") {
  Registry registry = makeBuiltinRegistry();
  const int m = registry.find("gemm")->problemSchema().find("m");
  kiln_problem problem = KILN_INIT(kiln_problem);
  problem.text = "gemm m=1 n=64 k=64 dtype=bf16 layout=NT";
  kiln_range range = KILN_INIT(kiln_range);
  range.name = "m";
  range.first = 0;
  range.last = 70;
  range.hint = 40;
  problem.ranges = &range;
  problem.range_count = 1;
  auto spec = ProblemSpec::parse(registry, &problem);
  REQUIRE(static_cast<bool>(spec));
  auto boxes = boxesOf(*spec);
  REQUIRE(static_cast<bool>(boxes));
  // 1, 2, 3-4, 5-8, 9-16, 17-32, 33-64, 65-70.
  REQUIRE(boxes->size() == 8);
  int64_t next = 1;
  for (const ExtentBox &box : *boxes) {
    CHECK(box.low[0] == next);
    next = box.high[0] + 1;
    CHECK(box.largest.record[m] == box.high[0]);
  }
  CHECK(next == 71);
  CHECK((*boxes)[6].common.record[m] == 40);
}
