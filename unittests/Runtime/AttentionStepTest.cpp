// A step of a serving engine through the C interface: chunks of prompts, packed
// and paged, and decoding, described before there is memory, captured, replayed
// and shared by threads. Kernels with splits keep to their workspace.
#include "Driver/Graph.h"
#include "Runtime/AttentionArgs.h"

#include "attention/AttentionParams.h"

#include <atomic>
#include <map>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// Sequences of at most 8192 keys in pages of 16.
kiln_attention_args pagedArgs(int64_t batch, int64_t queries) {
  kiln_attention_args args = kiln_attention_args_init();
  args.batch = batch;
  args.queries = queries;
  args.keys = 8192;
  args.heads = 32;
  args.kv_heads = 8;
  args.head_dim = 128;
  args.mask = KILN_ATTENTION_MASK_CAUSAL;
  args.q.type = KILN_BF16;
  args.page_size = 16;
  args.page_count = 4096;
  args.flags = KILN_ATTENTION_HAS_KEY_LENGTHS | KILN_ATTENTION_HAS_PAGE_TABLE;
  return args;
}
kiln_attention_args decodeArgs() { return pagedArgs(4, 1); }
kiln_attention_args prefillArgs() {
  kiln_attention_args args = pagedArgs(2, 512);
  args.flags |= KILN_ATTENTION_HAS_QUERY_OFFSETS;
  args.total_queries = 1024;
  return args;
}

/// The same problem with memory.
kiln_attention_args placed(kiln_attention_args args) {
  args.q.data = address(0x100000);
  args.k.data = address(0x200000);
  args.v.data = address(0x300000);
  args.o.data = address(0x400000);
  args.key_lengths = integers(0x500000);
  args.page_table = integers(0x600000);
  if (args.flags & KILN_ATTENTION_HAS_QUERY_OFFSETS)
    args.query_offsets = integers(0x700000);
  return args;
}

} // namespace

TEST_CASE("a step of prefill and decode is prepared, captured and replayed") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine(fixture.options(KILN_MODE_PREDICT));
  kiln_stream stream = fixture.gpu.stream();
  const kiln_attention_args decode = decodeArgs(), prefill = prefillArgs();
  const kiln_problem problems[] = {problemOf(prefill), problemOf(decode)};
  kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
  options.streams = &stream;
  options.stream_count = 1;
  CAPTURE(lastError());
  REQUIRE(kiln_prepare(engine, problems, 2, &options, nullptr) == KILN_SUCCESS);
  REQUIRE_FALSE(
      llvm::errorToBool(Graph::beginCapture(fixture.gpu.driver(), stream)));
  CHECK(launch(engine, placed(prefill), stream) == KILN_SUCCESS);
  CHECK(launch(engine, placed(decode), stream) == KILN_SUCCESS);
  auto graph = Graph::endCapture(fixture.gpu.driver(), stream);
  REQUIRE(static_cast<bool>(graph));
  CHECK(graph->nodeCount() >= 2);
}

TEST_CASE("bounds whose products are beyond 32 bits leave what they bound") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine(fixture.options(KILN_MODE_PREDICT));
  kiln_stream stream = fixture.gpu.stream();
  // A list of the existing pages; 4096 sequences of a million tokens each would
  // have 2^32.
  kiln_attention_args args = placed(decodeArgs());
  args.batch = 4096;
  args.keys = 1 << 20;
  args.keys_hint = 2000;
  args.page_size = 1;
  args.page_count = args.page_table_columns = 1 << 23;
  args.page_offsets = integers(0x800000);
  CAPTURE(lastError());
  CHECK(launch(engine, args, stream) == KILN_SUCCESS);
  args.batch = 4095;
  CHECK(launch(engine, args, stream) == KILN_SUCCESS);
  // The same with packed keys.
  kiln_attention_args packed = args;
  packed.page_table = packed.page_offsets = packed.key_lengths = nullptr;
  packed.flags = 0;
  packed.page_size = packed.page_count = packed.page_table_columns = 0;
  packed.key_offsets = integers(0x900000);
  packed.total_keys = 1 << 23;
  CHECK(launch(engine, packed, stream) == KILN_SUCCESS);
  packed.total_keys = 0;
  CHECK(launch(engine, packed, stream) == KILN_INVALID_ARGUMENT);
  CHECK(lastErrorHas("total_keys"));
  args.page_count = 0;
  CHECK(launch(engine, args, stream) == KILN_INVALID_ARGUMENT);
  CHECK(lastErrorHas("page_count"));
}

