// The parts of a launch of the wgmma template: tensor maps, copies of operands
// that TMA cannot read, workspace, grid.
#include "Driver/TensorMapElement.h"
#include "Families/Gemm/Sm90Testing.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <tuple>

using namespace kiln;
using namespace kiln::testing;

namespace {

constexpr size_t kA = offsetof(Sm90GemmParams, a);
constexpr size_t kB = offsetof(Sm90GemmParams, b);
constexpr size_t kC = offsetof(Sm90GemmParams, c);
constexpr size_t kD = offsetof(Sm90GemmParams, d);
constexpr size_t kResidual = offsetof(Sm90GemmParams, residual);

constexpr llvm::StringRef kWide = "sm90.bm128.bn256.bk64.st4.wg2";
constexpr llvm::StringRef kSwapped = "sm90.bm64.bn128.bk64.st4.wg2.sw1";
constexpr llvm::StringRef kSplit = "sm90.bm128.bn128.bk64.st4.wg2.sk3";

using Shape = std::tuple<uint64_t, uint64_t, uint64_t>;
using Strides = std::tuple<uint64_t, uint64_t>;
using Box = std::tuple<uint32_t, uint32_t>;

Shape dims(const BoundMap &map) {
  return {map.spec.dims[0], map.spec.dims[1], map.spec.dims[2]};
}
Strides strides(const BoundMap &map) {
  return {map.spec.strides[0], map.spec.strides[1]};
}
Box box(const BoundMap &map) {
  CHECK(map.spec.rank == 3);
  CHECK(map.spec.box[2] == 1);
  return {map.spec.box[0], map.spec.box[1]};
}

BoundMap mapOf(const BoundLaunch &launch, size_t member) {
  auto map = launch.map(member);
  REQUIRE(map.has_value());
  return *map;
}

/// GemmParams::early of a launch with \p constants that is dependent or not.
int boundEarly(const Plan &plan, const Problem &problem, bool depends,
               uint32_t constants) {
  Arguments arguments = BoundLaunch::argumentsOf(problem);
  arguments.isDependent = depends;
  arguments.constants = constants;
  return BoundLaunch(plan, arguments).params().gemm.early;
}

std::string config(llvm::StringRef base, llvm::StringRef more) {
  return (base + more).str();
}

} // namespace

TEST_CASE("maps describe operands as they are stored, boxes what is loaded") {
  struct Case {
    llvm::StringRef layout, config;
    Shape a, b;
    Box boxA, boxB;
  };
  // m 384, n 512, k 640; a tile is 128 x 256, with swapped sides 64 x 128.
  for (const Case &c : {
           Case{
               "NT", kWide, {640, 384, 3}, {640, 512, 3}, {64, 128}, {64, 256}},
           Case{"NN", kWide, {640, 384, 3}, {512, 640, 3}, {64, 128}, {64, 64}},
           Case{"TN", kWide, {384, 640, 3}, {512, 640, 3}, {64, 64}, {64, 64}},
           Case{"TT", kWide, {384, 640, 3}, {640, 512, 3}, {64, 64}, {64, 256}},
           Case{"NT",
                kSwapped,
                {640, 384, 3},
                {640, 512, 3},
                {64, 64},
                {64, 128}},
           Case{"NN",
                kSwapped,
                {640, 384, 3},
                {512, 640, 3},
                {64, 64},
                {64, 64}},
           Case{"TN",
                kSwapped,
                {384, 640, 3},
                {512, 640, 3},
                {64, 64},
                {64, 64}},
           Case{"TT",
                kSwapped,
                {384, 640, 3},
                {640, 512, 3},
                {64, 64},
                {64, 128}},
       }) {
    CAPTURE(c.layout.str());
    CAPTURE(c.config.str());
    Problem problem =
        parse(("gemm m=384 n=512 k=640 dtype=bf16 batch=3 lda=648 "
               "ldb=656 ldd=520 layout=" +
               c.layout)
                  .str());
    Plan plan = sm90Plan(problem, c.config);
    CHECK(plan.tensorMaps.size() == 3);
    BoundLaunch launch(plan, problem);
    CHECK(launch.spec.stepCount == 1);
    CHECK(launch.spec.tensorMapCount == 3);
    BoundMap a = mapOf(launch, kA), b = mapOf(launch, kB),
             d = mapOf(launch, kD);
    CHECK(dims(a) == c.a);
    CHECK(strides(a) == Strides{648 * 2, 648 * 2 * std::get<1>(c.a)});
    CHECK(box(a) == c.boxA);
    CHECK(dims(b) == c.b);
    CHECK(strides(b) == Strides{656 * 2, 656 * 2 * std::get<1>(c.b)});
    CHECK(box(b) == c.boxB);
    CHECK(dims(d) == Shape{512, 384, 3});
    CHECK(strides(d) == Strides{520 * 2, 384 * 520 * 2});
    CHECK(box(d) == Box{64, 64});
    for (const BoundMap *map : {&a, &b, &d}) {
      CHECK(map->isPrototype);
      CHECK(map->spec.swizzle == TensorMapSwizzle::B128);
      CHECK(map->spec.elementType == static_cast<int32_t>(DType::BF16));
    }
    CHECK(a.address == addressOf(GemmOperand::A));
    CHECK(b.address == addressOf(GemmOperand::B));
    CHECK(d.address == addressOf(GemmOperand::D));
  }
}

