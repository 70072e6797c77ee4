// A family with unusual keys: only roles give its fields their meaning.
#include "Call/LaunchArguments.h"
#include "Choice/PlanRequest.h"
#include "Choice/RangeIndex.h"
#include "Kernel/Registry.h"
#include "Support/Error.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

using namespace kiln;

namespace {

struct OddField {
  enum : int { Grain, Width, Shift, Count, Height, Pitch, Gain };
};

/// y = gain * transposed x + shift, in `count` pairs of matrices. The row of y
/// is the dynamic extent; its divisor, up to 64 elements, is the signature.
class OddFamily final : public KernelFamily {
public:
  llvm::StringRef name() const override { return "odd"; }
  const Schema &problemSchema() const override { return problems; }

  llvm::Expected<Problem> canonicalise(Values values) const override {
    if (auto error = values.check())
      return error;
    int64_t length = values[OddField::Height];
    int64_t pitch = pitchOf(values);
    if (pitch < length)
      return makeError(ErrorCode::InvalidArgument,
                       "odd: pitch={} is below height={}", pitch, length);
    if (pitch == length)
      values.set(OddField::Pitch, 0);
    Problem problem;
    int64_t combined = pitch | signaturePeriod();
    problem.signature = Values(signatures, {combined & -combined});
    problem.values = std::move(values);
    return problem;
  }
  bool isEmpty(const Problem &problem) const override {
    return problem.values[OddField::Height] == 0;
  }
  OperandTable operands(const Problem &problem) const override {
    const Values &values = problem.values;
    OperandSpec x;
    x.name = "x";
    x.rows = values[OddField::Height];
    x.cols = x.leadingDimension = values[OddField::Width];
    x.batch = values[OddField::Count];
    x.batchStride = x.rows * x.leadingDimension;
    OperandSpec y = x;
    y.name = "y";
    y.role = OperandRole::Out;
    std::swap(y.rows, y.cols);
    y.leadingDimension = pitchOf(values);
    y.batchStride = y.rows * y.leadingDimension;
    OperandTable table;
    table.operands = {x, y};
    return table;
  }
  int64_t signaturePeriod() const override { return 64; }
  std::unique_ptr<Reference> reference(const Problem &,
                                       const DeviceModel &) const override {
    return nullptr;
  }
  double flops(const Problem &) const override { return 0; }

private:
  static int64_t pitchOf(const Values &values) {
    int64_t pitch = values[OddField::Pitch];
    return pitch ? pitch : values[OddField::Height];
  }

  Schema problems{
      "odd",
      TextStyle::Spaced,
      {{.key = "grain", .role = FieldRole::Alignment, .defaultValue = 16},
       {.key = "width", .required = true},
       {.key = "shift", .kind = FieldKind::Real, .role = FieldRole::Scalar},
       {.key = "count", .role = FieldRole::Batch, .defaultValue = 1},
       {.key = "height", .role = FieldRole::DynamicExtent, .required = true},
       {.key = "pitch", .role = FieldRole::LeadingDimension},
       {.key = "gain",
        .kind = FieldKind::Real,
        .role = FieldRole::Scalar,
        .defaultValue = encodeReal(1)}}};
  Schema signatures{"odd", TextStyle::Spaced, {{.key = "divisor"}}};
};

/// Problems of the family, read as the C interface does.
class OddProblems {
public:
  OddProblems() { llvm::cantFail(registry.add(std::make_unique<OddFamily>())); }
  const KernelFamily &family() const { return *registry.families().front(); }

  llvm::Expected<ProblemSpec> parse(const std::string &text,
                                    std::vector<kiln_range> ranges) const {
    kiln_problem problem = KILN_INIT(kiln_problem);
    problem.text = text.c_str();
    problem.ranges = ranges.data();
    problem.range_count = static_cast<uint32_t>(ranges.size());
    return ProblemSpec::parse(registry, &problem);
  }
  ProblemSpec spec(const std::string &text,
                   std::vector<kiln_range> ranges) const {
    return llvm::cantFail(parse(text, std::move(ranges)));
  }
  std::string refusal(const std::string &text, kiln_range range) const {
    auto spec = parse(text, {range});
    REQUIRE_FALSE(spec);
    return summarize(spec.takeError()).message;
  }

private:
  Registry registry;
};

} // namespace

