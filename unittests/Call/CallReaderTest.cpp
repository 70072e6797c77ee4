// The dispatch path's reading of the structs of rows.h and attention.h against
// the families' own canonical form, operands and arguments.
#include "Call/CallChecks.h"
#include "Call/RandomAttention.h"
#include "Call/RandomRope.h"

#include "Call/Visit.h"
#include "Families/Families.h"

#include <doctest/doctest.h>

#include <cstring>
#include <limits>
#include <random>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// Random calls of every kind, good and bad.
class RandomCalls {
public:
  explicit RandomCalls(unsigned seed) : random(seed) {}

  /// A struct for \p kind, valid until the next call; null: has no case here.
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
    case KILN_FAMILY_GATHER:
      return gatherCall();
    case KILN_FAMILY_PREPACK:
      return prepackCall();
    case KILN_FAMILY_ATTENTION:
      return attention.next(random);
    case KILN_FAMILY_ATTENTION_MERGE:
      return attention.nextMerge(random);
    case KILN_FAMILY_ROPE:
      return rope.next(random);
    case KILN_FAMILY_SAMPLE:
      return sampleCall();
    case KILN_FAMILY_ROUTE:
      return routeCall();
    case KILN_FAMILY_COMBINE:
      return combineCall();
    case KILN_FAMILY_ALLREDUCE:
      return allReduceCall();
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
      operand.reserved[0] = 1;
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
      args.determinism = 10;
      break;
    case 3:
      args.rows = -1;
      break;
    case 4:
      args.reserved[3] = 1;
      break;
    }
  }
  void placeScale(kiln_scale &scale) {
    if (!pick(0, 1, 1, 1))
      return;
    scale = kiln_row_scales_init(
        reinterpret_cast<void *>(0x90000000 + pick(0, 0, 0, 4, 8, 2)));
    scale.type = pickType(0, KILN_FP32, KILN_FP32, KILN_FP16);
    scale.granularity =
        static_cast<int32_t>(pick(10, 10, 10, 10, 0, 5, 20, 30, 30, 30));
    if (pick(0, 0, 1) || scale.granularity == KILN_GRANULARITY_BLOCK) {
      scale.block_rows = static_cast<int32_t>(pick(1, 1, 1, 0, 128));
      scale.block_columns = static_cast<int32_t>(pick(128, 128, 128, 64));
    }
    scale.row_stride = pick(0, 0, 0, 0, 1, 1000);
    scale.column_stride = pick(0, 0, 0, 1, 1000);
    scale.reserved0 = static_cast<uint32_t>(pick(0, 0, 0, 0, 0, 0, 0, 1));
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
    if (pick(0, 0, 1))
      placeScale(elementwise.y_scale);
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
    norm.y.type = pickType(0, 0, KILN_FP32, KILN_E4M3, KILN_INT8, KILN_E5M2);
    bool quantizes = norm.y.type == KILN_E4M3 || norm.y.type == KILN_INT8;
    if (quantizes || pick(0, 0, 0, 0, 1))
      placeScale(norm.y_scale);
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
    placeScale(quantize.y_scale);
    return &quantize;
  }
  const void *transposeCall() {
    transpose = KILN_INIT(kiln_transpose_args);
    placeXY(transpose, rows);
    transpose.x.type = pickType(type, type, KILN_E4M3, KILN_INT8, KILN_INT32);
    transpose.y.type = pickType(0, 0, KILN_FP16);
    return &transpose;
  }

  const void *gatherCall() {
    gather = kiln_gather_args_init();
    placeXY(gather, cols);
    // placeXY() may have set the flag of wide integers.
    gather.x.type = pickType(type, type, type, KILN_E4M3, KILN_INT8, KILN_E5M2);
    gather.y.type = pickType(0, 0, 0, KILN_FP16, KILN_FP32, KILN_E4M3);
    gather.batch = pick(1, 1, 1, 1, 2, 0, -1);
    if (gather.batch > 1)
      for (kiln_operand *operand : {&gather.x, &gather.y})
        operand->batch_stride = pick(100000, 100008, 200000, 100, 0, -5);
    gather.x_rows = pick(rows, rows, 1, 64, 100000, 0, -3);
    gather.y_rows = pick(0, 0, 0, rows, 100, 1, -3);
    gather.first = pick(0, 0, 0, 32, -1);
    gather.divisor = pick(1, 1, 1, 1, 8, 0);
    gather.scale = pick(0, 0, 0, 0, 0, 1) ? double(pick(0, 8)) : 1;
    const int64_t arrays = pick(1, 1, 2, 2, 3, 3, 0);
    auto array = [&] {
      return reinterpret_cast<const void *>(0x1000000 * (1 + random() % 60) +
                                            pick(0, 0, 0, 0, 0, 8, 4, 2));
    };
    if (arrays & 1)
      gather.indices = array();
    if (arrays & 2)
      gather.targets = array();
    gather.flags |= static_cast<uint32_t>(pick(0, 0, 0, 0, 1, 1, 2, 4, 8));
    return &gather;
  }

  const void *allReduceCall() {
    allReduce = kiln_allreduce_args_init();
    placeXY(allReduce, cols);
    allReduce.y.type = pickType(0, 0, 0, type, KILN_FP16);
    const bool hasNorm = pick(0, 1), hasResidual = pick(0, 1);
    placeOptional(allReduce.weight, hasNorm);
    placeOptional(allReduce.residual, hasResidual);
    placeOptional(allReduce.residual_out,
                  (hasNorm && hasResidual) != pick(0, 0, 0, 0, 0, 0, 0, 1));
    allReduce.ranks = static_cast<int32_t>(
        pick(2, 2, 2, 2, 2, 2, 3, 4, 4, 4, 8, 8, 1, 9, -1, 1 << 30));
    allReduce.rank =
        static_cast<int32_t>(pick(0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 7, -1));
    allReduce.epsilon =
        static_cast<double>(pick(1, 1, 1, 1, 1, 1, 1, 1, 0, -1));
    for (void *&memory : exchange)
      memory = reinterpret_cast<void *>(0x1000000 * (100 + random() % 600) +
                                        (random() % 40 ? 0 : 8));
    allReduce.exchange = random() % 12 ? exchange : nullptr;
    allReduce.exchange_bytes = static_cast<uint64_t>(
        random() % 12 ? 1 << 20 : pick(1 << 30, 8192, 0, -1));
    return &allReduce;
  }

  const void *sampleCall() {
    sample = kiln_sample_args_init();
    sample.rows = rows;
    sample.vocab = cols;
    sample.logits.type = pickType(type, type, KILN_FP32, KILN_E4M3);
    place(sample.logits, cols);
    auto array = [&](auto *&pointer, bool isThere = true) {
      anyArray(pointer, isThere);
    };
    sample.flags = static_cast<uint32_t>(
        pick(0, 0, 1, KILN_SAMPLE_ADVANCE, KILN_SAMPLE_JOINT, 0x4000));
    const bool isDrawn = pick(0, 1), isPenalised = pick(0, 0, 1);
    array(sample.temperature, isDrawn);
    array(sample.seeds, isDrawn);
    array(sample.positions, isDrawn || pick(0, 1));
    array(sample.top_k, pick(0, 1));
    array(sample.top_p, pick(0, 1));
    array(sample.min_p, pick(0, 0, 1));
    array(sample.repetition, isPenalised);
    array(sample.frequency, isPenalised && pick(0, 1));
    array(sample.history, isPenalised);
    array(sample.history_begins, isPenalised);
    array(sample.history_ends, isPenalised);
    array(sample.prompt_lengths, isPenalised);
    sample.history_count =
        isPenalised ? pick(1, 1000, 256 * rows, 0, -1) : pick(0, 0, 5);
    array(sample.allowed, pick(0, 0, 1));
    array(sample.lengths, pick(0, 0, 0, 0, 1));
    array(sample.tokens);
    array(sample.logprobs, pick(0, 1));
    sample.top_count = pick(0, 0, 0, 1, 20, 33, -1);
    array(sample.top_tokens, sample.top_count > 0);
    array(sample.top_logprobs, sample.top_count > 0);
    sample.scale = pick(1, 1, 1, 1, 2, 0, -3);
    sample.softcap = pick(0, 0, 0, 30, -1);
    sample.reserved[3] = static_cast<uint64_t>(pick(0, 0, 0, 0, 0, 0, 0, 1));
    return &sample;
  }

  /// An array in device memory; few are null or lie wrong.
  template <class T> void anyArray(T *&pointer, bool isThere = true) {
    const uintptr_t address =
        0x1000000 * (100 + random() % 60) + pick(0, 0, 0, 0, 0, 0, 8, 8, 4, 2);
    pointer = isThere && pick(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0)
                  ? reinterpret_cast<T *>(address)
                  : nullptr;
  }

  const void *routeCall() {
    route = kiln_route_args_init();
    route.tokens = rows;
    route.experts = pick(cols, 8, 64, 128);
    route.top_k = pick(1, 2, 8, 8, 0, 33);
    route.logits.type = pickType(type, type, KILN_FP32, KILN_E4M3);
    place(route.logits, route.experts);
    route.score = static_cast<kiln_router_score>(
        pick(KILN_SCORE_SOFTMAX, KILN_SCORE_SIGMOID, KILN_SCORE_SIGMOID, 5));
    route.flags = static_cast<uint32_t>(pick(0, 1, 2, 3, 3, 0x40, 0x200));
    route.groups = pick(0, 0, 0, 4, 8, 3, 40, -1);
    route.top_groups =
        route.groups ? pick(2, 2, 4, 8, 3, 0, 40, -1) : pick(0, 0, 0, 1);
    route.first_expert = pick(0, 0, 0, 4, -1);
    route.local_experts = pick(0, 0, 0, 4, route.experts, -1);
    route.align = pick(0, 0, 1, 128, 8000);
    route.scale = pick(1, 1, 1, 2, 0);
    anyArray(route.logit_bias, pick(0, 1));
    anyArray(route.choice_bias, pick(0, 1));
    anyArray(route.token_count, pick(0, 0, 1));
    anyArray(route.index);
    anyArray(route.ends);
    anyArray(route.weights);
    anyArray(route.chosen, pick(0, 1));
    anyArray(route.sizes, pick(0, 0, 1));
    route.reserved[5] = static_cast<uint64_t>(pick(0, 0, 0, 0, 0, 0, 0, 1));
    return &route;
  }

  const void *combineCall() {
    combine = kiln_combine_args_init();
    combine.tokens = rows;
    combine.cols = cols;
    combine.top_k = pick(1, 2, 8, 8, 32, 0);
    combine.epsilon = pick(0, 1, 1, 1, 1, 1, -1);
    for (kiln_operand *operand :
         {&combine.x, &combine.y, &combine.shared, &combine.residual,
          &combine.residual_out, &combine.norm_weight}) {
      operand->type =
          pickType(type, type, type, type, type, type, 0, 0, 0, KILN_FP32);
      place(*operand, cols);
      if (operand->type == 0 && pick(1, 1, 1, 1, 1, 0))
        *operand = {};
    }
    combine.x.type = type;
    const bool storesSum = combine.residual.type && combine.norm_weight.type;
    if (!storesSum && pick(1, 1, 1, 1, 1, 0))
      combine.residual_out = {};
    if (storesSum && pick(1, 1, 1, 1, 1, 0))
      combine.residual_out.type = type;
    anyArray(combine.weights, pick(0, 1));
    combine.flags = static_cast<uint32_t>(
        combine.weights ? pick(0, 0, 1, 1, 3) : pick(0, 0, 0, 0, 1, 4));
    combine.reserved[2] = static_cast<uint64_t>(pick(0, 0, 0, 0, 0, 0, 0, 1));
    return &combine;
  }

  const void *prepackCall() {
    prepack = KILN_INIT(kiln_prepack_args);
    prepack.flags = static_cast<uint32_t>(pick(0, 0, 1, 1, 1, 2));
    prepack.n = rows;
    prepack.k = cols;
    prepack.source =
        static_cast<int32_t>(pick(10, 20, 30, 40, 50, 60, 70, 70, 0, 80));
    prepack.group_size = static_cast<int32_t>(pick(0, 32, 32, 64, 128, 7, -1));
    for (kiln_operand *operand :
         {&prepack.weights, &prepack.scales, &prepack.zeros, &prepack.packed,
          &prepack.packed_scales, &prepack.packed_zeros}) {
      place(*operand, cols);
      if (pick(0, 1, 1, 1))
        operand->data =
            reinterpret_cast<void *>(0x1000000 * (1 + random() % 60));
    }
    prepack.scales.type = pickType(0, KILN_FP16, KILN_BF16, KILN_FP32,
                                   KILN_E8M0, KILN_E8M0, KILN_INT8);
    prepack.packed.type = pickType(0, 0, KILN_INT8, KILN_FP16);
    return &prepack;
  }

  std::mt19937 random;
  int64_t rows = 0, cols = 0;
  kiln_dtype type = 0;
  kiln_pointwise chain[KILN_MAX_POINTWISE];
  kiln_elementwise_args elementwise;
  kiln_reduce_args reduce;
  kiln_softmax_args softmax;
  kiln_norm_args norm;
  kiln_quantize_args quantize;
  kiln_transpose_args transpose;
  kiln_gather_args gather;
  kiln_sample_args sample;
  kiln_route_args route;
  kiln_combine_args combine;
  kiln_allreduce_args allReduce;
  void *exchange[KILN_ALLREDUCE_MOST_RANKS];
  kiln_prepack_args prepack;
  RandomAttention attention;
  RandomRope rope;
};

