// The dispatch path's reading of the structs of rows.h against the families'
// own canonical form, operands and arguments.
#include "Call/CallChecks.h"

#include "Families/Families.h"

#include <doctest/doctest.h>

#include <limits>
#include <random>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// Random calls of every kind, good and bad.
class RandomCalls {
public:
  explicit RandomCalls(unsigned seed) : random(seed) {}

  /// A struct for \p kind, valid until the next call.
  const void *next(kiln_family kind) {
    rows = pick(0, 1, 1, 3, 64, 100);
    cols = pick(0, 1, 8, 96, 1000);
    type = static_cast<kiln_dtype>(
        pick(KILN_BF16, KILN_BF16, KILN_FP16, KILN_FP32));
    switch (kind) {
    case KILN_FAMILY_ELEMENTWISE:
      return elementwiseCall();
    case KILN_FAMILY_REDUCTION:
      return reduceCall();
    case KILN_FAMILY_SOFTMAX:
      return softmaxCall();
    case KILN_FAMILY_LAYER_NORM:
    case KILN_FAMILY_RMS_NORM:
      return normCall();
    case KILN_FAMILY_QUANTIZE:
      return quantizeCall();
    case KILN_FAMILY_TRANSPOSE:
      return transposeCall();
    }
    return nullptr;
  }

private:
  int64_t pick(auto... values) {
    int64_t list[] = {static_cast<int64_t>(values)...};
    return list[random() % (sizeof(list) / sizeof(*list))];
  }
  kiln_dtype pickType(auto... values) {
    return static_cast<kiln_dtype>(pick(values...));
  }

  /// Sets all of an operand but its type. Few addresses, so some coincide.
  void place(kiln_operand &operand, int64_t packed) {
    operand.data = reinterpret_cast<void *>(0x1000000 * (1 + random() % 60) +
                                            pick(0, 0, 0, 0, 4, 8, 2, 1));
    operand.leading_dim =
        pick(0, 0, 0, packed, packed + 1, packed + 8, packed - 1);
    operand.batch_stride = random() % 40 == 0 ? 7 : 0;
    operand.alignment = static_cast<uint32_t>(pick(0, 0, 0, 0, 0, 4, 16, 3));
    if (pick(0, 0, 0, 0, 0, 0, 0, 1))
      operand.data = nullptr;
    if (pick(0, 0, 0, 0, 0, 0, 0, 0, 0, 1))
      operand.reserved[1] = 1;
  }
  template <class Args> void placeXY(Args &args, int64_t packedY) {
    args.rows = rows;
    args.cols = cols;
    args.x.type = type;
    place(args.x, cols);
    place(args.y, packedY);
    if (pick(0, 0, 0, 1))
      args.y.data = args.x.data;
    switch (pick(0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4)) {
    case 1:
      args.flags = 1;
      break;
    case 2:
      args.max_sms = 4;
      break;
    case 3:
      args.rows = -1;
      break;
    case 4:
      args.reserved[3] = 1;
      break;
    }
  }
  void placeScale(kiln_operand &y) {
    scale = kiln_row_scales_init(
        reinterpret_cast<void *>(0x90000000 + pick(0, 0, 0, 4, 8, 2)));
    scale.type = pickType(0, KILN_FP32, KILN_FP32, KILN_FP16);
    scale.granularity = static_cast<int32_t>(pick(10, 10, 10, 10, 0, 20));
    scale.row_stride = pick(0, 0, 0, 0, 1);
    y.scale = pick(0, 1, 1, 1) ? &scale : nullptr;
  }
  /// Makes an operand that may be absent.
  void placeOptional(kiln_operand &operand, bool isPresent) {
    operand = KILN_INIT(kiln_operand);
    if (isPresent) {
      place(operand, cols);
      operand.type =
          pick(0, 0, 0, 0, 1) ? pickType(KILN_FP16, KILN_BF16) : type;
    } else if (pick(0, 0, 0, 0, 0, 1)) {
      operand.data = reinterpret_cast<void *>(0x1000);
    }
  }

