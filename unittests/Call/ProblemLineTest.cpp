// Problems and their ranges as lines of text.
#include "Call/ProblemLine.h"

#include "Call/ProblemRange.h"
#include "Call/RangeParts.h"
#include "Families/Families.h"
#include "Support/Error.h"

#include <doctest/doctest.h>

using namespace kiln;

static std::string errorOfLine(llvm::StringRef text) {
  auto line = ProblemLine::parse(text);
  return line ? "" : summarize(line.takeError()).message;
}

TEST_CASE("a line has a problem and ranges") {
  const llvm::StringRef text =
      "attention batch=8 sq=1 sk=8192 heads=4 d=64 dtype=bf16; "
      "batch=1..8 sk=1..8192:6144";
  auto line = ProblemLine::parse(text);
  REQUIRE(static_cast<bool>(line));
  CHECK(line->problem ==
        "attention batch=8 sq=1 sk=8192 heads=4 d=64 dtype=bf16");
  REQUIRE(line->ranges.size() == 2);
  CHECK(line->ranges[0].key == "batch");
  CHECK(line->ranges[0].hint == 0);
  CHECK(line->ranges[1].first == 1);
  CHECK(line->ranges[1].last == 8192);
  CHECK(line->ranges[1].hint == 6144);
  CHECK(line->text() == text);
  auto alone = ProblemLine::parse("reduce rows=1 cols=2 dtype=fp32 op=sum");
  REQUIRE(static_cast<bool>(alone));
  CHECK(alone->ranges.empty());
  CHECK(alone->text() == "reduce rows=1 cols=2 dtype=fp32 op=sum");
}

TEST_CASE("lines of another form are refused") {
  for (const char *text : {"", "  ", "; m=1..8"})
    CHECK(errorOfLine(text).find("has no problem") != std::string::npos);
  for (const char *range :
       {"m", "m=", "m=1", "m=1..", "m=..8", "=1..8", "m=1..8:", "m=1..8:x",
        "m=a..8", "m=1..99999999999999999999", "m=1..8,n=1..8"}) {
    CAPTURE(range);
    CHECK(errorOfLine(std::string("gemm m=1; ") + range)
              .find("is not a range such as m=1..8192") != std::string::npos);
  }
}

/// The line of a spec describes what the spec does, and is its own line.
static void checkRoundTrip(const Registry &registry,
                           const kiln_problem &problem) {
  auto spec = ProblemSpec::parse(registry, &problem);
  REQUIRE(static_cast<bool>(spec));
  const std::string text = ProblemLine::of(*spec).text();
  CAPTURE(text);
  auto line = ProblemLine::parse(text);
  REQUIRE(static_cast<bool>(line));
  auto again = line->read(registry);
  REQUIRE(static_cast<bool>(again));
  CHECK(ProblemLine::of(*again).text() == text);
  CHECK(again->problem.values == spec->problem.values);
  CHECK(again->problem.signature == spec->problem.signature);
  if (spec->ranges.empty())
    return;
  auto parts = partsOf(*spec), same = partsOf(*again);
  REQUIRE(static_cast<bool>(parts));
  REQUIRE(static_cast<bool>(same));
  REQUIRE(parts->size() == same->size());
  for (size_t i = 0; i < parts->size(); ++i) {
    CHECK((*parts)[i].range.fixedText() == (*same)[i].range.fixedText());
    CHECK((*parts)[i].range.text() == (*same)[i].range.text());
  }
}

TEST_CASE("the line of a struct describes the same problems") {
  const Registry registry = makeBuiltinRegistry();
  auto check = [&](kiln_family family, const void *args,
                   std::vector<kiln_range> ranges) {
    kiln_problem problem = KILN_INIT(kiln_problem);
    problem.family = family;
    problem.args = args;
    problem.ranges = ranges.data();
    problem.range_count = static_cast<uint32_t>(ranges.size());
    checkRoundTrip(registry, problem);
  };
  auto range = [](const char *name, int64_t last, int64_t hint = 0) {
    kiln_range made = KILN_INIT(kiln_range);
    made.name = name;
    made.first = 1;
    made.last = last;
    made.hint = hint;
    return made;
  };
  kiln_gemm_args product = kiln_gemm_args_init();
  product.m = 64;
  product.n = 200;
  product.k = 128;
  product.a.type = KILN_BF16;
  product.layout = KILN_LAYOUT_NT;
  check(KILN_FAMILY_GEMM, &product, {});
  check(KILN_FAMILY_GEMM, &product, {range("m", 4096, 64)});
  product.d.leading_dim = 512;
  product.beta = 1;
  check(KILN_FAMILY_GEMM, &product, {range("m", 100)});
  kiln_norm_args norm = kiln_norm_args_init();
  norm.rows = 7;
  norm.cols = 96;
  norm.x.type = KILN_FP16;
  norm.weight.type = KILN_FP16;
  norm.epsilon = 1e-6;
  check(KILN_FAMILY_RMS_NORM, &norm, {range("rows", 77)});
  kiln_attention_args attention = kiln_attention_args_init();
  attention.batch = 3;
  attention.queries = 1;
  attention.keys = 500;
  attention.heads = 8;
  attention.kv_heads = 2;
  attention.head_dim = 64;
  attention.q.type = KILN_BF16;
  attention.q.token_stride = 1024;
  check(KILN_FAMILY_ATTENTION, &attention,
        {range("batch", 9), range("sk", 500, 300)});
}

TEST_CASE(
    "a line with a problem that nobody knows is refused when it is read") {
  const Registry registry = makeBuiltinRegistry();
  for (const char *text : {"gem m=1", "gemm m=1 n=2 k=3 dtype=bf16; q=1..2",
                           "gemm m=1 n=2 k=3 dtype=bf16; m=9..2"}) {
    CAPTURE(text);
    auto line = ProblemLine::parse(text);
    REQUIRE(static_cast<bool>(line));
    auto spec = line->read(registry);
    CHECK_FALSE(static_cast<bool>(spec));
    llvm::consumeError(spec.takeError());
  }
}
