// The estimates of attention against measured times of one H200, and against
// each other. Times of other libraries' kernels: FlashAttention 3 and 2, with
// the tiles that they have for each head dim, 16384 tokens, 2048 / head dim
// heads.
#include "Families/Attention/AttentionModel.h"
#include "Families/Conformance/DerivationCheck.h"
#include "Families/FamilyTesting.h"
#include "Kernel/Space.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

using namespace kiln;
using namespace kiln::testing;

namespace {

AttentionProblem squareProblem(int64_t headDim, int64_t length, bool isCausal) {
  AttentionProblem problem;
  problem.headDim = problem.valueDim = headDim;
  problem.heads = problem.kvHeads = 2048 / headDim;
  problem.batch = 16384 / length;
  problem.queries = problem.keys = problem.typicalKeys = length;
  problem.mask = isCausal ? AttentionMask::Causal : AttentionMask::None;
  return problem;
}

AttentionProblem decodeProblem(int64_t batch, int64_t heads, int64_t kvHeads,
                               int64_t keys) {
  AttentionProblem problem;
  problem.batch = batch;
  problem.heads = heads;
  problem.kvHeads = kvHeads;
  problem.queries = 1;
  problem.keys = problem.typicalKeys = keys;
  return problem;
}

/// A head dim with its tile, and TFLOP/s at 512, 1024, ... 16384 tokens.
struct MeasuredTiles {
  int64_t headDim;
  bool isCausal;
  int64_t rows, keys, warps;
  double tflops[6];
};

constexpr MeasuredTiles kWgmmaTiles[] = {
    {64, false, 192, 192, 0, {331, 389, 505, 531, 585, 590}},
    {64, true, 192, 128, 0, {231, 308, 433, 492, 550, 569}},
    {128, false, 128, 176, 0, {537, 639, 694, 722, 743, 744}},
    {128, true, 128, 128, 0, {339, 499, 612, 685, 726, 750}},
    {256, false, 128, 80, 0, {555, 689, 759, 785, 807, 816}},
    {256, true, 128, 80, 0, {356, 506, 632, 720, 775, 807}},
};
constexpr MeasuredTiles kMmaTiles[] = {
    {64, false, 128, 128, 4, {269, 290, 300, 304, 308, 308}},
    {64, true, 128, 128, 4, {156, 219, 264, 284, 294, 300}},
    {128, false, 128, 64, 4, {311, 338, 350, 357, 357, 360}},
    {128, true, 128, 64, 4, {188, 250, 287, 308, 320, 324}},
    {256, false, 64, 64, 4, {291, 312, 320, 325, 327, 329}},
    {256, true, 64, 64, 4, {215, 252, 273, 282, 291, 291}},
};

/// Predicted over measured rate for every length.
std::vector<double> ratiosOf(const MeasuredTiles &measured) {
  std::vector<double> ratios;
  int64_t length = 512;
  for (double tflops : measured.tflops) {
    AttentionProblem problem =
        squareProblem(measured.headDim, length, measured.isCausal);
    AttentionTileKernel kernel;
    kernel.rows = measured.rows;
    kernel.keys = measured.keys;
    if (measured.warps > 0) {
      kernel.instruction = AttentionTileKernel::Instruction::MmaSync;
      kernel.warps = measured.warps;
      kernel.order = TileOrder::Dynamic;
      kernel.residentQueries = measured.headDim == 64;
    }
    double ns = estimateAttentionTiles(problem, kernel, h200()).totalNs;
    double products = 4.0 * double(problem.batch * problem.heads) *
                      double(length * length * measured.headDim);
    double predicted = products / (measured.isCausal ? 2 : 1) / ns / 1e3;
    ratios.push_back(predicted / tflops);
    length *= 2;
  }
  return ratios;
}

/// Times of `mma` at head dim 128 and 4096 queries and keys, in us.
struct MeasuredMma {
  int64_t rows, keys, warps, blocksPerSm;
  bool swizzled, residentQueries, foldedScale;
  double us;
};

constexpr MeasuredMma kMmas[] = {
    {128, 64, 4, 2, true, false, true, 1501},
    {128, 64, 4, 2, true, false, false, 1550},
    {128, 32, 4, 2, true, false, true, 1670},
    {128, 32, 4, 2, true, false, false, 1760},
    {64, 64, 4, 2, true, true, true, 1817},
    {64, 64, 4, 2, true, true, false, 1890},
    {64, 64, 4, 2, true, false, true, 1914},
    {64, 32, 4, 3, true, false, true, 2050},
    {128, 128, 8, 1, true, false, true, 1947},
    {128, 64, 8, 1, true, false, true, 2055},
    {128, 64, 4, 2, false, true, false, 5439},
    {64, 64, 4, 2, false, true, false, 9743},
};

/// Times of `decode`, in us.
struct MeasuredDecode {
  int64_t batch, heads, kvHeads, keys, splits;
  SplitMerge merge;
  int64_t warps, stages, blocksPerSm;
  double us;
};

constexpr SplitMerge kNone = SplitMerge::None, kCluster = SplitMerge::Cluster,
                     kDependent = SplitMerge::DependentLaunch;
constexpr MeasuredDecode kDecodes[] = {
    {1, 32, 8, 1024, 8, kCluster, 4, 3, 2, 6.4},
    {1, 32, 8, 1024, 8, kDependent, 4, 6, 1, 8.1},
    {1, 32, 8, 4096, 8, kCluster, 8, 3, 1, 8.8},
    {1, 32, 8, 4096, 8, kCluster, 4, 6, 1, 11},
    {1, 32, 8, 4096, 16, kDependent, 8, 3, 1, 10.4},
    {1, 32, 8, 16384, 16, kDependent, 4, 6, 1, 23.3},
    {1, 32, 8, 16384, 32, kDependent, 4, 3, 2, 24},
    {1, 32, 8, 131072, 16, kDependent, 8, 3, 1, 127.6},
    {1, 32, 8, 131072, 32, kDependent, 4, 3, 2, 128.4},
    {1, 8, 1, 4096, 32, kDependent, 4, 6, 1, 7.7},
    {1, 8, 1, 4096, 64, kDependent, 4, 6, 1, 8},
    {1, 8, 1, 4096, 8, kCluster, 4, 6, 1, 10.1},
    {4, 32, 8, 2048, 4, kCluster, 4, 3, 2, 15.4},
    {4, 32, 8, 2048, 8, kCluster, 4, 3, 2, 19.2},
    {4, 32, 8, 2048, 4, kCluster, 4, 6, 1, 20.6},
    {4, 32, 8, 2048, 8, kDependent, 4, 3, 2, 16},
    {8, 32, 8, 4096, 2, kCluster, 4, 3, 2, 36.2},
    {8, 32, 8, 4096, 4, kCluster, 4, 3, 2, 44.9},
    {8, 32, 8, 4096, 2, kDependent, 4, 3, 2, 39.2},
    {64, 8, 1, 4096, 2, kCluster, 4, 3, 2, 37.3},
    {64, 8, 1, 4096, 4, kCluster, 4, 3, 2, 45.1},
    {64, 8, 1, 4096, 4, kDependent, 4, 3, 2, 40.2},
    {16, 64, 8, 8192, 1, kNone, 4, 3, 2, 127.3},
    {32, 32, 8, 4096, 1, kNone, 4, 3, 2, 121.8},
    {128, 32, 8, 1024, 1, kNone, 4, 3, 2, 124.4},
    {16, 32, 32, 2048, 1, kNone, 4, 3, 2, 124.2},
    {64, 32, 8, 8192, 1, kNone, 4, 3, 2, 472.5},
};

AttentionDecodeKernel kernelOf(const MeasuredDecode &measured) {
  AttentionDecodeKernel kernel;
  kernel.rows = 8;
  kernel.splits = measured.splits;
  kernel.merge = measured.merge;
  kernel.warps = measured.warps;
  kernel.stages = measured.stages;
  kernel.blocksPerSm = measured.blocksPerSm;
  return kernel;
}

/// The steps that \p explain adds, with their total.
template <class Explain> Derivation closed(const Explain &explain) {
  Derivation steps;
  const Prediction<Figure> end = explain(steps);
  steps.setTotal(named(end.totalNs, "total", "ns"), end.bound);
  return steps;
}

} // namespace