TEST_CASE("blocks of a cluster bring parts of the tile that they share") {
  Problem problem = parse("gemm m=512 n=512 k=512 dtype=bf16 layout=NT");
  auto boxes = [&](llvm::StringRef more) {
    Plan plan = sm90Plan(problem, config(kWide, more));
    BoundLaunch launch(plan, problem);
    CHECK(launch.product().cluster == Dim3{more.empty() ? 1u : 2u});
    return std::tuple(std::get<1>(box(mapOf(launch, kA))),
                      std::get<1>(box(mapOf(launch, kB))));
  };
  CHECK(boxes("") == std::tuple(128u, 256u));
  CHECK(boxes(".cm2") == std::tuple(128u, 128u)); // stacked: they share B
  CHECK(boxes(".cn2") == std::tuple(64u, 256u));
}

TEST_CASE("tiles of more rows than a box has come in halves") {
  Problem problem = parse("gemm m=768 n=512 k=512 dtype=bf16 layout=NT");
  auto rowsOfA = [&](llvm::StringRef text) {
    Plan plan = sm90Plan(problem, text);
    return std::get<1>(box(mapOf(BoundLaunch(plan, problem), kA)));
  };
  CHECK(rowsOfA("sm90.bm256.bn96.bk64.st4.wg1") == 256);
  CHECK(rowsOfA("sm90.bm320.bn96.bk64.st3.wg2.cs1") == 160);
  CHECK(rowsOfA("sm90.bm384.bn96.bk64.st3.wg2.cs1") == 192);
  CHECK(rowsOfA("sm90.bm384.bn96.bk64.st3.wg2.cn2.cs1") == 192);
}

TEST_CASE("boxes have no more rows than there are") {
  auto launched = [](llvm::StringRef problemText, llvm::StringRef text) {
    Problem problem = parse(problemText);
    Plan plan = sm90Plan(problem, text);
    BoundLaunch launch(plan, problem);
    return std::tuple(std::get<1>(box(mapOf(launch, kA))),
                      std::get<1>(box(mapOf(launch, kB))),
                      launch.params().stageBytes);
  };
  constexpr llvm::StringRef kThin = "sm90.bm64.bn96.bk64.st4.wg1";
  CHECK(launched("gemm m=64 n=512 k=512 dtype=bf16 layout=NT", kThin) ==
        std::tuple(64u, 96u, (64 + 96) * 128));
  CHECK(launched("gemm m=17 n=512 k=512 dtype=bf16 layout=NT", kThin) ==
        std::tuple(17u, 96u, (17 + 96) * 128));
  CHECK(launched("gemm m=17 n=40 k=512 dtype=bf16 layout=NT",
                 "sm90.bm64.bn64.bk128.st4.wg1") ==
        std::tuple(17u, 40u, (17 + 40) * 256));
  // Rows of k are not an extent of D: elements outside of it have to be zero.
  CHECK(launched("gemm m=17 n=40 k=32 dtype=bf16 layout=TN lda=24",
                 "sm90.bm64.bn64.bk64.st4.wg1") ==
        std::tuple(64u, 64u, (64 + 64) * 128));
  // Two blocks bring half a tile each, and one box of it has no rows.
  CHECK(launched("gemm m=300 n=40 k=512 dtype=bf16 layout=NT",
                 "sm90.bm128.bn128.bk64.st4.wg2.cm2") ==
        std::tuple(128u, 40u, (128 + 2 * 40) * 128));
}