  const void *elementwiseCall() {
    elementwise = KILN_INIT(kiln_elementwise_args);
    placeXY(elementwise, cols);
    elementwise.x.type = pick(0, 0, 0, 1) ? KILN_E4M3 : type;
    elementwise.y.type = pickType(0, 0, KILN_FP32, KILN_E4M3, KILN_INT8);
    elementwise.pointwise = chain;
    elementwise.pointwise_count = random() % 4;
    for (kiln_pointwise &link : chain) {
      link = KILN_INIT(kiln_pointwise);
      link.op = static_cast<int32_t>(
          pick(0, 10, 20, 20, 30, 40, 50, 60, 70, 70, 80, 90, 100, 110, 120));
      place(link.operand, cols);
      if (link.op == KILN_POINTWISE_SCALE || pick(0, 0, 0, 0, 0, 0, 1))
        link.params[0] = static_cast<float>(pick(0, 2, -3));
    }
    return &elementwise;
  }
  const void *reduceCall() {
    reduce = KILN_INIT(kiln_reduce_args);
    placeXY(reduce, 1);
    reduce.op = static_cast<int32_t>(pick(10, 20, 30, 40, 10, 20, 0, 50, -30));
    reduce.axis = static_cast<int32_t>(pick(0, 0, 10, 10, 5));
    reduce.y.type = pickType(0, 0, KILN_FP32, KILN_E4M3);
    return &reduce;
  }
  const void *softmaxCall() {
    softmax = kiln_softmax_args_init();
    placeXY(softmax, cols);
    softmax.scale = pick(0, 0, 0, 0, 1)
                        ? std::numeric_limits<double>::infinity()
                        : double(pick(0, 1, -2));
    softmax.y.type = pickType(0, 0, KILN_FP32, KILN_INT8);
    softmax.mask_kind = static_cast<int32_t>(pick(0, 10, 20, 10, 20, 30, -10));
    place(softmax.mask, cols);
    softmax.mask.type = pickType(0, 0, KILN_FP32);
    return &softmax;
  }
  const void *normCall() {
    norm = kiln_norm_args_init();
    placeXY(norm, cols);
    norm.epsilon = pick(0, 0, 0, 0, 1) ? -1 : double(pick(0, 1)) / 1024;
    norm.y.type = pickType(0, 0, KILN_FP32, KILN_E4M3, KILN_INT8, KILN_FP64);
    bool quantizes = norm.y.type == KILN_E4M3 || norm.y.type == KILN_INT8;
    if (quantizes || pick(0, 0, 0, 0, 1))
      placeScale(norm.y);
    bool hasResidual = pick(0, 1);
    placeOptional(norm.weight, pick(0, 1, 1));
    placeOptional(norm.bias, pick(0, 0, 1));
    placeOptional(norm.residual, hasResidual);
    placeOptional(norm.residual_out, hasResidual != (pick(0, 0, 0, 0, 1) != 0));
    if (pick(0, 1))
      norm.residual_out.data = norm.residual.data;
    return &norm;
  }
  const void *quantizeCall() {
    quantize = KILN_INIT(kiln_quantize_args);
    placeXY(quantize, cols);
    quantize.y.type =
        pickType(KILN_E4M3, KILN_INT8, KILN_INT8, KILN_E4M3, 0, KILN_BF16);
    placeScale(quantize.y);
    return &quantize;
  }
  const void *transposeCall() {
    transpose = KILN_INIT(kiln_transpose_args);
    placeXY(transpose, rows);
    transpose.x.type = pickType(type, type, KILN_E4M3, KILN_INT8, KILN_INT32);
    transpose.y.type = pickType(0, 0, KILN_FP16);
    return &transpose;
  }

  std::mt19937 random;
  int64_t rows = 0, cols = 0;
  kiln_dtype type = 0;
  kiln_scale scale;
  kiln_pointwise chain[KILN_MAX_POINTWISE];
  kiln_elementwise_args elementwise;
  kiln_reduce_args reduce;
  kiln_softmax_args softmax;
  kiln_norm_args norm;
  kiln_quantize_args quantize;
  kiln_transpose_args transpose;
};

