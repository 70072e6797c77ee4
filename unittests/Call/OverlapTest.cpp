// The memory that operands of a launch may share, in structs by both of their
// readers, and in kiln_arguments.
#include "Call/CallChecks.h"
#include "Call/LaunchArguments.h"

#include "Call/Visit.h"
#include "Families/Families.h"
#include "Families/Transpose/TransposeProblem.h"

#include <doctest/doctest.h>

#include <limits>
#include <map>
#include <string>
#include <vector>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// A good call of a family, and the places of the addresses in its struct.
struct FullCall {
  const void *args = nullptr;
  std::vector<void **> places;
};

/// Good calls with as many operands as their families take.
class FullCalls {
public:
  FullCalls(const FullCalls &) = delete;
  FullCalls() {
    gemm.m = gemm.n = gemm.k = 64;
    gemm.a.type = KILN_BF16;
    gemm.beta = 1;
    setChain(gemm, gemmLinks);
    gemmLinks[0].op = KILN_POINTWISE_BIAS;
    gemmLinks[1].op = KILN_POINTWISE_RESIDUAL;
    batched = gemm;
    batched.batch = 2;
    for (kiln_operand *operand :
         {&batched.a, &batched.b, &batched.c, &batched.d})
      operand->batch_stride = 64 * 64;
    setXY(norm);
    norm.weight.type = norm.bias.type = norm.residual.type =
        norm.residual_out.type = KILN_BF16;
    quantizingNorm = norm;
    quantizingNorm.y.type = KILN_E4M3;
    quantizingNorm.y_scale = kiln_block_scales_init(nullptr, 1, 128);
    setXY(softmax);
    softmax.mask_kind = KILN_MASK_MATRIX;
    setXY(quantize);
    quantize.y.type = KILN_INT8;
    quantize.y_scale = kiln_row_scales_init(nullptr);
    setXY(reduce);
    reduce.op = KILN_REDUCTION_SUM;
    setXY(transpose);
    setXY(gather);
    gather.x_rows = 64;
    gather.flags = KILN_GATHER_HAS_INDICES | KILN_GATHER_HAS_TARGETS;
    copy = gather;
    copy.batch = 2;
    copy.x.batch_stride = copy.y.batch_stride = 64 * 64;
    gather.y.type = KILN_FP32;
    setXY(allReduce);
    allReduce.weight.type = allReduce.residual.type =
        allReduce.residual_out.type = KILN_BF16;
    allReduce.exchange = exchange;
    allReduce.exchange_bytes = 1 << 20;
    setSample(sample);
    setRoute(route);
    setCombine(combine);
    setCombine(normCombine);
    normCombine.norm_weight.type = normCombine.residual_out.type = KILN_BF16;
    prepack.flags = KILN_PREPACK_HAS_ZEROS;
    prepack.n = prepack.k = 64;
    prepack.source = KILN_WEIGHTS_AWQ;
    setHeads(attention);
    attention.q.type = KILN_E4M3;
    for (kiln_heads_operand *operand :
         {&attention.q, &attention.k, &attention.v})
      operand->scale = kiln_tensor_scale_init(nullptr);
    attention.flags |= KILN_ATTENTION_HAS_KEY_LENGTHS |
                       KILN_ATTENTION_HAS_PAGE_TABLE |
                       KILN_ATTENTION_HAS_PAGE_OFFSETS;
    attention.page_size = 16;
    merge.batch = 2;
    merge.queries = merge.value_dim = 64;
    merge.heads = 4;
    merge.o1.type = KILN_BF16;
    merge.flags = KILN_ATTENTION_HAS_LSE;
    setHeads(packedAttention);
    packedAttention.flags |= KILN_ATTENTION_HAS_KEY_OFFSETS;
    rope.tokens = rope.head_dim = rope.rotary_dim = 64;
    rope.heads = rope.kv_heads = 4;
    rope.page_size = rope.page_count = 16;
    rope.q.type = rope.k.type = rope.q_out.type = rope.k_out.type = KILN_BF16;
    rope.q_weight.type = rope.k_weight.type = KILN_BF16;
    for (kiln_heads_operand *cache : {&rope.k_cache, &rope.v_cache}) {
      cache->type = KILN_E4M3;
      cache->scale = kiln_tensor_scale_init(nullptr);
    }
    rope.flags = KILN_ROPE_HAS_PAGE_TABLE | KILN_ROPE_HAS_SEQUENCES;
    rope.page_table_rows = rope.page_table_columns = 4;
    rope.table_rows = 64;
    setXY(elementwise);
    setChain(elementwise, links);
    links[0].op = KILN_POINTWISE_RESIDUAL;
    links[1].op = KILN_POINTWISE_MUL;
    links[2].op = KILN_POINTWISE_BIAS;
    links[3].op = KILN_POINTWISE_ROW_BIAS;
    quantizing = elementwise;
    quantizing.pointwise_count = 2;
    quantizing.y.type = KILN_INT8;
    quantizing.y_scale = kiln_block_scales_init(nullptr, 1, 128);
  }

