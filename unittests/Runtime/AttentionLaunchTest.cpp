// Attention through the C interface: the kernel's parameters, hits, and
// refusals. Rows of an odd number of elements are served by one kernel only,
// whose parameters the tests read.
#include "Driver/Graph.h"
#include "Runtime/AttentionArgs.h"

#include "attention/AttentionParams.h"
#include "attention/MergeParams.h"

using namespace kiln;
using namespace kiln::testing;

namespace {

/// A paged KV cache, with all operands of varlen sequences.
kiln_attention_args pagedArgs() {
  kiln_attention_args args = attentionArgs();
  args.queries = 1;
  args.key_lengths = integers(0x500004); // a slice of a longer array
  args.page_table = integers(0x600000);
  args.page_size = 16;
  args.page_count = 1000;
  args.page_table_columns = 40;
  return args;
}

bool isStrides(const HeadStrides &strides, long long token, long long head,
               long long batch) {
  return strides.token == token && strides.head == head &&
         strides.batch == batch;
}

} // namespace

TEST_CASE("an attention reaches its kernel; an equal one hits") {
  RuntimeFixture fixture;
  LaunchLog<AttentionParams> launches;
  kiln_engine *engine = fixture.engine();
  kiln_stream stream = fixture.gpu.stream();
  kiln_attention_args args = attentionArgs();
  args.lse = static_cast<float *>(address(0x500004));
  CAPTURE(lastError());
  REQUIRE(launch(engine, args, stream) == KILN_SUCCESS);
  AttentionParams params = launches.last();
  CHECK(params.q == args.q.data);
  CHECK(params.k == args.k.data);
  CHECK(params.v == args.v.data);
  CHECK(params.o == args.o.data);
  CHECK(params.lse == args.lse);
  CHECK(params.queries == 5);
  CHECK(params.keys == 70);
  CHECK(params.kvHeads == 2);
  CHECK(params.scale == doctest::Approx(1 / std::sqrt(22.0)));
  CHECK(params.softcap == 0);
  CHECK(isStrides(params.qStrides, 4 * 22, 22, 5 * 4 * 22));
  CHECK(isStrides(params.kStrides, 2 * 22, 22, 70 * 2 * 22));
  CHECK(params.lseHeadStride == 5);
  // Another scale, other addresses, and strides that equal the default of 0.
  args.scale = 0.5;
  args.q.token_stride = 4 * 22;
  args.k.batch_stride = 70 * 2 * 22;
  args.v.data = args.k.data; // inputs may be one
  const uint64_t before = kilnFakeTotalCalls();
  REQUIRE(launch(engine, args, stream) == KILN_SUCCESS);
  // As for a gemm, there are three driver calls for the context, and the
  // launch.
  CHECK(kilnFakeTotalCalls() - before == 4);
  CHECK(launches.last().scale == 0.5f);
  CHECK(launches.last().v == args.k.data);
  CHECK(statisticsOf(engine).dispatch_misses == 1);
}

TEST_CASE("other lengths take the kernel that is there") {
  RuntimeFixture fixture;
  LaunchLog<AttentionParams> launches;
  kiln_engine *engine = fixture.engine();
  kiln_attention_args args = attentionArgs();
  CAPTURE(lastError());
  REQUIRE(launch(engine, args) == KILN_SUCCESS);
  const int compiles = fixture.nvrtc.compileCount();
  for (int64_t keys : {69, 75}) {
    args.keys = keys;
    REQUIRE(launch(engine, args) == KILN_SUCCESS);
    CHECK(launches.last().keys == keys);
    const uint64_t misses = statisticsOf(engine).dispatch_misses;
    REQUIRE(launch(engine, args) == KILN_SUCCESS);
    CHECK(statisticsOf(engine).dispatch_misses == misses);
  }
  args.queries = 6;
  args.batch = 3;
  REQUIRE(launch(engine, args) == KILN_SUCCESS);
  CHECK(launches.last().queries == 6);
  CHECK(launches.last().batch == 3);
  CHECK(fixture.nvrtc.compileCount() == compiles);
  args.keys = 0;
  REQUIRE(launch(engine, args) == KILN_SUCCESS);
  CHECK(launches.last().keys == 0);
}

