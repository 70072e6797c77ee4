// The decode template: the keys of a block, the number of splits, and its
// launches.
#include "Families/Attention/AttentionCombine.h"
#include "Families/Attention/AttentionFamily.h"
#include "Families/Attention/DecodeGrid.h"
#include "Families/Attention/FixedSplit.h"
#include "Families/FamilyTesting.h"
#include "Kernel/ConfigSchema.h"
#include "Kernel/Space.h"
#include "Support/Format.h"
#include "attention/DecodeSplits.h"

#include <doctest/doctest.h>

#include <random>

using namespace kiln;
using namespace kiln::testing;

namespace {

constexpr const char *kLlm =
    "attention sq=1 heads=32 kvheads=8 d=128 dtype=bf16 ";

Plan planOf(const std::string &problem, const std::string &config,
            const DeviceModel &device = h200()) {
  auto named = attention().parseConfig(config);
  REQUIRE(named);
  return named->tmpl->plan(parse(attention(), problem), named->config, device);
}

/// A launch of \p plan with the values of \p problem, at made-up addresses.
void bindLaunch(const Plan &plan, const std::string &text, LaunchSpec &spec,
                int smCount = 132) {
  Problem problem = parse(attention(), text);
  Arguments arguments = attention().defaultArguments(problem);
  for (int i = 0; i < AttentionOperand::Count; ++i)
    arguments.operands[i].address = DeviceAddress(i + 1) << 32;
  LaunchContext context{.smCount = smCount, .scratch = 0x1000};
  plan.binder->bind(arguments, context, spec);
}

AttentionParams paramsOf(const LaunchSpec &spec, int step) {
  AttentionParams params;
  REQUIRE(spec.steps[step].kernel.paramBytes == sizeof(params));
  std::memcpy(&params, spec.params + spec.steps[step].kernel.paramOffset,
              sizeof(params));
  return params;
}

/// A problem of random sizes, sometimes with packed queries or windows.
AttentionProblem draw(std::mt19937 &rng) {
  auto below = [&](int64_t n) { return int64_t(rng() % uint64_t(n)); };
  AttentionProblem problem;
  problem.batch = 1 + below(200);
  problem.kvHeads = 1 + below(16);
  problem.heads = problem.kvHeads * (1 + below(16));
  problem.queries = 1 + below(8);
  problem.keys = below(2) ? below(300) : below(200000);
  problem.typicalKeys =
      below(2) ? problem.keys : below(std::max<int64_t>(problem.keys, 1)) + 1;
  problem.totalQueries = problem.batch * problem.queries;
  if (below(3) == 0)
    problem.queryLengths = AttentionLengths::Packed;
  if (below(3) == 0) {
    problem.mask = AttentionMask::Window;
    problem.left = below(5000);
  }
  return problem;
}

DecodeAttentionConfig drawConfig(std::mt19937 &rng) {
  DecodeAttentionConfig config;
  config.rows = 8 << rng() % 3;
  config.tile = 16 << rng() % 2;
  config.warps = 2 << rng() % 3;
  config.cluster = rng() % 3 == 0;
  config.fill = 1 + int(rng() % 12);
  return config;
}

} // namespace

TEST_CASE("each key that a query sees is in one split of its sequence") {
  const AttentionReach reaches[] = {reachOf(AttentionMask::None, 0, 0),
                                    reachOf(AttentionMask::Causal, 0, 0),
                                    reachOf(AttentionMask::Window, 0, 0),
                                    reachOf(AttentionMask::Window, 20, 0),
                                    reachOf(AttentionMask::Window, 5, 7)};
  for (AttentionReach reach : reaches)
    for (int queries : {1, 2, 5, 9})
      for (int keys : {0, 1, 4, 16, 17, 70})
        for (int splitKeys : {1, 16, 23, 100}) {
          AttentionRange visible = keysOfQueries(reach, queries, keys);
          int splits = splitsOf(visible, splitKeys);
          CAPTURE(keys);
          CAPTURE(splitKeys);
          REQUIRE(splits >= 1);
          for (int row = 0; row < queries; ++row) {
            AttentionRange seen = keysOf(reach, row, queries, keys);
            for (int key = 0; key < keys; ++key) {
              int found = 0;
              for (int split = 0; split < splits; ++split)
                found +=
                    keysOfDecodeSplit(visible, split, splitKeys).contains(key);
              if (seen.contains(key))
                REQUIRE(found == 1);
              REQUIRE(found <= 1);
            }
          }
          for (int split = 0; split < splits + 3; ++split)
            REQUIRE(isSplitUsed(visible, split, splitKeys) == (split < splits));
        }
}