TEST_CASE("a workspace that is too small for splits is refused with its size") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine(fixture.options(KILN_MODE_PREDICT));
  kiln_stream stream = fixture.gpu.stream();
  kiln_attention_args args = placed(decodeArgs());
  args.split = 512;
  kiln_workspace workspace = KILN_INIT(kiln_workspace);
  workspace.data = address(0xa00000);
  workspace.bytes = 256;
  CAPTURE(lastError());
  CHECK(kiln_attention(engine, &args, &workspace, stream) ==
        KILN_INVALID_ARGUMENT);
  CHECK(lastErrorHas("256 bytes"));
  workspace.bytes = 64 << 20;
  CHECK(kiln_attention(engine, &args, &workspace, stream) == KILN_SUCCESS);
}

TEST_CASE("streams at work at once have partial results of their own") {
  RuntimeFixture fixture;
  const Driver &driver = fixture.gpu.driver();
  kiln_engine *engine = fixture.engine(fixture.options(KILN_MODE_PREDICT));
  kiln_attention_args args = placed(decodeArgs());
  args.split = 512;
  REQUIRE(launch(engine, args, fixture.gpu.stream()) == KILN_SUCCESS);
  constexpr int kThreads = 4, kLaunches = 50;
  std::vector<Stream> streams;
  for (int i = 0; i < kThreads; ++i)
    streams.push_back(std::move(*Stream::create(driver)));
  LaunchLog<AttentionParams> launches;
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (const Stream &stream : streams)
    threads.emplace_back([&] {
      auto current = ScopedContext::push(driver, fixture.gpu.context());
      for (int i = 0; i < kLaunches; ++i)
        failures += launch(engine, args, stream.handle()) != KILN_SUCCESS;
      llvm::consumeError(current.takeError());
    });
  for (std::thread &thread : threads)
    thread.join();
  CHECK(failures == 0);
  std::map<const float *, int> launchesWith;
  for (const AttentionParams &params : launches.all())
    ++launchesWith[params.partialO];
  CHECK(launchesWith.size() == kThreads);
  for (auto [partial, count] : launchesWith)
    CHECK(count == 2 * kLaunches); // the kernel, and the merge of its splits
}

TEST_CASE("threads on one stream merge no splits of each other") {
  RuntimeFixture fixture;
  const Driver &driver = fixture.gpu.driver();
  kiln_engine *engine = fixture.engine(fixture.options(KILN_MODE_PREDICT));
  kiln_attention_args args = placed(decodeArgs());
  args.split = 512;
  kiln_stream stream = fixture.gpu.stream();
  REQUIRE(launch(engine, args, stream) == KILN_SUCCESS);
  LaunchLog<AttentionParams> launches;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&, i] {
      auto current = ScopedContext::push(driver, fixture.gpu.context());
      kiln_attention_args own = args;
      own.o.data = address(0x1000000 + 0x10000 * static_cast<uintptr_t>(i));
      for (int j = 0; j < 200; ++j)
        (void)launch(engine, own, stream);
      llvm::consumeError(current.takeError());
    });
  for (std::thread &thread : threads)
    thread.join();
  const std::vector<AttentionParams> all = launches.all();
  REQUIRE(all.size() == 3 * 200 * 2);
  int torn = 0;
  for (size_t i = 0; i < all.size(); i += 2)
    torn += all[i].o != all[i + 1].o;
  CHECK(torn == 0);
}
