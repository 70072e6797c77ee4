// The parts of a launch of wgmma attention: tensor maps, tiles, splits,
// workspace; and the configs that are refused.
#include "Families/Attention/AttentionFamily.h"
#include "Families/Attention/Sm90AttentionPlan.h"
#include "Families/FamilyTesting.h"

#include "attention/Sm90AttentionParams.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstring>
#include <vector>

using namespace kiln;
using namespace kiln::testing;

namespace {

using Numbers = std::vector<uint64_t>;

/// A launch of a config that the pruner accepts, for its problem.
struct Launch {
  Plan plan;
  LaunchSpec spec;
  std::vector<EncodedTensorMap> prototypes;

  Launch(llvm::StringRef problemText, llvm::StringRef configText) {
    Problem problem = parse(attention(), problemText);
    auto named = llvm::cantFail(attention().parseConfig(configText));
    if (auto rejection = named.tmpl->prune(problem, named.config, h200()))
      FAIL(rejection->text());
    plan = named.tmpl->plan(problem, named.config, h200());
    prototypes.resize(plan.tensorMaps.size());
    Arguments arguments = attention().defaultArguments(problem);
    for (int i = 0; i < AttentionOperand::Count; ++i)
      arguments.operands[i].address = DeviceAddress(0x1000) * (i + 1);
    LaunchContext context;
    context.smCount = 132;
    context.zeroed = 0x100000;
    context.scratch = 0x200000;
    context.isZeroed = true;
    context.tensorMaps = prototypes.data();
    plan.binder->bind(arguments, context, spec);
    REQUIRE(spec.stepCount >= 1);
  }

  const KernelStep &step(uint32_t index) const {
    return spec.steps[index].kernel;
  }
  Sm90AttentionParams params() const {
    REQUIRE(step(0).paramBytes == sizeof(Sm90AttentionParams));
    Sm90AttentionParams params;
    std::memcpy(static_cast<void *>(&params), spec.params + step(0).paramOffset,
                sizeof(params));
    return params;
  }
  /// The map of Q, K or V, all of which are prototypes here.
  const TensorMapSpec &map(int index) const {
    REQUIRE(spec.tensorMaps[index].prototype == &prototypes[index]);
    return plan.tensorMaps[index];
  }
};

Numbers dims(const TensorMapSpec &map) {
  return {map.dims, map.dims + map.rank};
}
Numbers strides(const TensorMapSpec &map) {
  return {map.strides, map.strides + map.rank - 1};
}
Numbers box(const TensorMapSpec &map) { return {map.box, map.box + map.rank}; }

std::string refusal(llvm::StringRef problem, llvm::StringRef config) {
  return reason(attention(), problem, config);
}

constexpr llvm::StringRef kConfig = "sm90.wg2.bn128.st2.pk1";

} // namespace

TEST_CASE("maps of wgmma attention have any strides and heads of a tile") {
  // Q, K and V are parts of one tensor.
  Launch launch("batch=3 sq=256 sk=256 heads=8 kvheads=2 d=64 dtype=bf16 "
                "ldq=768 ldk=768 ldv=768",
                "sm90.wg2.bn128.st2.pk4");
  CHECK((dims(launch.map(0)) == Numbers{64, 4, 256, 2, 3}));
  CHECK((strides(launch.map(0)) == Numbers{128, 1536, 4 * 128, 256 * 1536}));
  CHECK((box(launch.map(0)) == Numbers{64, 4, 16, 1, 1}));
  CHECK((dims(launch.map(1)) == Numbers{64, 256, 2, 3}));
  CHECK((strides(launch.map(1)) == Numbers{1536, 128, 256 * 1536}));
  CHECK((box(launch.map(2)) == Numbers{64, 128, 1, 1}));
  Sm90AttentionParams params = launch.params();
  CHECK(params.schedule.heads == 3 * 2);
  CHECK(params.schedule.rowBlocks == 256 / 32);
  CHECK(launch.step(0).grid.x == 48);
}