TEST_CASE("a grid has splits for the longest sequence, in room for them") {
  std::mt19937 rng(15);
  for (int i = 0; i < 20000; ++i) {
    AttentionProblem problem = draw(rng);
    DecodeAttentionConfig config = drawConfig(rng);
    if (!config.cluster && rng() % 4 == 0)
      problem.fixedSplit = 1 + int64_t(rng() % 3000);
    DecodeGrid grid(problem, config, 132);
    CAPTURE(problem.keys);
    CAPTURE(grid.splits);
    CAPTURE(grid.splitKeys);
    REQUIRE(grid.splitKeys >= 1);
    int64_t most = mostVisibleKeys(problem, problem.keys);
    REQUIRE(grid.splits * grid.splitKeys >= most);
    REQUIRE((grid.splits - 1) * grid.splitKeys <= std::max<int64_t>(most, 1));
    int64_t rows = problem.queries * problem.group();
    REQUIRE(grid.rowBlocks == std::max<int64_t>(ceilDiv(rows, config.rows), 1));
    if (config.cluster)
      REQUIRE(grid.splits <= DecodeAttentionConfig::kMaxCluster);
    // A plan serves smaller problems in the workspace that it asked for.
    int64_t room = partialRowsOfPlan(problem, config, 132);
    AttentionProblem smaller = problem;
    smaller.batch = 1 + int64_t(rng() % uint64_t(problem.batch));
    smaller.keys = int64_t(rng() % uint64_t(problem.keys + 1));
    smaller.queries = 1 + int64_t(rng() % uint64_t(problem.queries));
    smaller.typicalKeys = std::min(smaller.keys, problem.typicalKeys);
    // Tensors may have room for more queries than the problem has.
    smaller.totalQueries = int64_t(rng() % 100000);
    if (config.cluster)
      continue;
    int64_t limit = problem.fixedSplit > 0 ? DecodeGrid::kMaxPartialRows : room;
    REQUIRE(DecodeGrid(smaller, config, 132, limit).rows(smaller) <= room);
    REQUIRE(DecodeGrid(problem, config, 132, limit).splits == grid.splits);
  }
}

TEST_CASE("decode is pruned for memory only where a launch would use more") {
  std::mt19937 rng(16);
  auto pick = [&](auto... values) {
    int64_t list[] = {int64_t(values)...};
    return list[rng() % std::size(list)];
  };
  const Template &decode = *attention().findTemplate("decode");
  int refused = 0;
  for (int i = 0; i < 300; ++i) {
    const bool isFixed = i % 3 == 0;
    int64_t kvHeads = pick(1, 8, 16);
    std::string text = fmt::format(
        "attention batch={} sq={} sk={} kvheads={} heads={} d={} dtype=bf16 "
        "kv=e4m3 {}",
        pick(1, 16, 255, 256, 2033, 60000), pick(1, 1, 8, 512, 4065),
        pick(16, 4096, 8192, 131072), kvHeads, kvHeads * pick(1, 4, 16, 128),
        pick(64, 128, 576), isFixed ? "split=64" : "");
    CAPTURE(text);
    Problem problem = parse(attention(), text);
    AttentionProblem read = readAttentionProblem(problem.values.array().data());
    const int64_t most =
        isFixed ? kMostFixedPartialBytes : DecodeGrid::kMostPartialBytes;
    decode.enumerate(problem, h200(), [&](Values values) {
      auto rejection = decode.prune(problem, values, h200());
      auto config = fromValues<DecodeAttentionConfig>(values);
      bool isGrid = rejection && rejection->reason == PruneReason::Grid;
      if (isGrid) // its numbers may not fit
        return;
      double bytes = double(partialBytes(1, read.valueDim)) *
                     double(DecodeGrid(read, config, 132).rows(read));
      if (rejection && rejection->reason == PruneReason::Workspace) {
        ++refused;
        REQUIRE(bytes > double(most));
        return;
      }
      REQUIRE((bytes <= double(most) || config.cluster));
      if (!rejection)
        REQUIRE(decode.workspace(problem, values, h200()).bytes() <=
                uint64_t(most));
    });
  }
  CHECK(refused > 0);
}