  /// Empty for a family that has no case here.
  std::vector<FullCall> of(kiln_family number) {
    switch (number) {
    case KILN_FAMILY_GEMM:
      return {gemmCall(gemm), gemmCall(batched)};
    case KILN_FAMILY_RMS_NORM:
    case KILN_FAMILY_LAYER_NORM:
      return {normCall(norm), normCall(quantizingNorm)};
    case KILN_FAMILY_SOFTMAX:
      return {
          {&softmax, {&softmax.x.data, &softmax.y.data, &softmax.mask.data}}};
    case KILN_FAMILY_QUANTIZE:
      return {{&quantize,
               {&quantize.x.data, &quantize.y.data, &quantize.y_scale.data}}};
    case KILN_FAMILY_REDUCTION:
      return {{&reduce, {&reduce.x.data, &reduce.y.data}}};
    case KILN_FAMILY_TRANSPOSE:
      return {{&transpose, {&transpose.x.data, &transpose.y.data}}};
    case KILN_FAMILY_GATHER:
      return {gatherCall(gather), gatherCall(copy)};
    case KILN_FAMILY_PREPACK:
      return {{&prepack,
               {&prepack.weights.data, &prepack.scales.data,
                &prepack.zeros.data, &prepack.packed.data,
                &prepack.packed_scales.data, &prepack.packed_zeros.data}}};
    case KILN_FAMILY_ATTENTION:
      return attentionCalls();
    case KILN_FAMILY_ATTENTION_MERGE:
      return {{&merge,
               {&merge.o1.data, &merge.o2.data, &merge.o.data,
                placeOf(merge.lse1), placeOf(merge.lse2), placeOf(merge.lse)}}};
    case KILN_FAMILY_ROPE:
      return {{&rope,
               {&rope.q.data, &rope.k.data, &rope.v.data, &rope.q_out.data,
                &rope.k_out.data, &rope.k_cache.data, &rope.v_cache.data,
                &rope.table.data, &rope.q_weight.data, &rope.k_weight.data,
                placeOf(rope.positions), placeOf(rope.page_table),
                placeOf(rope.sequences), &rope.k_cache.scale.data,
                &rope.v_cache.scale.data}}};
    case KILN_FAMILY_SAMPLE:
      return {{&sample,
               {&sample.logits.data,
                placeOf(sample.temperature),
                placeOf(sample.top_k),
                placeOf(sample.top_p),
                placeOf(sample.min_p),
                placeOf(sample.repetition),
                placeOf(sample.frequency),
                placeOf(sample.presence),
                placeOf(sample.seeds),
                placeOf(sample.positions),
                placeOf(sample.lengths),
                placeOf(sample.history),
                placeOf(sample.history_begins),
                placeOf(sample.history_ends),
                placeOf(sample.prompt_lengths),
                placeOf(sample.allowed),
                placeOf(sample.tokens),
                placeOf(sample.logprobs),
                placeOf(sample.top_tokens),
                placeOf(sample.top_logprobs)}}};
    case KILN_FAMILY_ROUTE:
      return {
          {&route,
           {&route.logits.data, placeOf(route.logit_bias),
            placeOf(route.choice_bias), placeOf(route.token_count),
            placeOf(route.index), placeOf(route.ends), placeOf(route.weights),
            placeOf(route.chosen), placeOf(route.sizes)}}};
    case KILN_FAMILY_COMBINE:
      return {combineCall(combine), combineCall(normCombine)};
    case KILN_FAMILY_ALLREDUCE:
      return {{&allReduce,
               {&allReduce.x.data, &allReduce.y.data, &allReduce.weight.data,
                &allReduce.residual.data, &allReduce.residual_out.data}}};
    case KILN_FAMILY_ELEMENTWISE:
      return {{&elementwise,
               {&elementwise.x.data, &elementwise.y.data,
                &links[0].operand.data, &links[1].operand.data,
                &links[2].operand.data, &links[3].operand.data}},
              {&quantizing,
               {&quantizing.x.data, &quantizing.y.data, &links[0].operand.data,
                &links[1].operand.data, &quantizing.y_scale.data}}};
    }
    return {};
  }

private:
  template <class Args> static void setXY(Args &args) {
    args.rows = args.cols = 64;
    args.x.type = KILN_BF16;
  }
  static void setSample(kiln_sample_args &args) {
    args.rows = args.vocab = 64;
    args.logits.type = KILN_BF16;
    args.history_count = 64;
    args.top_count = 4;
    args.flags = KILN_SAMPLE_ADVANCE |
                 (2 * KILN_SAMPLE_HAS_LENGTHS - KILN_SAMPLE_HAS_TEMPERATURE);
  }
  template <class Args, size_t kCount>
  static void setChain(Args &args, kiln_pointwise (&chain)[kCount]) {
    for (kiln_pointwise &link : chain)
      link = KILN_INIT(kiln_pointwise);
    args.pointwise = chain;
    args.pointwise_count = kCount;
  }
  static void setHeads(kiln_attention_args &args) {
    args.batch = 2;
    args.queries = args.keys = args.head_dim = 64;
    args.heads = 4;
    args.q.type = KILN_BF16;
    args.flags = KILN_ATTENTION_HAS_LSE | KILN_ATTENTION_HAS_SINKS |
                 KILN_ATTENTION_HAS_ALIBI | KILN_ATTENTION_HAS_QUERY_OFFSETS;
  }
  template <class T> static void **placeOf(T *&array) {
    return reinterpret_cast<void **>(
        const_cast<std::remove_const_t<T> **>(&array));
  }
  static FullCall headsCall(kiln_attention_args &args) {
    return {&args,
            {&args.q.data, &args.k.data, &args.v.data, &args.o.data,
             placeOf(args.lse), placeOf(args.sinks), placeOf(args.alibi),
             placeOf(args.query_offsets)}};
  }
  std::vector<FullCall> attentionCalls() {
    FullCall paged = headsCall(attention), packed = headsCall(packedAttention);
    for (void **place :
         {placeOf(attention.key_lengths), placeOf(attention.page_table),
          placeOf(attention.page_offsets), &attention.q.scale.data,
          &attention.k.scale.data, &attention.v.scale.data})
      paged.places.push_back(place);
    packed.places.push_back(placeOf(packedAttention.key_offsets));
    return {paged, packed};
  }
  FullCall gemmCall(kiln_gemm_args &args) {
    return {&args,
            {&args.a.data, &args.b.data, &args.c.data, &args.d.data,
             &gemmLinks[0].operand.data, &gemmLinks[1].operand.data}};
  }
  static FullCall gatherCall(kiln_gather_args &args) {
    return {&args,
            {&args.x.data, &args.y.data, placeOf(args.indices),
             placeOf(args.targets)}};
  }
  static void setRoute(kiln_route_args &args) {
    args.tokens = args.experts = 64;
    args.top_k = 4;
    args.logits.type = KILN_BF16;
    args.flags = 2 * KILN_ROUTE_HAS_SIZES - KILN_ROUTE_HAS_LOGIT_BIAS;
  }
  static void setCombine(kiln_combine_args &args) {
    args.tokens = args.cols = 64;
    args.top_k = 4;
    args.x.type = args.shared.type = args.residual.type = KILN_BF16;
    args.flags = KILN_COMBINE_HAS_WEIGHTS;
  }
  static FullCall combineCall(kiln_combine_args &args) {
    FullCall call = {&args,
                     {&args.x.data, &args.y.data, &args.shared.data,
                      &args.residual.data, placeOf(args.weights)}};
    if (args.norm_weight.type != KILN_DTYPE_NONE)
      for (kiln_operand *operand : {&args.norm_weight, &args.residual_out})
        call.places.push_back(&operand->data);
    return call;
  }
  FullCall normCall(kiln_norm_args &args) {
    FullCall call = {&args,
                     {&args.x.data, &args.y.data, &args.weight.data,
                      &args.bias.data, &args.residual.data,
                      &args.residual_out.data}};
    if (args.y_scale.granularity != KILN_GRANULARITY_NONE)
      call.places.push_back(&args.y_scale.data);
    return call;
  }