TEST_CASE("maps of D fit the pieces that are staged") {
  struct Case {
    llvm::StringRef problem, config;
    Shape d;
    Box box;
    TensorMapSwizzle swizzle;
  };
  using Swizzle = TensorMapSwizzle;
  for (const Case &c : {
           Case{"dtype=bf16",
                "sm90.bm128.bn176.bk64.st4.wg2.pp1",
                {512, 384, 1},
                {64, 16},
                Swizzle::B128},
           Case{"dtype=bf16 pointwise=residual",
                "sm90.bm128.bn176.bk64.st4.wg2.pp1",
                {512, 384, 1},
                {16, 16},
                Swizzle::B32},
           Case{"dtype=bf16",
                "sm90.bm128.bn160.bk64.st4.wg2.pp1",
                {512, 384, 1},
                {32, 16},
                Swizzle::B64},
           Case{"dtype=bf16", kWide, {512, 384, 1}, {64, 64}, Swizzle::B128},
           Case{"dtype=bf16 out=fp32",
                kWide,
                {512, 384, 1},
                {32, 64},
                Swizzle::B128},
           Case{"dtype=bf16 out=fp32",
                kSwapped,
                {512, 384, 1},
                {32, 64},
                Swizzle::B128},
           Case{"dtype=bf16", kSplit, {512, 384, 1}, {64, 16}, Swizzle::B128},
           Case{"dtype=fp16",
                "sm90.bm24.bn64.bk64.st4.wg1.sw1",
                {512, 384, 1},
                {64, 24},
                Swizzle::B128},
           Case{"dtype=bf16",
                "sm90.bm104.bn64.bk64.st4.wg1.sw1",
                {512, 384, 1},
                {64, 56},
                Swizzle::B128},
           Case{"dtype=bf16 pointwise=residual",
                "sm90.bm104.bn64.bk64.st4.wg1.sw1",
                {512, 384, 1},
                {64, 104},
                Swizzle::B128},
           Case{"dtype=bf16 pointwise=swiglu",
                kWide,
                {256, 384, 1},
                {64, 16},
                Swizzle::B128},
           Case{"dtype=bf16 pointwise=swiglu",
                "sm90.bm128.bn224.bk64.st3.wg2",
                {256, 384, 1},
                {16, 64},
                Swizzle::B32},
       }) {
    CAPTURE(c.problem.str());
    CAPTURE(c.config.str());
    Problem problem =
        parse(("gemm m=384 n=512 k=640 layout=NT " + c.problem).str());
    Plan plan = sm90Plan(problem, c.config);
    BoundMap d = mapOf(BoundLaunch(plan, problem), kD);
    CHECK(dims(d) == c.d);
    CHECK(box(d) == c.box);
    CHECK(d.spec.swizzle == c.swizzle);
  }
}

TEST_CASE("c and the residual have maps where the epilogue fetches them") {
  auto has = [](llvm::StringRef fields) {
    Problem problem =
        parse(("gemm m=384 n=512 k=640 dtype=bf16 layout=NT " + fields).str());
    Plan plan = sm90Plan(problem, "sm90.bm128.bn128.bk64.st4.wg2");
    BoundLaunch launch(plan, problem);
    CHECK(plan.tensorMaps.size() == launch.spec.tensorMapCount);
    if (auto c = launch.map(kC)) {
      CHECK(c->address == addressOf(GemmOperand::C));
      CHECK(c->spec.strides[0] == 528 * 2);
    }
    if (auto residual = launch.map(kResidual)) {
      CHECK(residual->address == addressOf(GemmOperand::Residual));
      CHECK(residual->spec.strides[0] == 536 * 2);
      // Whole pieces are loaded, and a warp's rows are stored.
      CHECK(box(*residual) == Box{64, 64});
      CHECK(box(mapOf(launch, kD)) == Box{64, 16});
    }
    return std::tuple(launch.map(kC).has_value(), launch.map(kD).has_value(),
                      launch.map(kResidual).has_value());
  };
  CHECK(has("") == std::tuple(false, true, false));
  CHECK(has("beta=1 ldc=528") == std::tuple(true, true, false));
  CHECK(has("pointwise=residual ldr=536") == std::tuple(false, true, true));
  CHECK(has("pointwise=relu,residual beta=1 ldc=528 ldr=536") ==
        std::tuple(true, true, true));
  // One row that TMA cannot store: threads store, and load the operands that
  // they need.
  CHECK(has("pointwise=residual beta=1 ldd=513") ==
        std::tuple(false, false, false));
  CHECK(has("pointwise=residual,swiglu") == std::tuple(false, true, false));
}