TEST_CASE("long prompts over caches of e4m3 have more than generic kernels") {
  for (const char *text :
       {"sq=4065 sk=4065 heads=32 kvheads=8 d=128 dtype=bf16 kv=e4m3",
        "sq=8192 sk=8192 heads=32 kvheads=8 d=128 dtype=bf16 kv=e4m3",
        "batch=16 sq=8192 sk=8192 totalq=8192 qlen=packed kvlen=used "
        "heads=32 kvheads=8 d=128 dtype=bf16 kv=e4m3 pages=table page=16",
        "batch=256 sq=1 sk=4096 heads=128 kvheads=1 d=576 dv=512 dtype=bf16 "
        "latent=1",
        "batch=2 sq=1 sk=8192 heads=12 d=128 dtype=e4m3",
        "sq=512 sk=8192 heads=12 d=128 dtype=e4m3 mask=causal"})
    for (const char *name :
         {"h200-sxm", "a100-sxm4-80gb", "l40s", "b200-sxm", "a10"}) {
      CAPTURE(text);
      CAPTURE(name);
      Problem problem = parse(attention(), std::string("attention ") + text);
      auto space =
          llvm::cantFail(exploreSpace(attention(), problem, device(name)));
      REQUIRE(!space.ranked.empty());
      CHECK(!space.ranked.front().tmpl->isGeneric());
    }
}

TEST_CASE("groups of more heads than a tile has rows are no cliff") {
  struct Case {
    const char *device, *sizes;
  };
  for (auto [name, sizes] : {Case{"h200-sxm", "batch=1 sk=4096 d=128"},
                             Case{"h200-sxm", "batch=8 sk=4096 d=128"},
                             Case{"h200-sxm", "batch=64 sk=4096 d=128"},
                             Case{"h200-sxm", "batch=1 sk=131072 d=64"},
                             Case{"a100-sxm4-80gb", "batch=1 sk=4096 d=128"},
                             Case{"a100-sxm4-80gb", "batch=8 sk=4096 d=128"},
                             Case{"a100-sxm4-80gb", "batch=1 sk=131072 d=64"},
                             Case{"l40s", "batch=1 sk=4096 d=128"},
                             Case{"l40s", "batch=8 sk=4096 d=128"},
                             Case{"l40s", "batch=1 sk=131072 d=64"}}) {
    CAPTURE(name);
    CAPTURE(sizes);
    auto timeOf = [&](int heads) {
      Problem problem =
          parse(attention(), fmt::format("attention sq=1 heads={} kvheads=1 "
                                         "dtype=bf16 {}",
                                         heads, sizes));
      auto space =
          llvm::cantFail(exploreSpace(attention(), problem, device(name)));
      return space.ranked.front().estimate.totalNs;
    };
    const double full = timeOf(64);
    CHECK(timeOf(65) < 1.5 * full);
    CHECK(timeOf(71) < 1.5 * full);
    CHECK(timeOf(96) < 1.6 * full);
    CHECK(timeOf(128) < 2 * full);
  }
}