TEST_CASE("blocks of keys are counted as a loop over tiles counts them") {
  std::mt19937 random(7);
  auto upTo = [&](int64_t bound) { return int64_t(random() % bound); };
  for (int round = 0; round < 3000; ++round) {
    AttentionProblem problem;
    problem.queries = 1 + upTo(700);
    problem.keys = problem.typicalKeys = 1 + upTo(900);
    problem.mask = AttentionMask(upTo(3));
    problem.left = upTo(300);
    problem.right = upTo(50);
    int64_t rows = 1 + upTo(200), packed = 1 + upTo(9), keys = 1 + upTo(150);
    bool isCausal = problem.mask == AttentionMask::Causal;
    bool isMasked = problem.mask != AttentionMask::None;
    int64_t masked = 0, tiles = 0, blocks = 0, longest = 0, empty = 0;
    for (int64_t row = 0; row < problem.queries * packed; row += rows) {
      int64_t seen = 0, query = row / packed;
      int64_t end = std::min(problem.queries - 1, (row + rows - 1) / packed);
      int64_t shift = problem.keys - problem.queries;
      int64_t first = isCausal ? 0 : query + shift - problem.left;
      int64_t last = end + shift + (isCausal ? 0 : problem.right);
      // Keys that the first row sees ahead, and the last one behind.
      int64_t limit = query + shift + (isCausal ? 0 : problem.right) + 1;
      int64_t least = isCausal ? 0 : end + shift - problem.left;
      for (int64_t begin = 0; begin < problem.keys; begin += keys) {
        if (isMasked && (begin > last || begin + keys <= first))
          continue;
        ++seen;
        bool isWhole = begin + keys <= problem.keys &&
                       (!isMasked || (begin >= least && begin + keys <= limit));
        masked += isWhole ? 0 : 1;
      }
      ++tiles;
      blocks += seen;
      empty += seen == 0 ? 1 : 0;
      longest = std::max(longest, seen);
    }
    VisibleBlocks visible = visibleBlocks(problem, rows, packed, keys);
    REQUIRE(visible.tiles == tiles);
    REQUIRE(visible.blocks == blocks);
    REQUIRE(visible.empty == empty);
    REQUIRE(visible.masked >= masked);
    if (problem.mask == AttentionMask::Window)
      continue;
    REQUIRE(visible.longest == longest);
    REQUIRE(visible.masked == masked);
  }
}

