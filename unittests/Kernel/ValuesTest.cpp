#include "Kernel/Values.h"

#include "Support/Error.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

using namespace kiln;
using llvm::json::Object;

static const FieldName kTypes[] = {{10, "bf16"}, {20, "fp32"}};
static const FieldName kOps[] = {{10, "bias"}, {30, "relu"}, {200, "last"}};

static const Schema &problemSchema() {
  static const Schema schema(
      "gemm", TextStyle::Spaced,
      {{.key = "m", .role = FieldRole::DynamicExtent, .required = true},
       {.key = "n", .required = true, .maximum = 1000000},
       {.key = "dtype",
        .kind = FieldKind::Enum,
        .required = true,
        .names = kTypes},
       {.key = "batch", .defaultValue = 1},
       {.key = "pointwise", .kind = FieldKind::Chain, .names = kOps},
       {.key = "alpha",
        .kind = FieldKind::Real,
        .defaultValue = encodeReal(1.0)}});
  return schema;
}

static const Schema &configSchema() {
  static const Schema schema("mma", TextStyle::Dotted,
                             {{.key = "b", .required = true},
                              {.key = "bm", .required = true},
                              {.key = "bmx", .defaultValue = 7}});
  return schema;
}

static std::string failure(llvm::Expected<Values> values) {
  REQUIRE(!values);
  ErrorSummary summary = summarize(values.takeError());
  CHECK(summary.code == ErrorCode::InvalidArgument);
  return summary.message;
}

TEST_CASE("defaults are omitted and the order is the schema's") {
  auto values = Values::parse(problemSchema(),
                              "gemm batch=1 dtype=bf16 n=3 m=0 alpha=1.0");
  REQUIRE(bool(values));
  CHECK(values->text() == "gemm m=0 n=3 dtype=bf16");
}

TEST_CASE("print and parse are inverse, in text and in JSON") {
  std::mt19937_64 random(1);
  for (int i = 0; i < 500; ++i) {
    Values values(problemSchema());
    values.set("m", static_cast<int64_t>(random() >> 1));
    values.set("n", static_cast<int64_t>(random() % 1000001));
    values.set("dtype", random() % 2 ? 10 : 20);
    values.set("batch", static_cast<int64_t>(random() % 3));
    values.set("pointwise", random() % 2 ? 0x0a | 0xc8 << 8 : 0);
    values.set("alpha", encodeReal(static_cast<double>(random()) / 7e18));
    auto fromText = Values::parse(problemSchema(), values.text());
    REQUIRE(bool(fromText));
    CHECK(*fromText == values);
    auto fromJson = Values::fromJson(problemSchema(), values.toJson());
    REQUIRE(bool(fromJson));
    CHECK(*fromJson == values);
  }
}

TEST_CASE("dotted text takes the longest key") {
  auto values = Values::parse(configSchema(), "mma.bm128.b2.bmx9");
  REQUIRE(bool(values));
  CHECK(values->get("bm") == 128);
  CHECK(values->get("b") == 2);
  CHECK(values->get("bmx") == 9);
  CHECK(values->text() == "mma.b2.bm128.bmx9");
}

TEST_CASE("bad text is refused by schema, key and value") {
  auto bad = [](llvm::StringRef text) {
    return failure(Values::parse(problemSchema(), text));
  };
  CHECK(bad("gemm n=1 dtype=bf16") == "gemm: m is missing");
  CHECK(bad("gemm m=1 m=2") == "gemm: m is given twice");
  CHECK(bad("gemm m=x") == "gemm: m=x is not an integer");
  CHECK(bad("gemm m=-1") == "gemm: m=-1 is below 0");
  CHECK(bad("gemm m=1 n=1000001") == "gemm: n=1000001 is above 1000000");
  CHECK(bad("gemm m=99999999999999999999") ==
        "gemm: m=99999999999999999999 is not an integer");
  CHECK(bad("gemm dtype=int3") == "gemm: dtype=int3 is not one of bf16, fp32");
  CHECK(bad("gemm alpha=nan") == "gemm: alpha=nan is not a finite number");
  CHECK(bad("gemm m") == "gemm: 'm' is not of the form key=value");
  CHECK(bad("gemm q=1").find("gemm: unknown key 'q'") == 0);
  CHECK(bad(std::string(5000, 'm')).find("gemm: 5000 bytes") == 0);
  CHECK(bad("gemm pointwise=relu,,relu").find("gemm: pointwise= is not") == 0);
  CHECK(failure(Values::parse(configSchema(), "simt.bm1")) ==
        "'simt.bm1' does not begin with mma");
}

