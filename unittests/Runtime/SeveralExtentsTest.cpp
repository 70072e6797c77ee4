// A family whose three extents vary from call to call: the values that a
// prepared range serves, and the growth of an unprepared layer.
#include "Call/ProblemSpec.h"
#include "Driver/Graph.h"
#include "Runtime/WaitingFixture.h"
#include "Store/BoxFamily.h"

using namespace kiln;
using namespace kiln::testing;

namespace {

/// Queries of sequences whose lengths are in device memory.
kiln_attention_args attended(int64_t batch, int64_t queries, int64_t keys,
                             int64_t hint = 0) {
  kiln_attention_args args = kiln_attention_args_init();
  args.batch = batch;
  args.queries = queries;
  args.keys = keys;
  args.keys_hint = hint;
  args.heads = 4;
  args.kv_heads = 2;
  args.head_dim = 64;
  args.q.type = KILN_BF16;
  args.q.data = address(0x10000000);
  args.k.data = address(0x20000000);
  args.v.data = address(0x30000000);
  args.o.data = address(0x40000000);
  args.key_lengths = static_cast<const int32_t *>(address(0x50000000));
  return args;
}

struct AttentionFixture : RuntimeFixture {
  AttentionFixture() {
    judgeTrials();
    kilnFakeSetHollowMemory(1 << 20);
  }
  kiln_status launch(kiln_engine *engine, const kiln_attention_args &args,
                     kiln_stream stream = nullptr) {
    return kiln_attention(engine, &args, nullptr, stream);
  }
  /// The range of up to 4 sequences, 8 queries and 512 keys.
  kiln_status prepare(kiln_engine *engine, kiln_stream stream) {
    const kiln_attention_args args = attended(4, 8, 512);
    const kiln_range ranges[] = {rangeOf("sk", 1, 512, 100),
                                 rangeOf("batch", 1, 4), rangeOf("sq", 1, 8)};
    kiln_problem problem = KILN_INIT(kiln_problem);
    problem.family = KILN_FAMILY_ATTENTION;
    problem.args = &args;
    problem.ranges = ranges;
    problem.range_count = 3;
    kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
    options.streams = &stream;
    options.stream_count = 1;
    return kiln_prepare(engine, &problem, 1, &options, nullptr);
  }
};

} // namespace

TEST_CASE("a new point of a prepared range of three extents costs a hit") {
  for (kiln_mode mode : {KILN_MODE_PREDICT, KILN_MODE_TUNE}) {
    CAPTURE(mode);
    AttentionFixture fixture;
    kiln_engine *engine = fixture.engine(mode);
    kiln_stream stream = fixture.gpu.stream();
    CAPTURE(lastError());
    REQUIRE(fixture.prepare(engine, stream) == KILN_SUCCESS);
    const kiln_statistics before = statisticsOf(engine);
    CHECK((before.trials > 0) == (mode == KILN_MODE_TUNE));
    const int compiles = fixture.nvrtc.compileCount();
    auto callsOf = [&](const kiln_attention_args &args) {
      const uint64_t calls = kilnFakeTotalCalls();
      REQUIRE(fixture.launch(engine, args, stream) == KILN_SUCCESS);
      return kilnFakeTotalCalls() - calls;
    };
    for (int64_t batch : {1, 3})
      for (int64_t queries : {1, 7})
        for (int64_t keys : {1, 77, 512})
          for (int64_t hint : {int64_t(0), keys / 2}) {
            CAPTURE(batch);
            CAPTURE(queries);
            CAPTURE(keys);
            CAPTURE(hint);
            const auto args = attended(batch, queries, keys, hint);
            const uint64_t first = callsOf(args);
            CHECK(first == callsOf(args));
          }
    const kiln_statistics after = statisticsOf(engine);
    CHECK(after.trials == before.trials);
    CHECK(after.load_ns == before.load_ns);
    CHECK(after.cache_hits == before.cache_hits);
    CHECK(after.arena_bytes == before.arena_bytes);
    CHECK(after.fallback_launches == 0);
    CHECK(fixture.nvrtc.compileCount() == compiles);
  }
}