TEST_CASE("an operand that TMA cannot read is copied first") {
  // B is [n, k] with rows of 511 elements; A's are padded.
  Problem problem = parse(
      "gemm m=300 n=512 k=511 dtype=bf16 layout=NT batch=2 lda=512 ldb=511");
  Plan plan = sm90Plan(problem, kWide);
  REQUIRE(plan.kernels.size() == 2);
  CHECK(plan.sharedBytes[1] == 0);
  CHECK(plan.kernels[1].arch() == "sm_90");
  BoundLaunch launch(plan, problem);
  REQUIRE(launch.spec.stepCount == 2);
  RepackParams copy = launch.repack(0);
  DeviceAddress target = kScratchAddress;
  CHECK(copy.source == reinterpret_cast<void *>(addressOf(GemmOperand::B)));
  CHECK(copy.target == reinterpret_cast<void *>(target));
  CHECK(copy.rows == 2 * 512);
  CHECK(copy.rowsPerBatch == 512);
  CHECK(copy.rowBytes == 1022);
  CHECK(copy.sourcePitch == 1022);
  CHECK(copy.sourceStride == 512 * 1022);
  CHECK(copy.targetPitch == 1024);
  CHECK(launch.spec.steps[0].kernel.grid == Dim3{2 * 512 * 64 / 256});
  CHECK(launch.spec.steps[0].kernel.block == Dim3{256});
  BoundMap b = mapOf(launch, kB);
  CHECK(b.isPrototype);
  CHECK(b.address == target);
  CHECK(dims(b) == Shape{511, 512, 2});
  CHECK(strides(b) == Strides{1024, 512 * 1024});
  CHECK(mapOf(launch, kA).address == addressOf(GemmOperand::A));
  CHECK(plan.workspace.zeroedBytes == 0);
  CHECK(plan.workspace.scratchBytes == 2 * 512 * 1024);
}

TEST_CASE("a column side of tf32 that does not lie along k is transposed") {
  // B is [k, n]; rows of A, [m, k], do not begin at multiples of 16 bytes.
  Problem problem = parse("gemm m=300 n=500 k=255 dtype=fp32 compute=tf32 "
                          "layout=NN batch=2 ldb=501");
  constexpr llvm::StringRef kTile = "sm90.bm128.bn128.bk32.st4.wg2";
  Plan plan = sm90Plan(problem, kTile);
  CHECK(llvm::StringRef(plan.kernels[0].source())
            .contains("gemm/Sm90Tf32Gemm.cuh"));
  REQUIRE(plan.kernels.size() == 3);
  CHECK(llvm::StringRef(plan.kernels[2].source()).contains("Transposed"));
  BoundLaunch launch(plan, problem);
  REQUIRE(launch.spec.stepCount == 3);
  RepackParams rows = launch.repack(0, 1), transpose = launch.repack(1, 2);
  CHECK(rows.targetPitch == 256 * 4);
  CHECK(transpose.source ==
        reinterpret_cast<void *>(addressOf(GemmOperand::B)));
  CHECK(transpose.rows == 2 * 255);
  CHECK(transpose.rowsPerBatch == 255);
  CHECK(transpose.rowBytes == 500 * 4);
  CHECK(transpose.sourcePitch == 501 * 4);
  CHECK(transpose.sourceStride == 255 * 501 * 4);
  CHECK(transpose.targetPitch == 256 * 4);
  CHECK(launch.spec.steps[1].kernel.grid == Dim3{4 * 8 * 2});
  BoundMap a = mapOf(launch, kA), b = mapOf(launch, kB), d = mapOf(launch, kD);
  CHECK(dims(b) == Shape{255, 500, 2});
  CHECK(strides(b) == Strides{1024, 500 * 1024});
  CHECK(box(b) == Box{32, 128});
  CHECK(b.address == reinterpret_cast<DeviceAddress>(transpose.target));
  CHECK(b.address == a.address + 2 * 300 * 1024);
  CHECK(plan.workspace.scratchBytes == 2 * (300 + 500) * 1024);
  // Loads round, stores do not.
  CHECK(a.spec.elementType == kTf32Element);
  CHECK(b.spec.elementType == kTf32Element);
  CHECK(d.spec.elementType == static_cast<int32_t>(DType::FP32));
}