TEST_CASE("the last tile of a group may have fewer heads") {
  Launch launch("batch=3 sq=2 sk=256 heads=142 kvheads=2 d=64 dtype=bf16",
                "sm90.wg2.bn128.st2.pk36.rg1");
  // The heads of a group, with zeros behind them.
  CHECK((dims(launch.map(0)) == Numbers{64, 71, 2, 2, 3}));
  CHECK((strides(launch.map(0)) ==
         Numbers{128, 142 * 128, 71 * 128, 2 * 142 * 128}));
  CHECK((box(launch.map(0)) == Numbers{64, 36, 1, 1, 1}));
  CHECK(launch.params().schedule.heads == 3 * 2 * 2);
  const std::string problem =
      "attention sq=1 sk=256 heads=71 kvheads=1 d=64 dtype=bf16";
  CHECK(refusal(problem, "sm90.wg2.bn128.st2.pk36.rg1") == "none");
  for (const char *packed : {"36", "65.rg1"})
    CHECK(refusal(problem, std::string("sm90.wg2.bn128.st2.pk") + packed) !=
          "none");
  CHECK(refusal("attention sq=1 sk=256 heads=96 kvheads=1 d=64 dtype=bf16",
                "sm90.wg2.bn128.st2.pk48") == "none");
  CHECK(refusal("attention sq=1 sk=256 heads=96 kvheads=1 d=64 dtype=bf16",
                "sm90.wg2.bn128.st2.pk48.rg1") != "none");
}

TEST_CASE("packed sequences are one for maps of wgmma attention") {
  Launch launch("batch=3 sq=100 sk=200 heads=2 d=128 dtype=fp16 qlen=packed "
                "kvlen=packed totalq=150 totalk=400",
                kConfig);
  CHECK((dims(launch.map(0)) == Numbers{128, 1, 150, 2, 1}));
  CHECK((dims(launch.map(1)) == Numbers{128, 400, 2, 1}));
  Sm90AttentionParams params = launch.params();
  CHECK(params.batchStepQ == 0);
  CHECK(params.batchStepK == 0);
  CHECK(params.schedule.heads == 3 * 2);
  CHECK(params.schedule.rowBlocks == 1);
}

TEST_CASE("sequences that share rows are one for maps of wgmma attention") {
  Launch launch("batch=3 sq=100 sk=200 heads=2 d=128 dtype=fp16 bsq=-1 bsk=-1",
                kConfig);
  CHECK((dims(launch.map(0)) == Numbers{128, 1, 100, 2, 1}));
  CHECK((dims(launch.map(1)) == Numbers{128, 200, 2, 1}));
  CHECK((dims(launch.map(2)) == Numbers{128, 200, 2, 3}));
  Sm90AttentionParams params = launch.params();
  CHECK(params.batchStepQ == 0);
  CHECK(params.batchStepK == 0);
  CHECK(params.batchStepV == 1);
  CHECK(params.schedule.heads == 3 * 2);
}

TEST_CASE("pages of wgmma attention come in boxes of their own") {
  Launch launch("batch=2 sq=100 sk=256 heads=2 d=128 dtype=bf16 kvlen=used "
                "pages=table page=16 poolpages=77",
                kConfig);
  CHECK((dims(launch.map(1)) == Numbers{128, 16, 2, 77}));
  CHECK((box(launch.map(1)) == Numbers{64, 16, 1, 1}));
  CHECK(launch.params().pageRows == 16);
  Launch wide("batch=2 sq=100 sk=512 heads=2 d=128 dtype=bf16 pages=table "
              "page=256",
              kConfig);
  CHECK((box(wide.map(1)) == Numbers{64, 128, 1, 1}));
  CHECK(wide.params().pageRows == 128);
}

TEST_CASE("boxes of e4m3 have as many bytes as those of two") {
  Launch launch("batch=3 sq=256 sk=256 heads=8 kvheads=2 d=96 dv=256 "
                "dtype=e4m3 scales=head",
                "sm90.wg2.bn96.st2.pk4");
  CHECK((dims(launch.map(0)) == Numbers{96, 4, 256, 2, 3}));
  CHECK((strides(launch.map(0)) == Numbers{96, 768, 4 * 96, 256 * 768}));
  CHECK((box(launch.map(0)) == Numbers{128, 4, 16, 1, 1}));
  CHECK((strides(launch.map(2)) == Numbers{512, 256, 256 * 512}));
  CHECK((box(launch.map(2)) == Numbers{128, 96, 1, 1}));
  CHECK(launch.map(1).elementType == static_cast<int32_t>(DType::E4M3));
}

TEST_CASE("splits of wgmma attention are merged by a second kernel") {
  Launch launch("sq=64 sk=4000 heads=2 d=128 dtype=bf16",
                "sm90.wg1.bn128.st2.pk1.sp8");
  REQUIRE(launch.spec.stepCount == 2);
  REQUIRE(launch.plan.kernels.size() == 2);
  Sm90AttentionParams params = launch.params();
  CHECK(params.attention.splits == 8);
  CHECK(params.attention.splitKeys == 512);
  CHECK(params.schedule.heads == 2 * 8);
  CHECK(launch.plan.workspace.scratchBytes == 8 * 2 * 64 * (128 + 1) * 4);
  CHECK(launch.plan.workspace.zeroedBytes == 0);
  CHECK(launch.step(1).grid.x == 64);
  CHECK(launch.step(1).dependentLaunch);
  // If the problem fixes splits, many rows are not split.
  Launch fixed("sq=128 sk=4000 heads=2 d=128 dtype=bf16 split=1024",
               "sm90.wg2.bn128.st2.pk1");
  CHECK(fixed.params().attention.splits == 1);
  CHECK(fixed.plan.workspace.bytes() == 0);
}

