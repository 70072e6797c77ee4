// The calls over rows through the C interface: the kernel's parameters,
// refusals, and packed rows that follow the extents of a plan's launch.
#include "Runtime/Breaks.h"

#include "elementwise/ElementwiseParams.h"
#include "rows/RowParams.h"
#include "transpose/TransposeParams.h"

#include <limits>

using namespace kiln;
using namespace kiln::testing;

namespace {

template <class Args> Args withXY(Args args, kiln_dtype type) {
  args.rows = 48;
  args.cols = 96;
  args.x.type = type;
  args.x.data = address(0x100000);
  args.y.data = address(0x200000);
  return args;
}

template <class Args>
kiln_problem problemOfFamily(kiln_family family, Args &args) {
  kiln_problem problem = KILN_INIT(kiln_problem);
  problem.family = family;
  problem.args = &args;
  return problem;
}

kiln_operand operandAt(uintptr_t where, kiln_dtype type = KILN_DTYPE_NONE) {
  kiln_operand operand = KILN_INIT(kiln_operand);
  operand.data = address(where);
  operand.type = type;
  return operand;
}

} // namespace

TEST_CASE("an elementwise chain reaches its kernel; an equal one hits") {
  RuntimeFixture fixture;
  LaunchLog<FlatElementwiseParams> launches;
  kiln_engine *engine = fixture.engine();
  kiln_stream stream = fixture.gpu.stream();
  kiln_pointwise chain[4] = {
      KILN_INIT(kiln_pointwise), KILN_INIT(kiln_pointwise),
      KILN_INIT(kiln_pointwise), KILN_INIT(kiln_pointwise)};
  chain[0].op = KILN_POINTWISE_SILU;
  chain[2].op = KILN_POINTWISE_MUL; // chain[1] does nothing
  chain[2].operand = operandAt(0x300000);
  chain[2].operand.leading_dim = 128;
  chain[3].op = KILN_POINTWISE_SCALE;
  chain[3].params[0] = 0.5f;
  auto args = withXY(KILN_INIT(kiln_elementwise_args), KILN_BF16);
  args.pointwise = chain;
  args.pointwise_count = 4;
  CAPTURE(lastError());
  REQUIRE(kiln_elementwise(engine, &args, nullptr, stream) == KILN_SUCCESS);
  ElementwiseParams params = launches.last().operands;
  CHECK(params.x == args.x.data);
  CHECK(params.y == args.y.data);
  CHECK(params.operands[1] == chain[2].operand.data);
  CHECK(params.ldOperand == 128);
  CHECK(params.rows == 48);
  CHECK(params.ldx == 96);
  CHECK(params.scale == 0.5f);
  chain[3].params[0] = 2;
  args.y.data = args.x.data; // in place
  args.x.leading_dim = 96;   // the meaning of 0
  uint64_t before = kilnFakeTotalCalls();
  REQUIRE(kiln_elementwise(engine, &args, nullptr, stream) == KILN_SUCCESS);
  // As for a gemm, there are three driver calls for the context, and the
  // launch.
  CHECK(kilnFakeTotalCalls() - before == 4);
  CHECK(launches.last().operands.scale == 2.0f);
  CHECK(statisticsOf(engine).dispatch_misses == 1);
}