  kiln_pointwise gemmLinks[2], links[4];
  kiln_gemm_args gemm = kiln_gemm_args_init(), batched = gemm;
  kiln_norm_args norm = kiln_norm_args_init(), quantizingNorm = norm;
  kiln_softmax_args softmax = kiln_softmax_args_init();
  kiln_quantize_args quantize = KILN_INIT(kiln_quantize_args);
  kiln_reduce_args reduce = KILN_INIT(kiln_reduce_args);
  kiln_transpose_args transpose = KILN_INIT(kiln_transpose_args);
  kiln_rope_args rope = KILN_INIT(kiln_rope_args);
  kiln_gather_args gather = kiln_gather_args_init(), copy = gather;
  kiln_sample_args sample = kiln_sample_args_init();
  kiln_route_args route = kiln_route_args_init();
  kiln_combine_args combine = kiln_combine_args_init(), normCombine = combine;
  kiln_allreduce_args allReduce = kiln_allreduce_args_init();
  void *exchange[2] = {reinterpret_cast<void *>(0xf00000000),
                       reinterpret_cast<void *>(0xf80000000)};
  kiln_prepack_args prepack = KILN_INIT(kiln_prepack_args);
  kiln_elementwise_args elementwise = KILN_INIT(kiln_elementwise_args),
                        quantizing = elementwise;
  kiln_attention_args attention = kiln_attention_args_init();
  kiln_attention_args packedAttention = attention;
  kiln_attention_merge_args merge = kiln_attention_merge_args_init();
};