TEST_CASE("a row side of tf32 stays where it lies") {
  Problem problem =
      parse("gemm m=300 n=512 k=256 dtype=fp32 compute=tf32 layout=NN");
  Plan plan = sm90Plan(problem, "sm90.bm128.bn128.bk32.st4.wg2.sw1");
  CHECK(plan.kernels.size() == 1);
  CHECK(plan.workspace.scratchBytes == 0);
  BoundLaunch launch(plan, problem);
  BoundMap b = mapOf(launch, kB);
  CHECK(dims(b) == Shape{512, 256, 1});
  CHECK(box(b) == Box{32, 32});
  CHECK(b.address == addressOf(GemmOperand::B));
  CHECK(launch.params().stageBytes == (128 + 128) * 128);
}

TEST_CASE("a product may begin before its copies have ended") {
  // B is copied, A is not.
  Problem problem =
      parse("gemm m=100 n=200 k=511 dtype=bf16 layout=NT lda=512");
  Plan plan = sm90Plan(problem, kWide);
  BoundLaunch launch(plan, problem);
  REQUIRE(launch.spec.stepCount == 2);
  CHECK_FALSE(launch.spec.steps[0].kernel.dependentLaunch);
  CHECK(launch.spec.steps[1].kernel.dependentLaunch);
  // All work ahead of the copy has ended when the product begins.
  CHECK(launch.params().gemm.early == kEarlyA);
  // In a dependent launch only constant operands are stable.
  CHECK(boundEarly(plan, problem, true, 0) == 0);
  CHECK(boundEarly(plan, problem, true, 1u << GemmOperand::A) == kEarlyA);
  CHECK(boundEarly(plan, problem, true, 1u << GemmOperand::B) == 0);
  // Without copies the launch has no dependence within itself.
  Problem aligned = parse("gemm m=100 n=24000 k=512 dtype=bf16 layout=NT");
  Plan alone = sm90Plan(aligned, kWide);
  CHECK_FALSE(BoundLaunch(alone, aligned).spec.steps[0].kernel.dependentLaunch);
  CHECK(boundEarly(alone, aligned, true, 1u << GemmOperand::B) == kEarlyB);
  CHECK(boundEarly(alone, aligned, false, 1u << GemmOperand::B) == 0);
}

TEST_CASE("what is cleared, copied and multiplied follows in that order") {
  // Splits that need zeros, with both operands copied.
  Problem problem = parse("gemm m=101 n=103 k=4095 dtype=fp16 layout=NT");
  Plan plan = sm90Plan(problem, kSplit);
  BoundLaunch launch(plan, problem);
  REQUIRE(launch.spec.stepCount == 4);
  CHECK(launch.spec.steps[0].kind == LaunchStep::Kind::Memset);
  CHECK_FALSE(launch.spec.steps[1].kernel.dependentLaunch);
  CHECK(launch.spec.steps[2].kernel.dependentLaunch);
  // No part is left that a copy does not write.
  CHECK_FALSE(launch.product().dependentLaunch);
  CHECK(launch.params().gemm.early == 0);
}

TEST_CASE("a product depends where few blocks share the tiles of a weight") {
  constexpr uint32_t kWeight = 1u << GemmOperand::B;
  auto early = [&](llvm::StringRef fields) {
    Problem problem = parse(("gemm dtype=bf16 layout=NT " + fields).str());
    Plan plan = sm90Plan(problem, kWide); // tiles of 128 x 256
    Arguments arguments = BoundLaunch::argumentsOf(problem);
    arguments.isDependent = true;
    arguments.constants = kWeight;
    BoundLaunch launch(plan, arguments);
    const int early = launch.params().gemm.early;
    CHECK(launch.product().dependentLaunch == (early != 0));
    return early;
  };
  CHECK(early("m=128 n=24000 k=4096") == kEarlyB);
  CHECK(early("m=129 n=24000 k=4096") == 0);
  CHECK(early("m=128 n=12000 k=4096 batch=2") == kEarlyB);
  // Too few blocks to be placed evenly, and two that share a short k.
  CHECK(early("m=128 n=12000 k=4096") == 0);
  CHECK(early("m=129 n=24000 k=512") == kEarlyB);
}