TEST_CASE("keys are split until there is a block for each SM") {
  struct Case {
    int64_t batch, kvHeads, keys, splits;
  };
  // H200; the best measured configs.
  const Case cases[] = {{1, 8, 4096, 16},  {1, 8, 131072, 16}, {4, 8, 2048, 4},
                        {8, 8, 4096, 2},   {64, 1, 4096, 2},   {32, 8, 4096, 1},
                        {16, 32, 2048, 1}, {1, 1, 131072, 128}};
  for (const Case &c : cases) {
    AttentionProblem problem;
    problem.batch = c.batch;
    problem.kvHeads = c.kvHeads;
    problem.heads = 4 * c.kvHeads;
    problem.queries = 1;
    problem.keys = problem.typicalKeys = c.keys;
    CAPTURE(c.batch);
    CAPTURE(c.keys);
    CHECK(DecodeGrid(problem, {.rows = 8}, 132).splits == c.splits);
  }
}

TEST_CASE("ragged batches have splits of a fixed length") {
  AttentionProblem problem;
  problem.batch = 64;
  problem.heads = 32;
  problem.kvHeads = 8;
  problem.queries = 1;
  problem.keys = 32768;
  problem.typicalKeys = 5746;
  DecodeGrid grid(problem, {.rows = 8}, 132);
  CHECK(grid.splitKeys == 2048);
  CHECK(grid.splits == 16);
  // A fixed split does not depend on other fields.
  problem.fixedSplit = 1000;
  for (int64_t batch : {1, 7, 64}) {
    problem.batch = batch;
    DecodeGrid fixed(problem, {.rows = 8}, 132);
    CHECK(fixed.splitKeys == 1000);
    CHECK(fixed.splits == 33);
  }
}

TEST_CASE("a short window at the end of a long sequence has few splits") {
  AttentionProblem problem;
  problem.batch = problem.heads = problem.kvHeads = problem.queries = 1;
  problem.keys = problem.typicalKeys = 100000;
  problem.mask = AttentionMask::Window;
  problem.left = 127;
  CHECK(mostVisibleKeys(problem, problem.keys) == 128);
  CHECK(DecodeGrid(problem, {.rows = 8}, 132).splits == 2);
}

TEST_CASE("a launch without splits is one step") {
  std::string problem = std::string(kLlm) + "batch=32 sk=4096";
  Plan plan = planOf(problem, "decode.r8.t16.st3.w4");
  CHECK(plan.kernels.size() == 2); // fewer sequences have splits
  LaunchSpec spec;
  bindLaunch(plan, problem, spec);
  REQUIRE(spec.stepCount == 1);
  const KernelStep &step = spec.steps[0].kernel;
  CHECK(step.grid == Dim3{1, 8, 32});
  CHECK(step.block == Dim3{128, 1, 1});
  CHECK(step.sharedBytes == 4u * 3 * 2 * 16 * 256);
  AttentionParams params = paramsOf(spec, 0);
  CHECK(params.splits == 1);
  CHECK(params.splitKeys >= 4096);
  CHECK(params.kvHeads == 8);
}

TEST_CASE("splits are merged by a kernel that starts early") {
  std::string problem = std::string(kLlm) + "batch=1 sk=16384";
  Plan plan = planOf(problem, "decode.r8.t16.st3.w4");
  CHECK(plan.workspace.zeroedBytes == 0);
  LaunchSpec spec;
  bindLaunch(plan, problem, spec);
  REQUIRE(spec.stepCount == 2);
  CHECK(spec.steps[0].kernel.grid == Dim3{16, 8, 1});
  CHECK(!spec.steps[0].kernel.dependentLaunch);
  const KernelStep &merge = spec.steps[1].kernel;
  CHECK(merge.function == 1);
  CHECK(merge.grid == Dim3{1, 32, 1});
  CHECK(merge.dependentLaunch);
  AttentionParams params = paramsOf(spec, 1);
  CHECK(params.splits == 16);
  CHECK(params.splitKeys == 1024);
  auto at = [](const float *pointer) {
    return reinterpret_cast<uint64_t>(pointer);
  };
  CHECK(at(params.partialO) == 0x1000);
  CHECK(at(params.partialLse) == 0x1000 + 16 * 32 * 128 * 4);
  CHECK(at(params.partialLse) + 16 * 32 * 4 - 0x1000 <=
        plan.workspace.scratchBytes);

  SUBCASE("an A100 has no early start") {
    const DeviceModel a100 = device("a100-sxm4-80gb");
    Plan older = planOf(problem, "decode.r8.t16.st3.w4", a100);
    LaunchSpec olderSpec;
    bindLaunch(older, problem, olderSpec, 108);
    REQUIRE(olderSpec.stepCount == 2);
    CHECK(!olderSpec.steps[1].kernel.dependentLaunch);
  }
}