TEST_CASE("views of one tensor and heads before tokens are strides") {
  RuntimeFixture fixture;
  LaunchLog<AttentionParams> launches;
  kiln_engine *engine = fixture.engine();
  kiln_attention_args args = attentionArgs();
  args.kv_heads = 4;
  for (kiln_heads_operand *view : {&args.q, &args.k, &args.v})
    view->token_stride = 3 * 4 * 22;
  args.keys = args.queries;
  args.k.data = address(0x100000 + 2 * 4 * 22);
  args.v.data = address(0x100000 + 2 * 2 * 4 * 22);
  args.o.token_stride = 22; // [batch][head][token]
  args.o.head_stride = 5 * 22;
  CAPTURE(lastError());
  REQUIRE(launch(engine, args) == KILN_SUCCESS);
  CHECK(isStrides(launches.last().vStrides, 264, 22, 5 * 264));
  CHECK(isStrides(launches.last().oStrides, 22, 5 * 22, 4 * 5 * 22));
}

TEST_CASE("lengths, pages and all arrays reach the kernel") {
  RuntimeFixture fixture;
  LaunchLog<AttentionParams> launches;
  kiln_engine *engine = fixture.engine();
  kiln_attention_args args = pagedArgs();
  args.page_offsets = integers(0x700000);
  args.sinks = floats(0x800000);
  args.alibi = floats(0x900000);
  args.k.type = KILN_E4M3;
  args.k.scale = kiln_head_scales_init(address(0xa00000));
  args.v.scale = kiln_head_scales_init(address(0xb00000));
  args.softcap = 30;
  args.mask = KILN_ATTENTION_MASK_WINDOW;
  args.left = 64;
  args.right = 0;
  CAPTURE(lastError());
  REQUIRE(launch(engine, args) == KILN_SUCCESS);
  const AttentionParams params = launches.last();
  CHECK(params.keyLengths == args.key_lengths);
  CHECK(params.pageTable == args.page_table);
  CHECK(params.pageOffsets == args.page_offsets);
  CHECK(params.sinks == args.sinks);
  CHECK(params.alibi == args.alibi);
  CHECK(params.qScale == nullptr);
  CHECK(params.kScale == args.k.scale.data);
  CHECK(params.vScale == args.v.scale.data);
  CHECK(params.scaleHeadStride == 1);
  CHECK(params.pageSize == 16);
  CHECK(params.pageTableStride == 40);
  CHECK(isStrides(params.kStrides, 2 * 22, 22, 16 * 2 * 22));
  CHECK(params.softcap == 30);
  CHECK(params.left == 64);
  CHECK(params.right == 0);
  kiln_attention_args packed = attentionArgs();
  packed.query_offsets = integers(0x500000);
  packed.key_offsets = integers(0x600000);
  packed.total_queries = 7;
  packed.lse = static_cast<float *>(address(0x700000));
  REQUIRE(launch(engine, packed) == KILN_SUCCESS);
  CHECK(launches.last().queryOffsets == packed.query_offsets);
  CHECK(launches.last().keyOffsets == packed.key_offsets);
  CHECK(launches.last().totalQueries == 7);
  CHECK(launches.last().lseHeadStride == 7);
}

TEST_CASE("attention is prepared, captured and served in production") {
  RuntimeFixture fixture;
  kiln_stream stream = fixture.gpu.stream();
  // The problem is described before there is memory.
  kiln_attention_args described = pagedArgs();
  described.key_lengths = described.page_table = nullptr;
  described.q.data = described.k.data = described.v.data = described.o.data =
      nullptr;
  described.q.alignment = described.k.alignment = described.v.alignment =
      described.o.alignment = 16;
  described.flags =
      KILN_ATTENTION_HAS_KEY_LENGTHS | KILN_ATTENTION_HAS_PAGE_TABLE;
  const kiln_problem problem = problemOf(described);
  kiln_prepare_options prepare = KILN_INIT(kiln_prepare_options);
  prepare.streams = &stream;
  prepare.stream_count = 1;
  const kiln_attention_args args = pagedArgs();
  kiln_engine *engine = fixture.engine();
  CAPTURE(lastError());
  REQUIRE(kiln_prepare(engine, &problem, 1, &prepare, nullptr) == KILN_SUCCESS);
  REQUIRE_FALSE(
      llvm::errorToBool(Graph::beginCapture(fixture.gpu.driver(), stream)));
  CHECK(launch(engine, args, stream) == KILN_SUCCESS);
  kiln_attention_args other = args;
  other.head_dim = 40;
  CHECK(launch(engine, other, stream) == KILN_NOT_PREPARED);
  auto graph = Graph::endCapture(fixture.gpu.driver(), stream);
  REQUIRE(static_cast<bool>(graph));
  CHECK(graph->nodeCount() >= 1);
  const int compiles = fixture.nvrtc.compileCount();
  kiln_engine_options options = fixture.options(KILN_MODE_STRICT);
  options.nvrtc_path = "/nowhere"; // it is not even looked for
  kiln_engine *strict = fixture.engine(options);
  CHECK(launch(strict, args) == KILN_SUCCESS);
  CHECK(launch(strict, other) == KILN_MISSING);
  CHECK(fixture.nvrtc.compileCount() == compiles);
}