TEST_CASE("copies and partial sums share a workspace") {
  // Rows of A and B, [k, m] and [k, n], begin at odd elements.
  Problem problem = parse("gemm m=301 n=303 k=4096 dtype=fp16 layout=TN "
                          "batch=2 beta=1 pointwise=residual");
  Plan plan = sm90Plan(problem, kSplit);
  BoundLaunch launch(plan, problem);
  REQUIRE(launch.spec.stepCount == 4);
  CHECK(launch.spec.steps[0].kind == LaunchStep::Kind::Memset);
  Sm90GemmParams params = launch.params();
  struct Region {
    DeviceAddress begin;
    uint64_t bytes;
  };
  auto at = [](const void *pointer) {
    return reinterpret_cast<DeviceAddress>(pointer);
  };
  auto copied = [&](uint32_t step) {
    RepackParams copy = launch.repack(step);
    return Region{at(copy.target), uint64_t(copy.rows * copy.targetPitch)};
  };
  constexpr uint64_t kTiles = 3 * 3 * 2;
  Region regions[] = {{at(params.gemm.partials), kTiles * 3 * 128 * 128 * 4},
                      copied(1),
                      copied(2)};
  CHECK(params.gemm.counters == nullptr);
  CHECK(regions[0].begin == kZeroedAddress);
  CHECK(regions[0].bytes == plan.workspace.zeroedBytes);
  CHECK(regions[1].begin == kScratchAddress);
  CHECK(regions[2].begin >= regions[1].begin + regions[1].bytes);
  CHECK(regions[2].begin % WorkspaceLayout::kAlignment == 0);
  CHECK(regions[2].begin + regions[2].bytes <=
        kScratchAddress + plan.workspace.scratchBytes);
  CHECK(mapOf(launch, kA).address == regions[1].begin);
  CHECK(mapOf(launch, kB).address == regions[2].begin);
  CHECK(launch.spec.tensorMapCount == 2);
}

TEST_CASE("all batches of a shared operand are its first") {
  Problem problem = parse("gemm m=300 n=512 k=511 dtype=bf16 layout=NT batch=4 "
                          "beta=1 pointwise=residual lda=512 ldb=512");
  Plan plan = sm90Plan(problem, "sm90.bm128.bn128.bk64.st4.wg2");
  Arguments arguments = BoundLaunch::argumentsOf(problem);
  for (int operand : {GemmOperand::B, GemmOperand::Residual})
    arguments.operands[operand].batchStride = 0;
  BoundLaunch launch(plan, arguments);
  Sm90GemmParams params = launch.params();
  CHECK(params.batchStepA == 1);
  CHECK(params.batchStepB == 0);
  CHECK(params.batchStepC == 1);
  CHECK(params.batchStepResidual == 0);
  CHECK(mapOf(launch, kA).isPrototype);
  CHECK(!mapOf(launch, kB).isPrototype);
  CHECK(dims(mapOf(launch, kA)) == Shape{511, 300, 4});
  CHECK(dims(mapOf(launch, kB)) == Shape{511, 512, 1});
  CHECK(dims(mapOf(launch, kC)) == Shape{512, 300, 4});
  CHECK(dims(mapOf(launch, kResidual)) == Shape{512, 300, 1});

  // A copy is made only once, too.
  problem = parse("gemm m=300 n=512 k=511 dtype=bf16 layout=NT batch=4");
  plan = sm90Plan(problem, kWide);
  arguments = BoundLaunch::argumentsOf(problem);
  arguments.operands[GemmOperand::B].batchStride = 0;
  BoundLaunch copying(plan, arguments);
  CHECK(copying.repack(0).rows == 4 * 300);
  CHECK(copying.repack(1).rows == 512);
  CHECK(dims(mapOf(copying, kB)) == Shape{511, 512, 1});
  CHECK(copying.params().batchStepB == 0);
}

TEST_CASE("a plan serves other values of m") {
  Problem planned =
      parse("gemm m=8192 n=1024 k=511 dtype=bf16 layout=NT lda=512 "
            "ldb=512 pointwise=residual");
  Plan plan = sm90Plan(planned, "sm90.bm128.bn128.bk64.st4.wg2");
  BoundLaunch same(plan, planned);
  for (size_t member : {kA, kB, kD, kResidual})
    CHECK(mapOf(same, member).isPrototype);
  CHECK(same.product().grid == Dim3{132}); // of 64 x 8 tiles
  Problem other = parse("gemm m=300 n=1024 k=511 dtype=bf16 layout=NT lda=512 "
                        "ldb=512 pointwise=residual");
  BoundLaunch launch(plan, other);
  CHECK(launch.params().gemm.m == 300);
  CHECK(launch.product().grid == Dim3{3 * 8});
  CHECK(!mapOf(launch, kA).isPrototype);
  CHECK(mapOf(launch, kB).isPrototype);
  CHECK(!mapOf(launch, kD).isPrototype);
  CHECK(!mapOf(launch, kResidual).isPrototype);
  CHECK(dims(mapOf(launch, kA)) == Shape{511, 300, 1});
  CHECK(dims(mapOf(launch, kD)) == Shape{1024, 300, 1});
  CHECK(box(mapOf(launch, kA)) == box(mapOf(same, kA)));
  CHECK(box(mapOf(launch, kD)) == box(mapOf(same, kD)));

  // Splits and copies of fewer rows take less of the workspace.
  planned = parse("gemm m=256 n=512 k=4095 dtype=bf16 layout=NT ldb=4096");
  plan = sm90Plan(planned, kSplit);
  other = parse("gemm m=7 n=512 k=4095 dtype=bf16 layout=NT ldb=4096");
  BoundLaunch fewer(plan, other);
  REQUIRE(fewer.spec.stepCount == 3);
  CHECK(fewer.product().grid == Dim3{4 * 3});
  CHECK(fewer.spec.steps[0].memset.bytes == 4 * 3 * 128 * 128 * 4);
  CHECK(fewer.repack(1).rows == 7);
  CHECK(reinterpret_cast<DeviceAddress>(fewer.repack(1).target) ==
        kScratchAddress);
}