TEST_CASE("tiles with wgmma take what FlashAttention 3 takes") {
  double sum = 0, worst = 0;
  for (const MeasuredTiles &measured : kWgmmaTiles)
    for (double ratio : ratiosOf(measured)) {
      sum += std::abs(ratio - 1);
      worst = std::max(worst, std::abs(ratio - 1));
    }
  CHECK(sum / 36 < 0.045);
  CHECK(worst < 0.1);
}

TEST_CASE("the longer of products and softmax bounds a tile") {
  const auto boundOf = [](int64_t headDim) {
    return estimateAttentionTiles(squareProblem(headDim, 4096, false), {},
                                  h200())
        .bound;
  };
  CHECK(boundOf(64) == "simd");
  CHECK(boundOf(256) == "tensor");
}

// 25 sequences of 216, 16 heads: 37.5 us with blocks of 128 keys, 45.1 us with
//    blocks of 64.
TEST_CASE("short steps wait for what the next tile loads") {
  AttentionProblem problem = squareProblem(128, 216, true);
  problem.batch = 25;
  auto timeOf = [&](int64_t keys, int64_t stages) {
    AttentionTileKernel kernel;
    kernel.keys = keys;
    kernel.stages = stages;
    return estimateAttentionTiles(problem, kernel, h200()).totalNs;
  };
  CHECK(timeOf(128, 2) == doctest::Approx(37.5e3).epsilon(0.1));
  CHECK(timeOf(64, 2) > 1.05 * timeOf(128, 2));
  CHECK(timeOf(64, 3) < timeOf(64, 2));
}