TEST_CASE("bad JSON values are refused") {
  auto bad = [](llvm::json::Object object) {
    return failure(Values::fromJson(problemSchema(), object));
  };
  CHECK(bad(Object{{"m", 1.5}}) == "gemm: m is not an integer");
  CHECK(bad(Object{{"dtype", 3}}) == "gemm: dtype is not a string");
  CHECK(bad(Object{{"name", "x"}}).find("gemm: unknown key 'name'") == 0);
}

TEST_CASE("values that were set one by one are checked like parsed ones") {
  auto good = Values::parse(problemSchema(), "m=1 n=2 dtype=bf16");
  REQUIRE(bool(good));
  auto fault = [&](llvm::StringRef key, int64_t value) {
    Values values = *good;
    values.set(key, value);
    return summarize(values.check()).message;
  };
  CHECK(fault("m", 5) == "");
  CHECK(fault("m", -1) == "gemm: m=-1 is below 0");
  CHECK(fault("n", 1000001) == "gemm: n=1000001 is above 1000000");
  CHECK(fault("dtype", 11) == "gemm: dtype has no value 0xb");
  CHECK(fault("pointwise", 10 | 200 << 8) == "");
  CHECK(fault("pointwise", 11) == "gemm: pointwise has no value 0xb");
  // A gap ends a chain: later names would be lost in its text.
  CHECK(fault("pointwise", 10 << 8) == "gemm: pointwise has no value 0xa00");
  CHECK(fault("alpha", encodeReal(-2.5)) == "");
  CHECK(fault("alpha", encodeReal(INFINITY)).find("alpha has no value") !=
        std::string::npos);
}

TEST_CASE("zero has one encoding") {
  CHECK(encodeReal(-0.0) == encodeReal(0.0));
  auto a = Values::parse(problemSchema(), "m=1 n=2 dtype=bf16 alpha=-0");
  REQUIRE(bool(a));
  CHECK(a->text() == "gemm m=1 n=2 dtype=bf16 alpha=0");
}

TEST_CASE("equal records have equal keys") {
  auto a = Values::parse(problemSchema(), "m=1 n=2 dtype=bf16");
  auto b = Values::parse(problemSchema(), "gemm dtype=bf16 batch=1 n=2 m=1");
  REQUIRE((bool(a) && bool(b)));
  CHECK(a->hash() == b->hash());
}

TEST_CASE("roles say which fields are dynamic, hints or incidental") {
  const Schema schema(
      "waves", TextStyle::Spaced,
      {{.key = "batch", .role = FieldRole::DynamicExtent, .required = true},
       {.key = "rows", .role = FieldRole::DynamicExtent, .required = true},
       {.key = "heads"},
       {.key = "typical", .role = FieldRole::Hint},
       {.key = "pitch", .role = FieldRole::Stride},
       {.key = "room", .role = FieldRole::Capacity},
       {.key = "gain",
        .kind = FieldKind::Real,
        .role = FieldRole::Scalar,
        .defaultValue = encodeReal(1)}});
  CHECK(schema.dynamicExtents() == llvm::ArrayRef<int>({0, 1}));
  CHECK(schema.hintOf(0) == -1); // rows comes before it
  CHECK(schema.hintOf(1) == 3);
  std::string fixed, incidental;
  for (const Field &field : schema.fields()) {
    if (field.isFixed())
      fixed += field.key.str() + " ";
    if (field.isIncidental())
      incidental += field.key.str() + " ";
  }
  CHECK(fixed == "heads pitch ");
  CHECK(incidental == "typical room ");
  CHECK(problemSchema().dynamicExtents() == llvm::ArrayRef<int>(0));
}