/// A launch gets the arguments of the family's own description.
void checkArguments(const KernelFamily &family, const Problem &problem,
                    const Arguments &arguments) {
  OperandTable table = family.operands(problem);
  Arguments defaults = family.defaultArguments(problem);
  for (size_t i = 0; i < table.operands.size(); ++i) {
    const OperandSpec &spec = table.operands[i];
    const OperandArgument &given = arguments.operands[i];
    CAPTURE(spec.name.str());
    // If there are no elements, no address is needed.
    REQUIRE((given.address == 0 || spec.present));
    REQUIRE((given.address != 0 || spec.bytes() == 0));
    if (spec.bytes() == 0)
      continue;
    const OperandArgument &packed = defaults.operands[i];
    REQUIRE(
        (spec.rows <= 1 || given.leadingDimension == packed.leadingDimension));
    if (spec.planes > 1 && spec.cols > 1)
      REQUIRE(given.planeStride == packed.planeStride);
    for (size_t j = 0; j < i && spec.isWritten(); ++j)
      if (arguments.operands[j].address == given.address)
        REQUIRE(spec.mayBe == static_cast<int>(j));
  }
}

} // namespace

TEST_CASE("every kind of call has its family") {
  Registry registry = makeBuiltinRegistry();
  const CallTable table = llvm::cantFail(CallTable::create(registry));
  int listed = 0;
#define KILN_CALL(function, value, args_type)                                  \
  CHECK(table.find(value).family == findFamily(registry, value));              \
  CHECK(table.find(value).reader->number == value);                            \
  CHECK(table.find(value).reader->argsType == &kTypeTag<args_type>);           \
  ++listed;
#include "Families/Families.def"
  int known = 0;
  for (const auto &family : registry.families())
    known += family->call() != nullptr;
  CHECK(known == listed);
  CHECK_FALSE(table.find(KILN_FAMILY_PREPACK + 1).family);
  CHECK_FALSE(table.find(-1).family);
}