TEST_CASE("an attention given as text takes addresses by slot") {
  RuntimeFixture fixture;
  LaunchLog<AttentionParams> launches;
  kiln_engine *engine = fixture.engine();
  const kiln_problem problem =
      problemOf("attention batch=2 sq=1 sk=70 heads=4 kvheads=2 d=22 "
                "dtype=bf16 kvlen=used pages=table page=16 poolpages=1000 "
                "tablecols=40 lse=1");
  void *operands[KILN_ATTENTION_SLOT_COUNT] = {};
  operands[KILN_ATTENTION_Q] = address(0x100000);
  operands[KILN_ATTENTION_K] = address(0x200000);
  operands[KILN_ATTENTION_V] = address(0x300000);
  operands[KILN_ATTENTION_O] = address(0x400000);
  operands[KILN_ATTENTION_LSE] = address(0x500004);
  operands[KILN_ATTENTION_KEY_LENGTHS] = address(0x600004);
  operands[KILN_ATTENTION_PAGE_TABLE] = address(0x700000);
  kiln_arguments arguments = KILN_INIT(kiln_arguments);
  arguments.operands = operands;
  arguments.operand_count = KILN_ATTENTION_SLOT_COUNT;
  CAPTURE(lastError());
  REQUIRE(kiln_run(engine, &problem, &arguments, nullptr, nullptr) ==
          KILN_SUCCESS);
  CHECK(launches.last().pageTable == operands[KILN_ATTENTION_PAGE_TABLE]);
  CHECK(launches.last().lse == operands[KILN_ATTENTION_LSE]);
  CHECK(launches.last().scale == doctest::Approx(1 / std::sqrt(22.0)));
  const double scale = 0.25;
  arguments.scalars = &scale;
  arguments.scalar_count = 1;
  REQUIRE(kiln_run(engine, &problem, &arguments, nullptr, nullptr) ==
          KILN_SUCCESS);
  CHECK(launches.last().scale == 0.25f);
  // The same problem as a struct hits the plan of the text.
  kiln_attention_args args = pagedArgs();
  args.scale = 0.125;
  args.lse = static_cast<float *>(address(0x800000));
  const uint64_t misses = statisticsOf(engine).dispatch_misses;
  REQUIRE(launch(engine, args) == KILN_SUCCESS);
  CHECK(statisticsOf(engine).dispatch_misses == misses);
  operands[KILN_ATTENTION_O] = operands[KILN_ATTENTION_K];
  CHECK(kiln_run(engine, &problem, &arguments, nullptr, nullptr) ==
        KILN_INVALID_ARGUMENT);
  CHECK(lastErrorHas("o overlaps k"));
  operands[KILN_ATTENTION_O] = nullptr;
  CHECK(kiln_run(engine, &problem, &arguments, nullptr, nullptr) ==
        KILN_INVALID_ARGUMENT);
  CHECK(lastErrorHas("operand o (slot 3) is null"));
}