/// What a launch gets is what the family's own description says.
void checkArguments(const KernelFamily &family, const Problem &problem,
                    const Arguments &arguments) {
  OperandTable table = family.operands(problem);
  Arguments defaults = family.defaultArguments(problem);
  for (size_t i = 0; i < table.operands.size(); ++i) {
    const OperandSpec &spec = table.operands[i];
    const OperandArgument &given = arguments.operands[i];
    CAPTURE(spec.name.str());
    REQUIRE((given.address != 0) == spec.present);
    if (!spec.present || spec.rows <= 1)
      continue;
    REQUIRE(given.leadingDimension == defaults.operands[i].leadingDimension);
    for (size_t j = 0; j < i && spec.isWritten(); ++j)
      if (arguments.operands[j].address == given.address)
        REQUIRE(spec.mayBe == static_cast<int>(j));
  }
}

} // namespace

TEST_CASE("every kind of call has its family") {
  Registry registry = makeBuiltinRegistry();
  CallTable table(registry);
#define KILN_CALL(function, value, args_type)                                  \
  CHECK(table.find(value).family == findFamily(registry, value));              \
  CHECK(table.find(value).reader->number == value);
#include "Families/Families.def"
  CHECK_FALSE(table.find(KILN_FAMILY_ATTENTION).family);
  CHECK_FALSE(table.find(-1).family);
}

TEST_CASE("what is looked up is the canonical problem over rows") {
  Registry registry = makeBuiltinRegistry();
  for (const auto &family : registry.families()) {
    const CallReader &reader = *family->call();
    if (reader.number == KILN_FAMILY_GEMM) // see GemmCallTest
      continue;
    CAPTURE(family->name().str());
    RandomCalls calls(static_cast<unsigned>(reader.number));
    int good = 0;
    for (int i = 0; i < 30000; ++i) {
      CAPTURE(i);
      CheckedCall checked(*family, calls.next(reader.number));
      if (!checked.problem || checked.call.isEmpty)
        continue;
      checkArguments(*family, *checked.problem, checked.call.arguments);
      ++good;
    }
    CAPTURE(good);
    CHECK(good > 100);
  }
}

TEST_CASE("scalars are normalised to what a choice depends on") {
  Registry registry = makeBuiltinRegistry();
  const RecordSchema &schema = registry.find("gemm")->problemSchema();
  auto parsed = Record::parse(schema, "gemm m=1 n=2 k=3 dtype=bf16 alpha=0 "
                                      "beta=-7");
  REQUIRE(static_cast<bool>(parsed));
  llvm::SmallVector<int64_t, 24> values(parsed->values());
  normaliseScalars(schema, values);
  CHECK(decodeReal(values[schema.find("alpha")]) == 1);
  CHECK(decodeReal(values[schema.find("beta")]) == 1);
}

namespace {
/// A family whose problems have so many fields.
class WideFamily final : public KernelFamily {
public:
  explicit WideFamily(size_t count)
      : schema("wide", TextStyle::Spaced, fieldsOf(count)) {}

  llvm::StringRef name() const override { return "wide"; }
  const RecordSchema &problemSchema() const override { return schema; }
  llvm::Expected<Problem> canonicalise(Record record) const override {
    return Problem{std::move(record), {}};
  }
  bool isEmpty(const Problem &) const override { return true; }
  OperandTable operands(const Problem &) const override { return {}; }
  std::unique_ptr<Reference> reference(const Problem &,
                                       const DeviceModel &) const override {
    return nullptr;
  }
  double flops(const Problem &) const override { return 0; }

private:
  static std::vector<Field> fieldsOf(size_t count) {
    static constexpr char kKeys[] = "abcdefghijklmnopqrstuvwxyz";
    std::vector<Field> fields;
    for (size_t i = 0; i < count; ++i)
      fields.push_back({.key = llvm::StringRef(kKeys + i, 1)});
    return fields;
  }

  RecordSchema schema;
};
} // namespace

TEST_CASE("a family whose problems no key holds is not registered") {
  Registry registry;
  auto add = [&](size_t fields) {
    return summarize(registry.add(std::make_unique<WideFamily>(fields)))
        .message;
  };
  CHECK(add(25) == "a problem of family 'wide' has 25 fields, at most 24 work");
  CHECK(add(24) == "");
  // Without a struct of kiln.h its problems come as text.
  CHECK_FALSE(registry.find("wide")->call());
}