TEST_CASE("what is looked up is the canonical problem") {
  Registry registry = makeBuiltinRegistry();
  for (const auto &family : registry.families()) {
    // A family without a struct has nothing to read; gemm's struct is drawn by
    // its own test, with the fields that no other struct has.
    if (!family->call() || family->call()->number == KILN_FAMILY_GEMM)
      continue;
    const CallReader &reader = *family->call();
    CAPTURE(family->name().str());
    RandomCalls calls(static_cast<unsigned>(reader.number));
    if (!calls.next(reader.number)) {
      FAIL_CHECK(family->name().str(),
                 " has no case in RandomCalls::next: add one");
      continue;
    }
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
  const Schema &schema = registry.find("gemm")->problemSchema();
  auto parsed = Values::parse(schema, "gemm m=1 n=2 k=3 dtype=bf16 alpha=0 "
                                      "beta=-7");
  REQUIRE(static_cast<bool>(parsed));
  llvm::SmallVector<int64_t, 24> values(parsed->array());
  normaliseScalars(schema, values);
  CHECK(decodeReal(values[schema.find("alpha")]) == 1);
  CHECK(decodeReal(values[schema.find("beta")]) == 1);
}

namespace {
/// The number of fields.
std::vector<Field> fieldsOf(size_t count) {
  static constexpr char kKeys[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789";
  std::vector<Field> fields;
  for (size_t i = 0; i < count; ++i)
    fields.push_back({.key = llvm::StringRef(kKeys + i, 1)});
  return fields;
}

/// A family whose problems have these fields.
class OtherFamily : public KernelFamily {
public:
  OtherFamily(llvm::StringRef name, std::vector<Field> fields,
              const CallReader *reader = nullptr)
      : reader(reader), schema(name, TextStyle::Spaced, std::move(fields)) {}

  llvm::StringRef name() const override { return schema.name(); }
  const CallReader *call() const override { return reader; }
  const Schema &problemSchema() const override { return schema; }
  llvm::Expected<Problem> canonicalise(Values values) const override {
    return Problem{std::move(values), {}};
  }
  bool isEmpty(const Problem &) const override { return true; }
  OperandTable operands(const Problem &) const override { return {}; }
  std::unique_ptr<Reference> reference(const Problem &,
                                       const DeviceModel &) const override {
    return nullptr;
  }
  double flops(const Problem &) const override { return 0; }

private:
  const CallReader *reader;
  Schema schema;
};

/// A family whose problems have another name.
class MisnamedFamily final : public OtherFamily {
public:
  MisnamedFamily() : OtherFamily("one", fieldsOf(1)) {}
  llvm::StringRef name() const override { return "another"; }
};
} // namespace

TEST_CASE("a family has the name of its problems") {
  Registry registry;
  auto error = registry.add(std::make_unique<MisnamedFamily>());
  CHECK(summarize(std::move(error)).message ==
        "problems of family 'another' are called 'one'");
}

TEST_CASE("a family whose problems no key holds is not registered") {
  Registry registry;
  auto add = [&](size_t fields) {
    return summarize(registry.add(std::make_unique<OtherFamily>(
                         "wide", fieldsOf(fields))))
        .message;
  };
  CHECK(add(57) == "a problem of family 'wide' has 57 fields, at most 56 work");
  CHECK(add(56) == "");
  // Without a struct of kiln.h its problems come as text.
  CHECK_FALSE(registry.find("wide")->call());
}

TEST_CASE("two scalars of a family have two slots") {
  Registry registry;
  std::vector<Field> fields = fieldsOf(3);
  fields[0].slot = fields[2].slot = 4;
  auto error = registry.add(std::make_unique<OtherFamily>("odd", fields));
  CHECK(summarize(std::move(error)).message ==
        "a and c of family 'odd' both have slot 4");
  fields[2].slot = 5;
  error = registry.add(std::make_unique<OtherFamily>("odd", fields));
  CHECK(summarize(std::move(error)).message == "");
}

TEST_CASE("two families with one number make no table") {
  Registry registry = makeBuiltinRegistry();
  const CallReader *reader = registry.find("transpose2d")->call();
  llvm::cantFail(registry.add(
      std::make_unique<OtherFamily>("again", fieldsOf(1), reader)));
  auto table = CallTable::create(registry);
  REQUIRE_FALSE(static_cast<bool>(table));
  CHECK(summarize(table.takeError()).message ==
        "families 'transpose2d' and 'again' both have the number 120");
}

namespace {
/// A gemm with a chain of \p count links, \p stride bytes apart, that all say
/// \p size; the last says \p lastSize.
struct ChainOfSizes {
  ChainOfSizes(uint32_t count, uint32_t stride, uint32_t size,
               uint32_t lastSize) {
    args.m = args.n = args.k = 64;
    args.a.type = KILN_BF16;
    args.a.data = reinterpret_cast<void *>(0x1000000);
    args.b.data = reinterpret_cast<void *>(0x2000000);
    args.d.data = reinterpret_cast<void *>(0x3000000);
    args.pointwise = reinterpret_cast<const kiln_pointwise *>(bytes);
    args.pointwise_count = count;
    for (uint32_t i = 0; i < count; ++i) {
      kiln_pointwise link = KILN_INIT(kiln_pointwise);
      link.struct_size = i + 1 < count ? size : lastSize;
      link.op = KILN_POINTWISE_RELU;
      std::memcpy(bytes + size_t(i) * stride, &link, sizeof(link));
    }
  }
  ChainOfSizes(const ChainOfSizes &) = delete;

  kiln_gemm_args args = kiln_gemm_args_init();
  alignas(kiln_pointwise) char bytes[1024] = {};
};
} // namespace

TEST_CASE("links of a chain have one size, which is their stride") {
  const Registry registry = makeBuiltinRegistry();
  const KernelFamily &gemm = *registry.find("gemm");
  constexpr uint32_t kSize = sizeof(kiln_pointwise);
  auto check = [&](const ChainOfSizes &chain, llvm::StringRef message) {
    const CheckedCall checked(gemm, &chain.args);
    CHECK(checked.isRead == message.empty());
    CHECK(checked.message == message);
  };
  check({2, kSize, kSize, kSize}, "");
  check({2, 2 * kSize, 2 * kSize, 2 * kSize}, "");
  check({1, kSize, kSize, kSize + 4},
        "pointwise: struct_size 100 is not a stride of an array");
  check({2, 2 * kSize, 2 * kSize, kSize},
        "pointwise: element 1 has struct_size 96, the first has 192");
}

TEST_CASE("a value beyond its limit names the limit") {
  const Registry registry = makeBuiltinRegistry();
  auto message = [&](const char *family, const auto &args) {
    return CheckedCall(*registry.find(family), &args).message;
  };
  kiln_transpose_args transpose = KILN_INIT(kiln_transpose_args);
  transpose.x.type = KILN_BF16;
  transpose.x.leading_dim = int64_t(1) << 41;
  CHECK(message("transpose2d", transpose) ==
        "x.leading_dim is 2199023255552, at most 1099511627776 works");
  kiln_norm_args norm = kiln_norm_args_init();
  norm.x.type = KILN_BF16;
  norm.epsilon = -1;
  CHECK(message("rmsnorm", norm) == "epsilon is -1: it must be at least 0");
  norm.epsilon = 1e-60;
  CHECK(message("rmsnorm", norm) ==
        "epsilon is 1e-60: it must be finite in fp32, and not be rounded to 0");
  kiln_gather_args gather = kiln_gather_args_init();
  gather.rows = gather.cols = 8;
  gather.x.type = KILN_BF16;
  gather.x.data = reinterpret_cast<void *>(0x1000);
  gather.y.data = reinterpret_cast<void *>(0x2000);
  gather.indices = reinterpret_cast<void *>(0x3000);
  CHECK(message("gather", gather) == "x_rows is 0: the rows of x are required");
  gather.x_rows = 9;
  gather.y_rows = 10;
  CHECK(message("gather", gather) ==
        "y_rows is 10, without targets it is rows, 8");
  gather.y_rows = 8;
  gather.scale = 0;
  CHECK(message("gather", gather) ==
        "scale is 0: kiln_gather_args_init() sets it to 1");
  gather.scale = 1;
  gather.indices = nullptr;
  CHECK(message("gather", gather) ==
        "indices and targets are null: one of them is required");
  kiln_gemm_args gemm = kiln_gemm_args_init();
  gemm.a.type = gemm.b.type = gemm.d.type = KILN_BF16;
  gemm.alpha = 1e39;
  CHECK(message("gemm", gemm) ==
        "alpha is 1e+39: it must be finite in fp32, and not be rounded to 0");
}