TEST_CASE("or by their cluster") {
  std::string problem = std::string(kLlm) + "batch=4 sk=2048";
  Plan plan = planOf(problem, "decode.r8.t16.st3.w4.cl1");
  CHECK(plan.kernels.size() == 1);
  CHECK(plan.workspace.bytes() == 0);
  LaunchSpec spec;
  bindLaunch(plan, problem, spec);
  REQUIRE(spec.stepCount == 1);
  CHECK(spec.steps[0].kernel.grid == Dim3{4, 8, 4});
  CHECK(spec.steps[0].kernel.cluster == Dim3{4, 1, 1});
}

TEST_CASE("a plan of many sequences serves few in its workspace") {
  Plan plan =
      planOf(std::string(kLlm) + "batch=64 sk=8192", "decode.r8.t16.st3.w4");
  LaunchSpec spec;
  bindLaunch(plan, std::string(kLlm) + "batch=1 sk=8192", spec);
  REQUIRE(spec.stepCount == 2);
  AttentionParams params = paramsOf(spec, 0);
  CHECK(params.splits == 16);
  CHECK(uint64_t(partialBytes(16 * 32, 128)) <= plan.workspace.scratchBytes);
}

TEST_CASE("S16: room for more queries takes no workspace and no splits") {
  // Serving engines have tensors as long as their longest batch. Plans are made
  // without that.
  for (const char *rest : {"", " split=1024"}) {
    std::string problem = std::string(kLlm) + "batch=4 sk=16384 qlen=packed";
    Plan plan = planOf(problem + rest, "decode.r8.t16.st3.w4");
    LaunchSpec spec, roomy, tight;
    bindLaunch(plan, problem + rest, spec);
    bindLaunch(plan, problem + rest + " totalq=8192", roomy);
    bindLaunch(plan, problem + rest + " totalq=3", tight);
    AttentionParams expected = paramsOf(spec, 0), params = paramsOf(roomy, 0);
    CHECK(expected.splits > 1);
    CHECK(params.splits == expected.splits);
    CHECK(params.partialLse == expected.partialLse);
    CHECK(params.totalQueries == 8192);
    constexpr AttentionSignature kPacked = {.queryLengths =
                                                AttentionLengths::Packed};
    CHECK(partialRows<kPacked>(params) == 4 * 32);
    CHECK(partialRow<kPacked>(params, 3, {8191, 1}, 31, 0) == 4 * 32 - 1);
    // Below the maximum, rows are packed like those of O.
    params = paramsOf(tight, 0);
    CHECK(partialRows<kPacked>(params) == 3 * 32);
    CHECK(partialRow<kPacked>(params, 3, {2, 1}, 31, 0) == 3 * 32 - 1);
    CHECK(uint64_t(partialBytes(expected.splits * 4 * 32, 128)) <=
          plan.workspace.scratchBytes);
  }
}