TEST_CASE("a capture takes a point of three extents that nobody launched") {
  AttentionFixture fixture;
  kiln_engine *engine = fixture.engine(KILN_MODE_TUNE);
  kiln_stream stream = fixture.gpu.stream();
  CAPTURE(lastError());
  REQUIRE(fixture.prepare(engine, stream) == KILN_SUCCESS);
  const uint64_t modules = kilnFakeModulesLoaded();
  bool failed =
      llvm::errorToBool(Graph::beginCapture(fixture.gpu.driver(), stream));
  REQUIRE_FALSE(failed);
  for (const auto &args : {attended(1, 1, 500), attended(3, 2, 1),
                           attended(4, 8, 512, 9), attended(2, 1, 0)})
    CHECK(fixture.launch(engine, args, stream) == KILN_SUCCESS);
  CHECK(fixture.launch(engine, attended(5, 1, 1), stream) == KILN_NOT_PREPARED);
  auto graph = Graph::endCapture(fixture.gpu.driver(), stream);
  REQUIRE(static_cast<bool>(graph));
  CHECK(graph->nodeCount() >= 4);
  CHECK(kilnFakeModulesLoaded() == modules);
}

TEST_CASE("a layer of three extents is measured for what it meets") {
  AttentionFixture fixture;
  kiln_engine *engine = fixture.engine(KILN_MODE_TUNE);
  CAPTURE(lastError());
  auto trialsOf = [&](const kiln_attention_args &args) {
    const uint64_t before = statisticsOf(engine).trials;
    CHECK(fixture.launch(engine, args) == KILN_SUCCESS);
    return statisticsOf(engine).trials - before;
  };
  CHECK(trialsOf(attended(5, 1, 300)) > 0);
  // Up to 8 sequences of one query and 512 keys.
  for (const auto &args : {attended(8, 1, 512), attended(1, 1, 1, 1),
                           attended(2, 1, 77, 5), attended(3, 1, 0)})
    CHECK(trialsOf(args) == 0);
  CHECK(trialsOf(attended(1, 10, 10)) > 0);
  // The new portfolio serves the earlier values as well.
  for (const auto &args :
       {attended(8, 16, 512), attended(8, 1, 512), attended(1, 3, 99)})
    CHECK(trialsOf(args) == 0);
  // Another process has both from the cache.
  kiln_engine *later = fixture.engine(KILN_MODE_TUNE);
  CHECK(fixture.launch(later, attended(7, 15, 400)) == KILN_SUCCESS);
  CHECK(fixture.launch(later, attended(7, 1, 400)) == KILN_SUCCESS);
  CHECK(statisticsOf(later).trials == 0);
}

TEST_CASE("the hint of a range is that of its extent at a launch") {
  Registry registry;
  llvm::cantFail(registry.add(std::make_unique<fake::BoxFamily>()));
  const kiln_range ranges[] = {rangeOf("cols", 1, 4096, 512),
                               rangeOf("batch", 1, 8, 2)};
  kiln_problem problem = KILN_INIT(kiln_problem);
  problem.text = "box batch=8 rows=3 cols=4096 room=9 depth=1";
  problem.ranges = ranges;
  problem.range_count = 2;
  const ProblemSpec spec =
      llvm::cantFail(ProblemSpec::parse(registry, &problem));
  auto textAt = [&](int64_t cols, int64_t batch) {
    return llvm::cantFail(spec.at({cols, batch})).text();
  };
  CHECK(textAt(4096, 8) ==
        "box batch=8 rows=3 cols=4096 typical=512 depth=1 room=9");
  CHECK(textAt(513, 1) == "box rows=3 cols=513 typical=512 depth=1 room=9");
  CHECK(textAt(512, 1) == "box rows=3 cols=512 depth=1 room=9");
  CHECK(textAt(1, 1) == "box rows=3 cols=1 depth=1 room=9");
}