TEST_CASE("S16: splits of wgmma attention take what there are queries for") {
  constexpr llvm::StringRef kPacked =
      "batch=2 sq=64 sk=4000 heads=2 d=128 dtype=bf16 qlen=packed ";
  constexpr llvm::StringRef kSplit = "sm90.wg1.bn128.st2.pk1.sp8";
  const uint64_t bytes = Launch(kPacked, kSplit).plan.workspace.scratchBytes;
  // Plans are made without it, so it must not need more.
  for (const char *room : {"totalq=5000", "totalq=2000000"}) {
    Launch launch((kPacked + room).str(), kSplit);
    CHECK(launch.plan.workspace.scratchBytes == bytes);
    const AttentionParams &attention = launch.params().attention;
    CHECK(attention.partialLse - attention.partialO == 8 * 2 * 2 * 64 * 128);
  }
}

TEST_CASE("causal tiles of wgmma attention need a workspace to be drawn only") {
  constexpr llvm::StringRef kCausal =
      "sq=4096 sk=4096 heads=16 d=128 dtype=bf16 mask=causal";
  Launch pairs(kCausal, kConfig);
  CHECK(pairs.plan.workspace.bytes() == 0);
  CHECK(pairs.params().schedule.isPaired);
  Launch drawn(kCausal, "sm90.wg2.bn128.st2.dy1.pk1");
  CHECK(drawn.plan.workspace.zeroedBytes == 4);
  CHECK_FALSE(drawn.params().schedule.isPaired);
  CHECK(drawn.params().attention.counter != nullptr);
  // 16 heads of 2 MB each: 15 of them in half of L2, 8 in a section.
  CHECK(drawn.params().schedule.section == 8);
  CHECK(drawn.step(0).grid.x == 132);
}

TEST_CASE("wgmma attention says what it cannot do") {
  constexpr llvm::StringRef kUsual =
      "sq=128 sk=256 heads=8 kvheads=2 d=128 dtype=bf16 ";
  CHECK(refusal(kUsual, kConfig) == "none");
  CHECK(refusal(kUsual, "sm90.wg2.bn192.st2.pk1") ==
        "register wall: 208 registers of scores, probabilities and sums, 196 "
        "allowed");
  CHECK(refusal(kUsual, "sm90.wg2.bn100.st2.pk1") ==
        "instruction-shape: 100 keys of a block, 16 to 256 in steps of 16 "
        "allowed");
  CHECK(refusal(kUsual, "sm90.wg2.bn128.st2.pk3") ==
        "instruction-shape: 3 heads of a tile, divisors of the heads of a head "
        "of K, up to 64 allowed");
  CHECK(refusal((kUsual + "align=2").str(), kConfig) ==
        "alignment: 2 B, 16 needed");
  CHECK(refusal((kUsual + "pages=table page=4").str(), kConfig) ==
        "alignment: 4 tokens of a page, 8 needed");
  CHECK(refusal((kUsual + "pages=table page=48").str(), kConfig) ==
        "instruction-shape: 128 keys of a block, whole pages, or a part of one "
        "that divides it allowed");
  CHECK(refusal("sq=128 sk=256 heads=8 d=64 dtype=bf16 pages=table page=16",
                "sm90.wg3.bn128.st2.or1.pk1") ==
        "register wall: 3 consumers, 1 or 2 with pages allowed");
  CHECK(refusal((kUsual + "kv=e4m3").str(), kConfig) != "none");
  constexpr llvm::StringRef kE4M3 =
      "sq=128 sk=256 heads=8 kvheads=2 d=128 dtype=e4m3 ";
  CHECK(refusal(kE4M3, "sm90.wg2.bn224.st2.pk1") == "none");
  CHECK(refusal((kE4M3 + "softcap=20").str(), "sm90.wg2.bn224.st2.pk1") ==
        "register wall: 204 registers of scores, probabilities and sums, 188 "
        "allowed");
  CHECK(refusal(kE4M3, "sm90.wg2.bn112.st2.pk1") ==
        "instruction-shape: 112 keys of a block, 32 to 256 in steps of 32 "
        "allowed");
  CHECK(refusal(kUsual, "sm90.wg2.bn128.st2.pk1.sp3") != "none");
}