/// Puts every operand that \p call writes at the address of every other one.
void checkPairs(const KernelFamily &family, const FullCall &call) {
  std::map<DeviceAddress, void **> placeAt;
  for (void **place : call.places) {
    const DeviceAddress address = 0x1000000 * (placeAt.size() + 1);
    *place = reinterpret_cast<void *>(address);
    placeAt[address] = place;
  }
  const CheckedCall good(family, call.args);
  CAPTURE(good.message);
  REQUIRE(good.problem.has_value());
  const auto operands = family.operands(*good.problem).operands;
  std::vector<void **> places(operands.size());
  size_t present = 0;
  for (size_t i = 0; i < operands.size(); ++i)
    if (operands[i].present) {
      places[i] = placeAt.at(good.call.arguments.operands[i].address);
      ++present;
    }
  REQUIRE(present == call.places.size());
  for (size_t i = 0; i < operands.size(); ++i)
    for (size_t j = 0; j < operands.size(); ++j) {
      if (i == j || !operands[i].isWritten() || !operands[j].present)
        continue;
      CAPTURE(operands[i].name.str());
      CAPTURE(operands[j].name.str());
      void *own = *places[i];
      *places[i] = *places[j];
      const CheckedCall same(family, call.args);
      *places[i] = own;
      const bool mayBe = operands[i].mayBe == static_cast<int>(j);
      CHECK(same.isRead == mayBe);
      CHECK(same.problem.has_value() == mayBe);
      CHECK((same.message.find(" overlaps ") == std::string::npos) == mayBe);
    }
}