TEST_CASE("ranges vary what a field's role lets vary") {
  OddProblems odd;
  std::string text = "odd width=8 height=100 count=2";
  ProblemSpec spec =
      odd.spec(text, {rangeOf("count", 1, 4), rangeOf("height", 1, 128)});
  CHECK(spec.problem.text() == "odd width=8 count=4 height=128");
  for (const char *name : {"width", "pitch", "grain", "gain", "batch"})
    CHECK(odd.refusal(text, rangeOf(name, 1, 4)) ==
          "range: odd has no dynamic extent \"" + std::string(name) +
              "\": ranges are of count, height");
}

TEST_CASE("leading dimensions are packed, or as they were given") {
  OddProblems odd;
  auto argumentsAt = [](const ProblemSpec &spec, int64_t height) {
    const Values values(spec.described.schema(), spec.valuesAt({height}));
    Arguments arguments;
    spec.readDefaults(values.array(), arguments);
    const OperandArgument &y = arguments.operands[1];
    return std::pair(y.leadingDimension, y.batchStride);
  };
  using Strides = std::pair<int64_t, int64_t>;
  ProblemSpec packed =
      odd.spec("odd width=8 height=128 count=2", {rangeOf("height", 1, 128)});
  CHECK(argumentsAt(packed, 40) == Strides(40, 8 * 40));
  // At the last value it is the length of the row, and 0 in the problem.
  ProblemSpec given = odd.spec("odd width=8 height=128 count=2 pitch=128",
                               {rangeOf("height", 1, 128)});
  CHECK(given.problem.text() == "odd width=8 count=2 height=128");
  CHECK(argumentsAt(given, 40) == Strides(128, 8 * 128));
}

TEST_CASE("addresses are as aligned as the field of that role promises") {
  OddProblems odd;
  for (int64_t grain : {4, 16}) {
    ProblemSpec spec =
        odd.spec("odd width=8 height=4 grain=" + std::to_string(grain), {});
    for (const CallOperand &operand : operandsOf(spec, spec.problem))
      CHECK(operand.alignment == grain);
  }
}

TEST_CASE("scalars are the schema's, wherever they stand in it") {
  OddProblems odd;
  double scalars[2] = {3, 5};
  void *operands[2] = {reinterpret_cast<void *>(0x1000),
                       reinterpret_cast<void *>(0x2000)};
  kiln_arguments given = KILN_INIT(kiln_arguments);
  given.operands = operands;
  given.operand_count = 2;
  given.scalars = scalars;
  given.scalar_count = 2;
  auto scalarsOf = [&](const char *text) {
    ProblemSpec spec = odd.spec(text, {});
    Arguments arguments;
    llvm::cantFail(readArguments(given, spec, operandsOf(spec, spec.problem),
                                 spec.problem.values.array(), arguments));
    return std::pair(arguments.scalars[0], arguments.scalars[1]);
  };
  using Scalars = std::pair<double, double>;
  CHECK(scalarsOf("odd width=8 height=4 shift=1") == Scalars(3, 5));
  CHECK(scalarsOf("odd width=8 height=4") == Scalars(0, 5)); // no shift
  given.scalar_count = 0;
  CHECK(scalarsOf("odd width=8 height=4 gain=7 shift=2") == Scalars(2, 7));
}

TEST_CASE("a family says after how many elements its signatures repeat") {
  OddProblems odd;
  ProblemSpec spec =
      odd.spec("odd width=8 height=1", {rangeOf("height", 1, 1024)});
  std::vector<ProblemRange> ranges = llvm::cantFail(
      rangesOf(odd.family(), spec.described, int(OddField::Height), 1, 1024));
  for (int64_t height = 1; height <= 1024; ++height) {
    CAPTURE(height);
    Problem problem = llvm::cantFail(spec.at({height}));
    CHECK(std::count_if(ranges.begin(), ranges.end(),
                        [&](const ProblemRange &range) {
                          return serves(range, problem.values);
                        }) == 1);
    // The largest up to a power of two that shares a kernel with it.
    Problem cover = coverOf(odd.family(), problem);
    CHECK(cover.signature == problem.signature);
    int64_t largest = cover.values[OddField::Height];
    for (int64_t above : {1, 2, 4, 8, 16, 32, 64}) {
      Problem next = llvm::cantFail(spec.at({largest + above}));
      bool isBelow =
          largest + above <=
          static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(height)));
      CHECK_FALSE((isBelow && next.signature == problem.signature));
    }
  }
}