TEST_CASE("a norm reaches its kernel with all that it may have") {
  RuntimeFixture fixture;
  LaunchLog<RowParams> launches;
  kiln_engine *engine = fixture.engine();
  auto args = withXY(kiln_norm_args_init(), KILN_BF16);
  args.epsilon = 0.25;
  args.y.type = KILN_INT8;
  args.y_scale = kiln_row_scales_init(address(0x500000));
  args.weight = operandAt(0x300000, KILN_BF16);
  args.residual = args.residual_out = operandAt(0x600000, KILN_BF16);
  CAPTURE(lastError());
  REQUIRE(kiln_layer_norm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
  RowParams params = launches.last();
  CHECK(params.x == args.x.data);
  CHECK(params.y == args.y.data);
  CHECK(params.weight == args.weight.data);
  CHECK(params.residual == args.residual.data);
  CHECK(params.residualOut == args.residual_out.data);
  CHECK(params.scales == args.y_scale.data);
  CHECK(params.epsilon == 0.25f);
  CHECK(params.rows == 48);
  CHECK(params.ldResidual == 96);
  args.epsilon = 0.5;
  REQUIRE(kiln_layer_norm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(launches.last().epsilon == 0.5f);
  CHECK(statisticsOf(engine).dispatch_misses == 1);
  REQUIRE(kiln_rms_norm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(statisticsOf(engine).dispatch_misses == 2); // another family
}

TEST_CASE("the other calls over rows reach their kernels") {
  RuntimeFixture fixture;
  LaunchLog<RowParams> launches;
  kiln_engine *engine = fixture.engine();
  auto softmax = withXY(kiln_softmax_args_init(), KILN_FP16);
  softmax.scale = 0.125;
  softmax.mask_kind = KILN_MASK_MATRIX;
  softmax.mask = operandAt(0x300000);
  CAPTURE(lastError());
  REQUIRE(kiln_softmax(engine, &softmax, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(launches.last().mask == softmax.mask.data);
  CHECK(launches.last().ldMask == 96);
  CHECK(launches.last().scale == 0.125f);
  auto reduce = withXY(KILN_INIT(kiln_reduce_args), KILN_FP16);
  reduce.op = KILN_REDUCTION_MAX;
  reduce.y.type = KILN_FP32;
  REQUIRE(kiln_reduce(engine, &reduce, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(launches.last().y == reduce.y.data);
  auto quantize = withXY(KILN_INIT(kiln_quantize_args), KILN_BF16);
  quantize.y.type = KILN_E4M3;
  quantize.y_scale = kiln_row_scales_init(address(0x500000));
  REQUIRE(kiln_quantize(engine, &quantize, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(launches.last().scales == quantize.y_scale.data);
  CHECK(launches.count() == 3);
}

TEST_CASE("scales of blocks reach their kernels in either order") {
  RuntimeFixture fixture;
  LaunchLog<RowParams> launches;
  kiln_engine *engine = fixture.engine();
  auto quantize = withXY(KILN_INIT(kiln_quantize_args), KILN_BF16);
  quantize.y.type = KILN_E4M3;
  quantize.y_scale = kiln_block_scales_init(address(0x500000), 1, 128);
  CAPTURE(lastError());
  REQUIRE(kiln_quantize(engine, &quantize, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(launches.last().scales == quantize.y_scale.data);
  CHECK(launches.last().scaleRowStride == 1); // a row has one
  quantize.y_scale.row_stride = 1;
  quantize.y_scale.column_stride = 52;
  REQUIRE(kiln_quantize(engine, &quantize, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(launches.last().scaleRowStride == 1);
  // A chain in front of the quantisation.
  auto chain = withXY(KILN_INIT(kiln_elementwise_args), KILN_BF16);
  kiln_pointwise links[2] = {KILN_INIT(kiln_pointwise),
                             KILN_INIT(kiln_pointwise)};
  links[0].op = KILN_POINTWISE_SILU;
  links[1].op = KILN_POINTWISE_MUL;
  links[1].operand = operandAt(0x300000);
  chain.pointwise = links;
  chain.pointwise_count = 2;
  chain.y.type = KILN_E4M3;
  chain.y_scale = quantize.y_scale;
  REQUIRE(kiln_elementwise(engine, &chain, nullptr, nullptr) == KILN_SUCCESS);
  RowParams params = launches.last();
  CHECK(params.x == chain.x.data);
  CHECK(params.y == chain.y.data);
  CHECK(params.links[1] == links[1].operand.data);
  CHECK(params.scales == chain.y_scale.data);
  CHECK((params.scaleRowStride == 1 && params.scaleBlockStride == 52));
}

TEST_CASE("an elementwise struct from before it had scales is taken") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  auto chain = withXY(KILN_INIT(kiln_elementwise_args), KILN_BF16);
  chain.struct_size = offsetof(kiln_elementwise_args, y_scale);
  chain.y_scale.granularity = KILN_GRANULARITY_BLOCK; // behind its end
  CAPTURE(lastError());
  CHECK(kiln_elementwise(engine, &chain, nullptr, nullptr) == KILN_SUCCESS);
}

TEST_CASE("rows that are packed follow the extents of a launch") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  kiln_range range = KILN_INIT(kiln_range);
  range.first = 1;
  range.last = 64;
  kiln_arguments arguments = KILN_INIT(kiln_arguments);
  void *operands[KILN_GEMM_SLOT_COUNT] = {};
  int64_t extent = 5;
  arguments.operands = operands;
  arguments.operand_count = KILN_GEMM_SLOT_COUNT;
  arguments.extents = &extent;
  arguments.extent_count = 1;
  auto launch = [&](kiln_problem problem, const char *name) {
    range.name = name;
    problem.ranges = &range;
    problem.range_count = 1;
    kiln_plan *plan = nullptr;
    CAPTURE(lastError());
    REQUIRE(kiln_plan_acquire(engine, &problem, nullptr, &plan) ==
            KILN_SUCCESS);
    CHECK(kiln_plan_launch(plan, &arguments, nullptr, nullptr) == KILN_SUCCESS);
    kiln_plan_release(plan);
  };
  {
    LaunchLog<TransposeParams> launches;
    auto args = withXY(KILN_INIT(kiln_transpose_args), KILN_BF16);
    operands[KILN_TRANSPOSE_X] = args.x.data;
    operands[KILN_TRANSPOSE_Y] = args.y.data;
    launch(problemOfFamily(KILN_FAMILY_TRANSPOSE, args), "rows");
    CHECK(launches.last().rows == 5);
    CHECK(launches.last().ldy == 5);
    CHECK(launches.last().ldx == 96);
    // A given leading dimension stays, even if it is the length of the longest
    // row.
    for (int64_t given : {100, 64}) {
      args.y.leading_dim = given;
      launch(problemOfFamily(KILN_FAMILY_TRANSPOSE, args), "rows");
      CHECK(launches.last().ldy == given);
    }
    launch(problemOf("transpose2d rows=64 cols=96 dtype=bf16 ldy=64"), "rows");
    CHECK(launches.last().ldy == 64);
    launch(problemOf("transpose2d rows=64 cols=96 dtype=bf16"), "rows");
    CHECK(launches.last().ldy == 5);
  }
  LaunchLog<GemmParams> launches;
  kiln_gemm_args args = gemmArgs();
  args.layout = KILN_LAYOUT_TN;
  operands[KILN_GEMM_A] = args.a.data;
  operands[KILN_GEMM_B] = args.b.data;
  operands[KILN_GEMM_D] = args.d.data;
  launch(problemOfFamily(KILN_FAMILY_GEMM, args), "m");
  CHECK(launches.last().lda == 5);
  args.m = args.a.leading_dim = 64;
  launch(problemOfFamily(KILN_FAMILY_GEMM, args), "m");
  CHECK(launches.last().lda == 64);
}

TEST_CASE("what is wrong with a chain is named") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  static kiln_pointwise chain[3];
  chain[0] = chain[1] = chain[2] = KILN_INIT(kiln_pointwise);
  chain[0].op = KILN_POINTWISE_MUL;
  chain[0].operand = operandAt(0x300000);
  auto good = withXY(KILN_INIT(kiln_elementwise_args), KILN_BF16);
  good.pointwise = chain;
  good.pointwise_count = 3;
  REQUIRE(kiln_elementwise(engine, &good, nullptr, nullptr) == KILN_SUCCESS);
  using Args = kiln_elementwise_args;
  const Break<Args> breaks[] = {
      {"negative rows", [](Args &a) { a.rows = -1; }, KILN_INVALID_ARGUMENT,
       "rows is -1"},
      {"no type", [](Args &a) { a.x.type = KILN_DTYPE_NONE; },
       KILN_INVALID_ARGUMENT, "x.type is required"},
      {"int8", [](Args &a) { a.y.type = KILN_INT8; }, KILN_UNSUPPORTED,
       "y.type"},
      {"y is the link's",
       [](Args &a) { a.y.data = a.pointwise[0].operand.data; },
       KILN_INVALID_ARGUMENT, "y overlaps pointwise[0].operand"},
      {"in place with other rows",
       [](Args &a) {
         a.y.data = a.x.data;
         a.y.leading_dim = 100;
       },
       KILN_INVALID_ARGUMENT, "y overlaps x"},
      {"in place with other widths",
       [](Args &a) {
         a.y.data = a.x.data;
         a.y.type = KILN_FP32;
       },
       KILN_INVALID_ARGUMENT, "y overlaps x"},
      {"odd x", [](Args &a) { a.x.data = address(0x100001); },
       KILN_INVALID_ARGUMENT, "x.data"},
      {"reserved", [](Args &a) { a.reserved[2] = 1; }, KILN_UNSUPPORTED,
       "reserved"},
      {"reserved of x", [](Args &a) { a.x.reserved[1] = 1; }, KILN_UNSUPPORTED,
       "reserved"},
  };
  checkBreaks(engine, good, kiln_elementwise, breaks);
  chain[1] = chain[0];
  chain[1].operand.leading_dim = 128;
  CHECK(kiln_elementwise(engine, &good, nullptr, nullptr) == KILN_UNSUPPORTED);
  CHECK(lastErrorHas("share one"));
  chain[1].op = chain[2].op = KILN_POINTWISE_SCALE;
  CHECK(kiln_elementwise(engine, &good, nullptr, nullptr) == KILN_UNSUPPORTED);
  CHECK(lastErrorHas("2 scales"));
  chain[2].op = KILN_POINTWISE_RELU;
  chain[1].params[0] = std::numeric_limits<float>::quiet_NaN();
  CHECK(kiln_elementwise(engine, &good, nullptr, nullptr) ==
        KILN_INVALID_ARGUMENT);
  CHECK(lastErrorHas("pointwise[1].params[0]"));
  chain[1].params[0] = 1;
  chain[2].params[1] = 1;
  CHECK(kiln_elementwise(engine, &good, nullptr, nullptr) == KILN_UNSUPPORTED);
  CHECK(lastErrorHas("pointwise[2].params"));
  chain[2].params[1] = 0;
  chain[2].op = KILN_POINTWISE_SWIGLU;
  CHECK(kiln_elementwise(engine, &good, nullptr, nullptr) == KILN_UNSUPPORTED);
  CHECK(lastErrorHas("pointwise[2].op 120 is not available in elementwise"));
  // As links of a gemm they are reserved.
  kiln_gemm_args gemm = gemmArgs();
  gemm.pointwise = chain;
  gemm.pointwise_count = 1;
  CHECK(kiln_gemm(engine, &gemm, nullptr, nullptr) == KILN_UNSUPPORTED);
  CHECK(lastErrorHas("pointwise[0].op 70 is not available in gemm"));
}

TEST_CASE("what is wrong with a norm is named") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  auto good = withXY(kiln_norm_args_init(), KILN_BF16);
  good.y.type = KILN_E4M3;
  good.y_scale = kiln_row_scales_init(address(0x500000));
  good.weight = operandAt(0x300000, KILN_BF16);
  good.residual = good.residual_out = operandAt(0x600000, KILN_BF16);
  using Args = kiln_norm_args;
  const Break<Args> breaks[] = {
      {"epsilon", [](Args &a) { a.epsilon = -1; }, KILN_INVALID_ARGUMENT,
       "epsilon is -1"},
      {"no scale", [](Args &a) { a.y_scale = {}; }, KILN_INVALID_ARGUMENT,
       "y_scale.granularity is none: type 0x801 needs a scale of each row"},
      {"a scale without a granularity",
       [](Args &a) { a.y_scale.granularity = 0; }, KILN_INVALID_ARGUMENT,
       "set y_scale.granularity"},
      {"a scale for bf16", [](Args &a) { a.y.type = KILN_BF16; },
       KILN_UNSUPPORTED, "y_scale is given for type 0x1002"},
      {"the scale's size", [](Args &a) { a.y_scale.struct_size = 88; },
       KILN_INVALID_ARGUMENT, "y_scale.struct_size is 88"},
      {"type of weight", [](Args &a) { a.weight.type = KILN_FP32; },
       KILN_UNSUPPORTED, "weight.type"},
      {"bias without a type", [](Args &a) { a.bias = operandAt(0x700000); },
       KILN_INVALID_ARGUMENT, "set bias.type"},
      {"half a residual",
       [](Args &a) { a.residual_out = KILN_INIT(kiln_operand); },
       KILN_UNSUPPORTED, "come together"},
      {"residual_out is x", [](Args &a) { a.residual_out.data = a.x.data; },
       KILN_INVALID_ARGUMENT, "residual_out overlaps x"},
      {"y is residual_out", [](Args &a) { a.y.data = a.residual_out.data; },
       KILN_INVALID_ARGUMENT, "y overlaps residual"},
      {"y is x, narrower", [](Args &a) { a.y.data = a.x.data; },
       KILN_INVALID_ARGUMENT, "y overlaps x"},
      {"scales are y", [](Args &a) { a.y.data = a.y_scale.data; },
       KILN_INVALID_ARGUMENT, "overlaps y_scale"},
      {"size", [](Args &a) { a.struct_size = 16; }, KILN_INVALID_ARGUMENT,
       "kiln_norm_args: struct_size is 16"},
  };
  checkBreaks(engine, good, kiln_rms_norm, breaks);
  checkBreaks(engine, good, kiln_layer_norm, breaks);
  good.y_scale.granularity = KILN_GRANULARITY_TENSOR;
  CHECK(kiln_rms_norm(engine, &good, nullptr, nullptr) == KILN_UNSUPPORTED);
  CHECK(lastErrorHas("granularity 5"));
  good.y_scale = kiln_block_scales_init(address(0x500000), 128, 128);
  CHECK(kiln_rms_norm(engine, &good, nullptr, nullptr) == KILN_UNSUPPORTED);
  CHECK(lastErrorHas("blocks of 128 x 128 is not available"));
  good.y_scale.block_rows = 1;
  good.y_scale.row_stride = good.y_scale.column_stride = 2;
  CHECK(kiln_rms_norm(engine, &good, nullptr, nullptr) == KILN_UNSUPPORTED);
  CHECK(lastErrorHas("one of them has to be 1"));
}

TEST_CASE("what is wrong with a quantised chain is named") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  auto good = withXY(KILN_INIT(kiln_elementwise_args), KILN_BF16);
  good.y.type = KILN_INT8;
  good.y_scale = kiln_row_scales_init(address(0x500000));
  using Args = kiln_elementwise_args;
  const Break<Args> breaks[] = {
      {"no scale", [](Args &a) { a.y_scale = {}; }, KILN_UNSUPPORTED,
       "needs y_scale"},
      {"a scale for bf16", [](Args &a) { a.y.type = KILN_BF16; },
       KILN_UNSUPPORTED, "y_scale needs"},
      {"scales of e4m3", [](Args &a) { a.x.type = KILN_E4M3; },
       KILN_UNSUPPORTED, "y_scale needs"},
      {"scales are y", [](Args &a) { a.y.data = a.y_scale.data; },
       KILN_INVALID_ARGUMENT, "overlaps y_scale"},
      {"no address", [](Args &a) { a.y_scale.data = nullptr; },
       KILN_INVALID_ARGUMENT, "y_scale.data is null"}};
  checkBreaks(engine, good, kiln_elementwise, breaks);
}

TEST_CASE("what is wrong with other calls over rows is named") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  using Reduce = kiln_reduce_args;
  auto reduce = withXY(KILN_INIT(kiln_reduce_args), KILN_BF16);
  reduce.op = KILN_REDUCTION_SUM;
  const Break<Reduce> reductions[] = {
      {"no op", [](Reduce &a) { a.op = 0; }, KILN_INVALID_ARGUMENT,
       "op is required"},
      {"op", [](Reduce &a) { a.op = 41; }, KILN_UNSUPPORTED, "op 41"},
      {"axis", [](Reduce &a) { a.axis = 3; }, KILN_UNSUPPORTED, "axis 3"},
      {"nothing", [](Reduce &a) { a.cols = 0; }, KILN_INVALID_ARGUMENT,
       "nothing to reduce"},
      {"y is x", [](Reduce &a) { a.y.data = a.x.data; }, KILN_INVALID_ARGUMENT,
       "y overlaps x"}};
  checkBreaks(engine, reduce, kiln_reduce, reductions);
  using Softmax = kiln_softmax_args;
  const Break<Softmax> softmaxes[] = {
      {"mask_kind", [](Softmax &a) { a.mask_kind = 7; }, KILN_UNSUPPORTED,
       "mask_kind 7"},
      {"not initialised", [](Softmax &a) { a.scale = 0; },
       KILN_INVALID_ARGUMENT, "kiln_softmax_args_init"},
      {"mask", [](Softmax &a) { a.mask_kind = KILN_MASK_ROW; },
       KILN_INVALID_ARGUMENT, "mask.data is null"}};
  checkBreaks(engine, withXY(kiln_softmax_args_init(), KILN_BF16), kiln_softmax,
              softmaxes);
  using Quantize = kiln_quantize_args;
  const Break<Quantize> quantizations[] = {
      {"no type", [](Quantize &) {}, KILN_INVALID_ARGUMENT,
       "y.type is required"},
      {"type", [](Quantize &a) { a.y.type = KILN_BF16; }, KILN_UNSUPPORTED,
       "e4m3 and int8"},
      {"no scale", [](Quantize &a) { a.y.type = KILN_INT8; },
       KILN_INVALID_ARGUMENT, "y_scale.granularity is none"}};
  checkBreaks(engine, withXY(KILN_INIT(kiln_quantize_args), KILN_BF16),
              kiln_quantize, quantizations);
  using Transpose = kiln_transpose_args;
  const Break<Transpose> transpositions[] = {
      {"type of y", [](Transpose &a) { a.y.type = KILN_FP16; },
       KILN_UNSUPPORTED, "y.type"},
      {"short row of y", [](Transpose &a) { a.y.leading_dim = 47; },
       KILN_INVALID_ARGUMENT, "y.leading_dim=47 is below the row length 48"}};
  checkBreaks(engine, withXY(KILN_INIT(kiln_transpose_args), KILN_BF16),
              kiln_transpose, transpositions);
}

TEST_CASE("an empty call over rows launches nothing and needs no driver") {
  RuntimeFixture fixture;
  kiln_engine_options options = fixture.options();
  options.driver_path = "/nowhere/libcuda.so";
  kiln_engine *engine = fixture.engine(options);
  auto norm = withXY(kiln_norm_args_init(), KILN_BF16);
  norm.rows = 0;
  norm.x.data = norm.y.data = nullptr;
  CAPTURE(lastError());
  CHECK(kiln_rms_norm(engine, &norm, nullptr, nullptr) == KILN_SUCCESS);
  auto transpose = withXY(KILN_INIT(kiln_transpose_args), KILN_BF16);
  transpose.cols = 0;
  transpose.y.data = transpose.x.data;
  CHECK(kiln_transpose(engine, &transpose, nullptr, nullptr) == KILN_SUCCESS);
  transpose.cols = 4;
  transpose.y.data = address(0x200000);
  CHECK(kiln_transpose(engine, &transpose, nullptr, nullptr) ==
        KILN_DRIVER_MISSING);
}