/// A transposition that states what it writes first.
struct BackwardVisit {
  using Args = kiln_transpose_args;
  static constexpr int kFields = TransposeField::Align + 1;
  static constexpr int kOperands = TransposeOperand::Count;

  template <class Visitor> static void visit(const Args &args, Visitor &v) {
    if (!v.begin(args, "kiln_transpose_args"))
      return;
    v.type(TransposeField::DType, "x.type", args.x.type, args.x.type);
    v.number(TransposeField::Rows, "rows", args.rows);
    v.number(TransposeField::Cols, "cols", args.cols);
    v.isEmpty(false);
    v.operand({.name = "y",
               .given = args.y,
               .index = TransposeOperand::Y,
               .type = args.x.type,
               .typeOf = "x",
               .rowLength = args.rows,
               .field = TransposeField::Ldy,
               .isWritten = true});
    v.operand({.name = "x",
               .given = args.x,
               .index = TransposeOperand::X,
               .type = args.x.type,
               .typeOf = "x",
               .rowLength = args.cols,
               .field = TransposeField::Ldx});
    v.alignment(TransposeField::Align);
  }
};

/// D of 2 matrices whose 4 rows of 8 columns are 10 elements apart.
kiln_gemm_args pairOfMatrices() {
  kiln_gemm_args args = kiln_gemm_args_init();
  args.m = 4;
  args.n = args.k = 8;
  args.batch = 2;
  args.a.type = KILN_BF16;
  args.a.data = reinterpret_cast<void *>(0x1000000);
  args.b.data = reinterpret_cast<void *>(0x2000000);
  args.d.data = reinterpret_cast<void *>(0x3000000);
  args.d.leading_dim = 10;
  args.d.batch_stride = 3 * 10 + 8;
  return args;
}

/// Launches of a described problem, as a plan of it has them.
class Described {
public:
  Described(const kiln_gemm_args &args, const kiln_range *range = nullptr) {
    problem.family = KILN_FAMILY_GEMM;
    problem.args = &args;
    problem.ranges = range;
    problem.range_count = range ? 1 : 0;
    spec = llvm::cantFail(ProblemSpec::parse(registry, &problem));
    operands = operandsOf(spec, spec.problem);
    slots[KILN_GEMM_A] = args.a.data;
    slots[KILN_GEMM_B] = args.b.data;
    slots[KILN_GEMM_C] = args.c.data;
    slots[KILN_GEMM_D] = args.d.data;
    given.operands = slots;
    given.operand_count = KILN_GEMM_SLOT_COUNT;
  }
  Described(const Described &) = delete;

  /// "" or the reason why a launch with these \p extents is refused.
  std::string launch(llvm::ArrayRef<int64_t> extents = {}) {
    const Problem at = llvm::cantFail(spec.at(extents));
    Arguments arguments;
    auto error =
        readArguments(given, spec, operands, at.values.array(), arguments);
    return error ? summarize(std::move(error)).message : "";
  }

private:
  const Registry registry = makeBuiltinRegistry();
  kiln_problem problem = KILN_INIT(kiln_problem);
  ProblemSpec spec;
  OperandList operands;
  void *slots[KILN_GEMM_SLOT_COUNT] = {};
  kiln_arguments given = KILN_INIT(kiln_arguments);
};

} // namespace

TEST_CASE("what is written shares its address with what it may be alone") {
  const Registry registry = makeBuiltinRegistry();
  FullCalls calls;
  for (const auto &family : registry.families()) {
    if (!family->call())
      continue;
    CAPTURE(family->name().str());
    const auto full = calls.of(family->call()->number);
    if (full.empty())
      FAIL_CHECK(family->name().str(),
                 " has no case in FullCalls::of: add one");
    for (const FullCall &call : full)
      checkPairs(*family, call);
  }
}