TEST_CASE("a plan of an attention follows its extents") {
  RuntimeFixture fixture;
  LaunchLog<AttentionParams> launches;
  kiln_engine *engine = fixture.engine();
  kiln_attention_args args = attentionArgs();
  kiln_range ranges[2] = {KILN_INIT(kiln_range), KILN_INIT(kiln_range)};
  ranges[0].name = "batch";
  ranges[0].first = 1;
  ranges[0].last = 4;
  ranges[1].name = "sk";
  ranges[1].first = 0;
  ranges[1].last = 100;
  kiln_problem problem = problemOf(args);
  problem.ranges = ranges;
  problem.range_count = 2;
  kiln_plan *plan = nullptr;
  CAPTURE(lastError());
  REQUIRE(kiln_plan_acquire(engine, &problem, nullptr, &plan) == KILN_SUCCESS);
  const kiln_family family = KILN_FAMILY_ATTENTION;
  for (int64_t keys : {1, 33, 100}) {
    args.keys = keys;
    args.batch = keys % 4 + 1;
    REQUIRE(kiln_plan_launch_call(plan, family, &args, nullptr, nullptr) ==
            KILN_SUCCESS);
    CHECK(launches.last().keys == keys);
    CHECK(launches.last().kStrides.batch == keys * 2 * 22);
  }
  args.batch = 1;
  args.keys = 101;
  CHECK(kiln_plan_launch_call(plan, family, &args, nullptr, nullptr) ==
        KILN_INVALID_ARGUMENT);
  void *operands[] = {args.q.data, args.k.data, args.v.data, args.o.data};
  int64_t extents[] = {3, 50};
  kiln_arguments arguments = KILN_INIT(kiln_arguments);
  arguments.operands = operands;
  arguments.operand_count = 4;
  arguments.extents = extents;
  arguments.extent_count = 2;
  REQUIRE(kiln_plan_launch(plan, &arguments, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(launches.last().batch == 3);
  CHECK(isStrides(launches.last().kStrides, 2 * 22, 22, 50 * 2 * 22));
  extents[1] = 0; // O becomes 0
  REQUIRE(kiln_plan_launch(plan, &arguments, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(launches.last().keys == 0);
  kiln_plan_release(plan);
}

TEST_CASE("S18: a plan takes no capacities that it does not know of") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  kiln_attention_args args = pagedArgs();
  args.batch = 2048;
  args.query_offsets = integers(0x700000);
  args.total_queries = 2048;
  const kiln_family family = KILN_FAMILY_ATTENTION;
  auto launchWith = [&](int64_t total) {
    kiln_problem problem = problemOf(args);
    kiln_plan *plan = nullptr;
    REQUIRE(kiln_plan_acquire(engine, &problem, nullptr, &plan) ==
            KILN_SUCCESS);
    kiln_attention_args other = args;
    other.total_queries = total;
    kiln_status status =
        kiln_plan_launch_call(plan, family, &other, nullptr, nullptr);
    kiln_plan_release(plan);
    return status;
  };
  CAPTURE(lastError());
  // The plan was made without capacities, so any serve.
  CHECK(launchWith(8192) == KILN_SUCCESS);
  // Without them there would be 2^31 pages.
  args.keys = 1 << 20;
  args.page_size = 1;
  args.page_table_columns = 1 << 20;
  CHECK(launchWith(2048) == KILN_SUCCESS);
  CHECK(launchWith(8192) == KILN_INVALID_ARGUMENT);
  CHECK(lastErrorHas("totalq differs"));
}

TEST_CASE("prepared ranges of an attention serve values that nobody launched") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  kiln_stream stream = fixture.gpu.stream();
  kiln_attention_args args = pagedArgs();
  args.page_table_columns = 50;
  kiln_range ranges[3] = {KILN_INIT(kiln_range), KILN_INIT(kiln_range),
                          KILN_INIT(kiln_range)};
  const char *const names[] = {"batch", "sq", "sk"};
  const int64_t lasts[] = {8, 4, 640};
  for (int i = 0; i < 3; ++i) {
    ranges[i].name = names[i];
    ranges[i].first = 1;
    ranges[i].last = lasts[i];
  }
  kiln_problem problem = problemOf(args);
  problem.ranges = ranges;
  problem.range_count = 3;
  kiln_prepare_options prepare = KILN_INIT(kiln_prepare_options);
  prepare.streams = &stream;
  prepare.stream_count = 1;
  CAPTURE(lastError());
  REQUIRE(kiln_prepare(engine, &problem, 1, &prepare, nullptr) == KILN_SUCCESS);
  const int compiles = fixture.nvrtc.compileCount();
  const uint64_t arenas = statisticsOf(engine).arena_bytes;
  REQUIRE_FALSE(
      llvm::errorToBool(Graph::beginCapture(fixture.gpu.driver(), stream)));
  for (int64_t keys : {1, 17, 333, 640})
    for (int64_t batch : {1, 3, 8}) {
      args.keys = keys;
      args.batch = batch;
      args.queries = batch % 4 + 1;
      CHECK(launch(engine, args, stream) == KILN_SUCCESS);
    }
  args.queries = 5;
  CHECK(launch(engine, args, stream) == KILN_NOT_PREPARED);
  auto graph = Graph::endCapture(fixture.gpu.driver(), stream);
  REQUIRE(static_cast<bool>(graph));
  CHECK(graph->nodeCount() >= 12);
  CHECK(fixture.nvrtc.compileCount() == compiles);
  CHECK(statisticsOf(engine).arena_bytes == arenas);
}

TEST_CASE("no queries launch nothing, no keys do") {
  RuntimeFixture fixture;
  LaunchLog<AttentionParams> launches;
  kiln_engine *engine = fixture.engine();
  kiln_attention_args args = attentionArgs();
  args.keys = 0;
  args.k.data = args.v.data = nullptr;
  CAPTURE(lastError());
  REQUIRE(launch(engine, args) == KILN_SUCCESS);
  CHECK(launches.count() == 1); // O becomes 0
  args.q.data = args.o.data = nullptr;
  args.queries = 0;
  CHECK(launch(engine, args) == KILN_SUCCESS);
  args.queries = 1;
  args.batch = 0;
  CHECK(launch(engine, args) == KILN_SUCCESS);
  CHECK(launches.count() == 1);
}

TEST_CASE("a launch without splits looks for no arena") {
  // Plans of used lengths have room for splits, which a hint asks for.
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  kiln_stream stream = fixture.gpu.stream();
  auto arenaBytes = [&] { return statisticsOf(engine).arena_bytes; };
  kiln_attention_args args = pagedArgs();
  args.batch = 64;
  args.keys = 8192;
  args.page_table_columns = 512;
  args.heads = 32;
  args.kv_heads = 8;
  args.head_dim = 128;
  CAPTURE(lastError());
  REQUIRE(launch(engine, args, stream) == KILN_SUCCESS);
  CHECK(arenaBytes() == 0);
  kiln_problem problem = problemOf(args);
  kiln_plan *plan = nullptr;
  REQUIRE(kiln_plan_acquire(engine, &problem, stream, &plan) == KILN_SUCCESS);
  kiln_workspace_info info = KILN_INIT(kiln_workspace_info);
  REQUIRE(kiln_plan_workspace(plan, &info) == KILN_SUCCESS);
  CHECK(info.bytes > 0);
  // A given workspace is checked all the same.
  kiln_workspace given = KILN_INIT(kiln_workspace);
  given.data = address(0x800000);
  given.bytes = info.bytes - 1;
  CHECK(kiln_attention(engine, &args, &given, stream) == KILN_INVALID_ARGUMENT);
  given.bytes = info.bytes;
  CHECK(kiln_attention(engine, &args, &given, stream) == KILN_SUCCESS);
  CHECK(arenaBytes() == 0);
  kiln_plan_release(plan);
  args.keys_hint = 512;
  REQUIRE(launch(engine, args, stream) == KILN_SUCCESS);
  CHECK(arenaBytes() > 0);
}

TEST_CASE("two attentions are merged in place") {
  RuntimeFixture fixture;
  LaunchLog<MergeParams> launches;
  kiln_engine *engine = fixture.engine();
  kiln_attention_merge_args args = kiln_attention_merge_args_init();
  args.queries = 5;
  args.heads = 4;
  args.value_dim = 22;
  args.o1.type = KILN_BF16;
  args.o1.data = args.o.data = address(0x100000);
  args.o2.data = address(0x200000);
  args.lse1 = floats(0x300000);
  args.lse2 = floats(0x400004);
  args.lse = static_cast<float *>(address(0x300000));
  CAPTURE(lastError());
  REQUIRE(kiln_attention_merge(engine, &args, nullptr, nullptr) ==
          KILN_SUCCESS);
  CHECK(launches.last().o1 == args.o1.data);
  CHECK(launches.last().o2 == args.o2.data);
  CHECK(launches.last().o == args.o.data);
  CHECK(launches.last().lse1 == args.lse1);
  CHECK(launches.last().lse2 == args.lse2);
  CHECK(launches.last().lse == args.lse);
  CHECK(isStrides(launches.last().o2Strides, 4 * 22, 22, 5 * 4 * 22));
  args.lse1 = floats(0x500000); // no longer in place
  REQUIRE(kiln_attention_merge(engine, &args, nullptr, nullptr) ==
          KILN_SUCCESS);
  CHECK(statisticsOf(engine).dispatch_misses == 1);
  args.o.data = args.o2.data;
  CHECK(kiln_attention_merge(engine, &args, nullptr, nullptr) ==
        KILN_INVALID_ARGUMENT);
  CHECK(lastErrorHas("o overlaps o2: it may be o1 only"));
  args.o.data = args.o1.data;
  args.o.token_stride = 200;
  CHECK(kiln_attention_merge(engine, &args, nullptr, nullptr) ==
        KILN_INVALID_ARGUMENT);
  CHECK(lastErrorHas("o overlaps o1"));
  args.o.token_stride = 0;
  args.lse2 = nullptr;
  CHECK(kiln_attention_merge(engine, &args, nullptr, nullptr) ==
        KILN_INVALID_ARGUMENT);
  CHECK(lastErrorHas("lse2 is null"));
}