TEST_CASE("a plan binds other problems as their own plans do") {
  struct Case {
    const char *planned, *launched;
    llvm::StringRef config = "sm90.bm128.bn128.bk64.st4.wg2";
  };
  for (const Case &c : std::initializer_list<Case>{
           {"m=512", "m=384"},
           {"m=384 batch=4", "m=384 batch=3"},
           {"m=384 batch=3", "m=384 batch=1"},
           {"m=384 batch=1", "m=384 batch=3"},
           {"m=384 batch=3 beta=1 pointwise=residual",
            "m=384 batch=2 beta=1 pointwise=residual"},
           {"m=384 batch=8 groups=ends", "m=640 batch=8 groups=ends"},
           {"m=384 batch=8 groups=ends gather=1",
            "m=640 batch=8 groups=ends gather=1"},
           {"m=64 batch=8 groups=masked room=256",
            "m=64 batch=4 groups=masked room=128"},
           {"m=384 batch=2 lda=513 ldb=515", "m=300 batch=1 lda=513 ldb=515",
            kWide},
           {"m=384", "m=100", kSplit}}) {
    CAPTURE(c.planned);
    CAPTURE(c.launched);
    auto problemOf = [](const std::string &fields) {
      return parse("gemm " + fields + " n=512 k=512 dtype=bf16 layout=NT");
    };
    const Problem planned = problemOf(c.planned),
                  launched = problemOf(c.launched);
    const Plan plan = sm90Plan(planned, c.config),
               own = sm90Plan(launched, c.config);
    const BoundLaunch far(plan, launched), near(own, launched);
    REQUIRE(far.spec.stepCount == near.spec.stepCount);
    for (uint32_t i = 0; i < far.spec.stepCount; ++i) {
      const LaunchStep &a = far.spec.steps[i], &b = near.spec.steps[i];
      REQUIRE(a.kind == b.kind);
      if (a.kind == LaunchStep::Kind::Kernel)
        CHECK(a.kernel.grid == b.kernel.grid);
      else
        CHECK(a.memset.bytes == b.memset.bytes);
    }
    const Sm90GemmParams a = far.params(), b = near.params();
    CHECK(a.gemm.a == b.gemm.a);
    CHECK(a.gemm.m == b.gemm.m);
    CHECK(a.gemm.batch == b.gemm.batch);
    CHECK(a.gemm.lda == b.gemm.lda);
    CHECK(a.gemm.partials == b.gemm.partials);
    CHECK(a.stageBytes == b.stageBytes);
    CHECK(a.batchStepA == b.batchStepA);
    for (size_t member : {kA, kB, kC, kD, kResidual}) {
      CAPTURE(member);
      const auto of = far.map(member), to = near.map(member);
      REQUIRE(of.has_value() == to.has_value());
      if (!of)
        continue;
      CHECK(to->isPrototype);
      CHECK(of->address == to->address);
      CHECK(dims(*of) == dims(*to));
      CHECK(strides(*of) == strides(*to));
      CHECK(box(*of) == box(*to));
    }
  }
}