// One head of 3955: 36.1 us with tiles assigned ahead, 23.8 us drawn.
TEST_CASE("tiles that are dealt out take turns, also those without keys") {
  AttentionProblem problem = squareProblem(128, 3955, true);
  problem.batch = problem.heads = problem.kvHeads = 1;
  AttentionTileKernel kernel;
  kernel.rows = 64;
  kernel.keys = 96;
  kernel.splits = 3;
  kernel.merge = SplitMerge::DependentLaunch;
  kernel.order = TileOrder::Static;
  CHECK(estimateAttentionTiles(problem, kernel, h200()).totalNs ==
        doctest::Approx(36.1e3).epsilon(0.1));
  kernel.order = TileOrder::LongestFirst;
  CHECK(estimateAttentionTiles(problem, kernel, h200()).totalNs ==
        doctest::Approx(23.8e3).epsilon(0.1));
}

TEST_CASE("tiles with mma.sync take what FlashAttention 2 takes") {
  double sum = 0;
  for (const MeasuredTiles &measured : kMmaTiles)
    for (double ratio : ratiosOf(measured))
      sum += std::abs(ratio - 1);
  CHECK(sum / 36 < 0.09);
}

TEST_CASE("tiles with mma.sync take what the knobs of the kernel take") {
  for (const MeasuredMma &measured : kMmas) {
    AttentionTileKernel kernel;
    kernel.instruction = AttentionTileKernel::Instruction::MmaSync;
    kernel.order = TileOrder::Dynamic;
    kernel.rows = measured.rows;
    kernel.keys = measured.keys;
    kernel.warps = measured.warps;
    kernel.blocksPerSm = measured.blocksPerSm;
    kernel.swizzled = measured.swizzled;
    kernel.residentQueries = measured.residentQueries;
    kernel.foldedScale = measured.foldedScale;
    double ns =
        estimateAttentionTiles(squareProblem(128, 4096, false), kernel, h200())
            .totalNs;
    CAPTURE(measured.rows);
    CAPTURE(measured.keys);
    CHECK(std::abs(ns / 1e3 / measured.us - 1) < 0.16);
  }
}

TEST_CASE("decode kernels take what was measured of them") {
  double sum = 0;
  for (const MeasuredDecode &measured : kDecodes) {
    AttentionProblem problem = decodeProblem(measured.batch, measured.heads,
                                             measured.kvHeads, measured.keys);
    double ns =
        estimateAttentionDecode(problem, kernelOf(measured), h200()).totalNs;
    CAPTURE(measured.keys);
    CAPTURE(measured.splits);
    CHECK(std::abs(ns / 1e3 / measured.us - 1) < 0.19);
    sum += std::abs(ns / 1e3 / measured.us - 1);
  }
  CHECK(sum / double(std::size(kDecodes)) < 0.045);
}

TEST_CASE("of lengths in device memory, those to expect make the time") {
  AttentionProblem problem = decodeProblem(64, 32, 8, 32768);
  problem.pages = AttentionPages::Table;
  problem.pageSize = 16;
  problem.typicalKeys = 5746;
  AttentionDecodeKernel kernel;
  kernel.rows = 8;
  kernel.splits = 16;
  kernel.splitKeys = 2048;
  kernel.merge = SplitMerge::DependentLaunch;
  const Derivation steps = closed([&](Derivation &steps) {
    return explainAttentionDecode(problem, kernel, h200(), steps);
  });
  CHECK(steps.total().value() == doctest::Approx(341.8e3).epsilon(0.05));
  // Blocks behind the end of a sequence leave at once.
  const DerivationStep *empty = steps.find("empty blocks");
  REQUIRE(empty);
  CHECK(empty->value() > 0);
  CHECK(empty->value() < 1000);
}

TEST_CASE("no estimate divides by a rate that the device has not") {
  for (llvm::StringRef name : catalogNames())
    for (const char *type : {"bf16", "fp16", "e4m3", "bf16 kv=e4m3"})
      for (const char *sizes :
           {"batch=8 sq=1 sk=8192", "batch=2 sq=1024 sk=1024"}) {
        const std::string text =
            std::string("attention heads=32 kvheads=8 d=128 dtype=") + type +
            " " + sizes;
        CAPTURE(name.str());
        CAPTURE(text);
        const Problem problem = parse(attention(), text);
        for (const Candidate &candidate :
             llvm::cantFail(exploreSpace(attention(), problem, device(name)))
                 .ranked) {
          CAPTURE(candidate.config.text());
          // Above a minute some rate is close to 0.
          REQUIRE(candidate.estimate.totalNs > 0);
          REQUIRE(candidate.estimate.totalNs < 60e9);
        }
      }
}