TEST_CASE("the order in which operands are stated does not matter") {
  const Registry registry = makeBuiltinRegistry();
  const Schema &schema = registry.find("transpose2d")->problemSchema();
  constexpr CallReader kReader =
      makeCallReader<BackwardVisit>(KILN_FAMILY_TRANSPOSE);
  kiln_transpose_args args = KILN_INIT(kiln_transpose_args);
  args.rows = args.cols = 64;
  args.x.type = KILN_BF16;
  args.x.data = reinterpret_cast<void *>(0x1000000);
  for (uintptr_t y : {0x2000000, 0x1000000}) {
    args.y.data = reinterpret_cast<void *>(y);
    const bool isGood = args.x.data != args.y.data;
    FamilyCall call, again;
    FieldNames names;
    CHECK(kReader.read(&args, call) == isGood);
    auto error =
        kReader.explain(&args, CallAddresses::Used, schema, again, names);
    CHECK(summarize(std::move(error)).message ==
          (isGood ? "" : "y overlaps x"));
  }
}

TEST_CASE("in place, strides count where there is a batch") {
  const Registry registry = makeBuiltinRegistry();
  const KernelFamily &gemm = *registry.find("gemm");
  kiln_gemm_args args = pairOfMatrices();
  args.beta = 1;
  args.c = args.d;
  args.c.batch_stride = 48;
  CHECK(CheckedCall(gemm, &args).message.find("d overlaps c") == 0);
  CHECK(Described(args).launch() == "d overlaps c");
  args.batch = 1;
  CHECK(CheckedCall(gemm, &args).problem.has_value());
  CHECK(Described(args).launch() == "");
  args.c.leading_dim = 12;
  CHECK(CheckedCall(gemm, &args).message.find("d overlaps c") == 0);
  CHECK(Described(args).launch() == "d overlaps c");
}

TEST_CASE("the matrices of an output lie apart") {
  const Registry registry = makeBuiltinRegistry();
  const KernelFamily &gemm = *registry.find("gemm");
  kiln_gemm_args args = pairOfMatrices();
  auto message = [&] { return CheckedCall(gemm, &args).message; };
  CHECK(message() == "");
  CHECK(Described(args).launch() == "");
  const std::string apart =
      "d.batch_stride is 37, but each of its 2 matrices spans 38 elements";
  args.d.batch_stride = 37;
  CHECK(message() == apart);
  CHECK(Described(args).launch() == apart);
  kiln_range range = KILN_INIT(kiln_range);
  range.name = "m";
  range.first = 1;
  range.last = 4;
  Described plan(args, &range);
  CHECK(plan.launch({3}) == "");
  CHECK(plan.launch({4}) == apart);
  args.d.batch_stride = 1;
  args.batch = 1; // which no stride is of
  CHECK(message() == "");
  CHECK(Described(args).launch() == "");
}

TEST_CASE("no batch stride leaves the address space") {
  const Registry registry = makeBuiltinRegistry();
  const KernelFamily &gemm = *registry.find("gemm");
  constexpr int64_t kMost = int64_t(1) << 40;
  kiln_gemm_args args = pairOfMatrices();
  for (kiln_operand *operand : {&args.a, &args.d}) {
    const int64_t before = operand->batch_stride;
    operand->batch_stride = kMost;
    CHECK(CheckedCall(gemm, &args).message == "");
    for (int64_t stride : {kMost + 1, std::numeric_limits<int64_t>::max()}) {
      operand->batch_stride = stride;
      const CheckedCall checked(gemm, &args);
      CHECK_FALSE(checked.isRead);
      CHECK(checked.message ==
            std::string(operand == &args.a ? "a" : "d") + ".batch_stride is " +
                std::to_string(stride) + ", at most 1099511627776 works");
    }
    operand->batch_stride = before;
  }
}