TEST_CASE("splits of a tile run at once, on sums that are zero") {
  Problem problem = parse("gemm m=256 n=512 k=4096 dtype=bf16 layout=NT");
  Plan plan = sm90Plan(problem, kSplit);
  CHECK(plan.workspace.zeroedBytes == 8 * 3 * 128 * 128 * 4);
  LaunchContext context = BoundLaunch::defaultContext();
  BoundLaunch launch(plan, problem, context);
  REQUIRE(launch.spec.stepCount == 2);
  CHECK(launch.spec.steps[0].memset.bytes == plan.workspace.zeroedBytes);
  CHECK(launch.spec.steps[0].memset.value == 0);
  CHECK(launch.product().cooperative);
  CHECK(launch.product().grid == Dim3{8 * 3});
  context.isZeroed = true;
  CHECK(BoundLaunch(plan, problem, context).spec.stepCount == 1);

  // More tiles than groups of splits that fit: groups take several.
  Problem large = parse("gemm m=1024 n=1024 k=4096 dtype=bf16 layout=NT");
  plan = sm90Plan(large, kSplit);
  CHECK(BoundLaunch(plan, large).product().grid == Dim3{132 / 3 * 3});
  context.smCount = 40;
  CHECK(BoundLaunch(plan, large, context).product().grid == Dim3{13 * 3});

  // Whole tiles do not wait for others.
  plan = sm90Plan(problem, "sm90.bm128.bn128.bk64.st4.wg2");
  CHECK(!BoundLaunch(plan, problem).product().cooperative);
  CHECK(plan.workspace.bytes() == 0);
}

TEST_CASE("a persistent grid keeps to the SMs that it may use") {
  Problem problem = parse("gemm m=8192 n=8192 k=512 dtype=bf16 layout=NT");
  auto grid = [&](llvm::StringRef more, int smCount) {
    Plan plan = sm90Plan(problem, config(kWide, more));
    LaunchContext context = BoundLaunch::defaultContext();
    context.smCount = smCount;
    BoundLaunch launch(plan, problem, context);
    CHECK(launch.product().block == Dim3{384});
    CHECK(launch.product().sharedBytes == plan.sharedBytes[0]);
    return launch.product().grid.x;
  };
  CHECK(grid("", 132) == 132);
  CHECK(grid("", 51) == 51);
  CHECK(grid(".cm2", 132) == 2 * h200().maxClusters(2));
  CHECK(grid(".cm2", 51) == 50);
  CHECK(grid(".cn2", 1) == 2); // a cluster is the least possible
  problem = parse("gemm m=300 n=300 k=512 dtype=bf16 layout=NT batch=2");
  CHECK(grid("", 132) == 3 * 2 * 2);
  CHECK(grid(".cm2", 132) == 2 * 2 * 2 * 2); // the third row has an idle twin
}

TEST_CASE("a grid that stages where its ring was has a block for each tile") {
  Problem problem = parse("gemm m=1408 n=2048 k=512 dtype=bf16 layout=NT");
  Plan plan = sm90Plan(problem, "sm90.bm128.bn192.bk64.st5.wg2.sg2");
  LaunchContext context = BoundLaunch::defaultContext();
  for (int smCount : {132, 7}) {
    context.smCount = smCount;
    BoundLaunch launch(plan, problem, context);
    CHECK(launch.product().grid == Dim3{11 * 11});
    CHECK(!launch.product().cooperative);
  }
  Plan other = sm90Plan(problem, "sm90.bm128.bn192.bk64.st5.wg2.sg1");
  context.smCount = 7;
  CHECK(BoundLaunch(other, problem, context).product().grid == Dim3{7});
}

TEST_CASE("run-time knobs reach the kernel and no text") {
  Problem problem = parse("gemm m=8192 n=8192 k=512 dtype=bf16 layout=NT");
  Plan plain = sm90Plan(problem, kWide);
  Plan plan = sm90Plan(problem, config(kWide, ".rg16.rn1.hi1.pr3"));
  CHECK(plan.kernels[0].source() == plain.kernels[0].source());
  Sm90GemmParams params = BoundLaunch(plan, problem).params();
  CHECK(params.gemm.rasterGroup == 16);
  CHECK(params.rasterAlongN == 1);
  CHECK(params.hints == 1);
  CHECK(params.tilesFirst == 0);
  CHECK(plan.tensorMaps[0].l2Promotion == L2Promotion::B256);
  CHECK(plain.tensorMaps[0].l2Promotion == L2Promotion::B128);
  problem = parse("gemm m=256 n=256 k=8192 dtype=bf16 layout=NT");
  plan = sm90Plan(problem, config(kSplit, ".tf1"));
  CHECK(plan.kernels[0].source() ==
        sm90Plan(problem, kSplit).kernels[0].source());
  CHECK(BoundLaunch(plan, problem).params().tilesFirst == 1);
}