TEST_CASE("decode says what it cannot do") {
  auto why = [](const std::string &problem, const std::string &config) {
    return reason(attention(), problem, config);
  };
  std::string base = "attention sq=1 sk=1000 heads=8 ";
  CHECK(why(base + "d=128 dtype=bf16", "decode.r8.t16.st3.w4") == "none");
  CHECK(why(base + "d=128 dtype=bf16 kv=e4m3", "decode.r8.t32.st3.w4") ==
        "none");
  for (const char *row : {"d=100 dtype=bf16", "d=98 dv=36 dtype=fp16",
                          "d=104 dtype=bf16 kv=e4m3", "d=100 dtype=e4m3"})
    CHECK(why(base + row, "decode.r8.t16.st3.w4") == "none");
  CHECK(why(base + "d=99 dtype=bf16", "decode.r8.t16.st3.w4") ==
        "alignment: 2 B, 4 needed");
  CHECK(why(base + "d=102 dtype=bf16 kv=e4m3", "decode.r8.t16.st3.w4") ==
        "alignment: 2 B, 4 needed");
  CHECK(why(base + "d=320 dtype=bf16 kv=e4m3", "decode.r8.t16.st3.w4.p2.sq1") ==
        "none");
  CHECK(why(base + "d=256 dtype=bf16", "decode.r32.t16.st3.w4") ==
        "register wall: 416 sums, scores and addresses a thread, 156 allowed");
  CHECK(why(base + "d=256 dtype=bf16", "decode.r16.t16.st2.w4.sq1") == "none");
  CHECK(why(base + "d=512 dtype=bf16", "decode.r8.t16.st2.w4.sq1") ==
        "register wall: 296 sums, scores and addresses a thread, 156 allowed");
  CHECK(why(base + "d=512 dtype=bf16", "decode.r8.t16.st2.w4.p4.sq1") ==
        "none");
  CHECK(why(base + "d=512 dtype=bf16", "decode.r8.t16.st2.w2.p4.sq1") ==
        "dominated: 2 warps, 4 needed");
  CHECK(why(base + "d=128 dtype=bf16 batch=64", "decode.r8.t16.st3.w4.cl1") ==
        "dominated: 1 splits, 2 needed");
  CHECK(why("attention sq=4096 sk=4096 heads=8 d=128 dtype=bf16",
            "decode.r32.t16.st3.w4.sq1") ==
        "dominated: 128 blocks of rows, limit 16 blocks of rows");
}

TEST_CASE("any head dim whose rows are copied has splits") {
  for (const char *type : {"bf16", "e4m3", "bf16 kv=e4m3"})
    for (int dim = 12; dim <= 576; dim += 4) {
      Problem problem =
          parse(attention(),
                fmt::format("attention sq=1 sk=131072 heads=32 kvheads=8 "
                            "d={} dtype={}",
                            dim, type));
      CAPTURE(std::string(type));
      CAPTURE(dim);
      for (const char *name : {"h200-sxm", "a100-sxm4-80gb", "l40s"}) {
        auto space =
            llvm::cantFail(exploreSpace(attention(), problem, device(name)));
        REQUIRE(!space.ranked.empty());
        CHECK(space.ranked.front().tmpl->name().str() == "decode");
      }
    }
}

TEST_CASE("narrow copies cost little beside wide ones") {
  auto timeOf = [&](int dim) {
    Problem problem = parse(
        attention(), fmt::format("attention sq=1 sk=131072 heads=32 kvheads=8 "
                                 "d={} dtype=bf16",
                                 dim));
    auto space = llvm::cantFail(exploreSpace(attention(), problem, h200()));
    return space.ranked.front().estimate.totalNs;
  };
  CHECK(timeOf(100) < 1.3 * timeOf(104));
  CHECK(timeOf(100) > 100.0 / 104 * timeOf(104));
}

TEST_CASE("results that do not depend on the batch have one config") {
  for (const char *batch : {"1", "64"}) {
    Problem problem = parse(
        attention(), std::string(kLlm) + "sk=8192 split=1024 batch=" + batch);
    std::vector<std::string> configs;
    attention().findTemplate("decode")->enumerate(
        problem, h200(),
        [&](Values config) { configs.push_back(config.text()); });
    REQUIRE(configs.size() == 1);
    CHECK(configs[0] == "decode.r8.t16.st3.w4");
  }
}

TEST_CASE("latent attention has configs that share the columns of O out") {
  Problem problem =
      parse(attention(),
            "attention batch=64 sq=1 sk=4096 heads=16 kvheads=1 d=576 dv=512 "
            "dtype=bf16");
  const Template &decode = *attention().findTemplate("decode");
  int allowed = 0;
  decode.enumerate(problem, h200(), [&](Values config) {
    CHECK(config.get("p") == 4);
    CHECK(config.get("sq") == 1);
    allowed += !decode.prune(problem, config, h200());
  });
  CHECK(allowed > 0);
}