TEST_CASE("the register wall of a derivation is the rule that prunes") {
  int checked = 0;
  for (const char *text :
       {"attention batch=4 sq=2048 sk=2048 heads=16 d=128 dtype=bf16",
        "attention batch=4 sq=2048 sk=2048 heads=16 d=256 dtype=fp16 alibi=1",
        "attention batch=4 sq=1 sk=8192 heads=16 kvheads=1 d=128 dtype=bf16"})
    for (llvm::StringRef name : {"h200-sxm", "a100-sxm4-40gb"}) {
      const Problem problem = parse(attention(), text);
      const Space space = llvm::cantFail(exploreSpace(
          attention(), problem, device(name), {.keepRejected = true}));
      for (const Rejected &rejected : space.rejected) {
        const Rejection &reason = rejected.rejection;
        if (reason.reason != PruneReason::Registers || !reason.allowed.empty())
          continue;
        CAPTURE(rejected.config.text());
        const Derivation steps =
            rejected.tmpl->explain(problem, rejected.config, device(name));
        const DerivationStep *wall = steps.find("registers");
        REQUIRE(wall);
        CHECK(wall->value() == reason.value);
        CHECK(llvm::StringRef(wall->words.verdict).ends_with("is pruned"));
        ++checked;
      }
      for (const Candidate &candidate : space.ranked) {
        const Derivation steps = candidate.derive(problem, device(name));
        if (const DerivationStep *wall = steps.find("registers"))
          CHECK(llvm::StringRef(wall->words.verdict).ends_with("fits"));
      }
    }
  CHECK(checked > 0);
}

TEST_CASE("derivations of attention make their estimates") {
  using conformance::faultOf;
  AttentionTileKernel tiles, serial, few, mma, plain;
  tiles.stages = 2;
  tiles.boxes = 24;
  tiles.boxClocks = 50;
  AttentionTileKernel kept = tiles;
  kept.keepsOrigins = kept.raisesLast = true;
  serial.overlaps = false;
  few.rows = 64;
  few.splits = 4;
  few.merge = SplitMerge::DependentLaunch;
  mma.instruction = AttentionTileKernel::Instruction::MmaSync;
  mma.rows = mma.keys = 64;
  plain = mma;
  plain.eagerLoads = plain.asyncCopy = plain.swizzled = false;
  plain.residentQueries = plain.foldedScale = false;
  plain.blocksPerSm = 1;
  plain.order = TileOrder::Static;
  std::vector<AttentionProblem> problems{
      squareProblem(128, 4096, true), squareProblem(64, 512, false),
      squareProblem(256, 1024, true), decodeProblem(1, 32, 8, 4096),
      decodeProblem(37, 28, 4, 33000)};
  problems.push_back(problems.front());
  problems.back().mask = AttentionMask::Window;
  problems.back().left = 127;
  problems.back().softcap = 20;
  problems.push_back(decodeProblem(0, 32, 8, 0));
  for (llvm::StringRef name : {"h200-sxm", "a100-sxm4-80gb", "rtx-4090"})
    for (const AttentionProblem &problem : problems) {
      DeviceModel model = device(name);
      for (const AttentionTileKernel &kernel :
           {tiles, serial, few, mma, plain, kept})
        CHECK(faultOf(closed([&](Derivation &steps) {
                        return explainAttentionTiles(problem, kernel, model,
                                                     steps);
                      }),
                      estimateAttentionTiles(problem, kernel, model)) == "");
      for (const MeasuredDecode &measured : kDecodes)
        CHECK(faultOf(closed([&](Derivation &steps) {
                        return explainAttentionDecode(
                            problem, kernelOf(measured), model, steps);
                      }),
                      estimateAttentionDecode(problem, kernelOf(measured),
                                              model)) == "");
      CHECK(faultOf(closed([&](Derivation &steps) {
                      return explainNaiveAttention(problem, model, steps);
                    }),
                    estimateNaiveAttention(problem, model)) == "");
    }
}
