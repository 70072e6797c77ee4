// The explanations of single configs; the conformance suite checks that every
// derivation leads to its estimate.
#include "Families/FamilyTesting.h"
#include "Kernel/Space.h"

#include <doctest/doctest.h>

#include <llvm/ADT/STLExtras.h>

#include <cmath>

using namespace kiln;
using namespace kiln::testing;

namespace {

struct NamedProblem {
  const KernelFamily *family = nullptr;
  Problem problem;
};

NamedProblem parseProblem(llvm::StringRef text) {
  const KernelFamily *family = registry().find(text.split(' ').first);
  REQUIRE(family);
  return {family, parse(*family, text)};
}

/// The derivation of \p config, or of the first choice.
Derivation explain(llvm::StringRef problem, llvm::StringRef deviceName,
                   llvm::StringRef config = "") {
  NamedProblem named = parseProblem(problem);
  DeviceModel model = device(deviceName);
  Candidate candidate;
  if (config.empty()) {
    candidate =
        llvm::cantFail(exploreSpace(*named.family, named.problem, model))
            .ranked.front();
  } else {
    auto typed = llvm::cantFail(named.family->parseConfig(config));
    candidate.tmpl = typed.tmpl;
    candidate.config = typed.config;
  }
  return candidate.tmpl->explain(named.problem, candidate.config, model);
}

/// The step with title \p title; an empty one if it does not exist.
const DerivationStep &find(const Derivation &derivation,
                           llvm::StringRef title) {
  static const DerivationStep nothing;
  for (const DerivationStep &step : derivation)
    if (step.title == title)
      return step;
  FAIL_CHECK("no step ", title.str());
  return nothing;
}

/// A number among its values; NaN, which equals no number, if it is missing.
double valueOf(const DerivationStep &step, llvm::StringRef key) {
  return step.values.getNumber(key).value_or(std::nan(""));
}

bool contains(llvm::StringRef text, llvm::StringRef part) {
  return text.contains(part);
}

std::string reasonOf(llvm::StringRef problem, llvm::StringRef config,
                     const DeviceModel &model) {
  return reason(*registry().find(problem.split(' ').first), problem, config,
                model);
}

constexpr llvm::StringLiteral kSquare =
    "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NT";
constexpr llvm::StringLiteral kWideTile =
    "sm90.bm128.bn256.bk64.st4.wg2.cm1.cn1";

} // namespace

TEST_CASE("E1: the tile's intensity is judged by the rates of the estimate") {
  for (llvm::StringRef name : {"h200-sxm", "h100-sxm"}) {
    CAPTURE(name.str());
    Derivation steps = explain(kSquare, name, kWideTile);
    const DerivationStep &tile = find(steps, "intensity of the tile");
    // 4096 flop a clock at the clock that launches hold, less wgmma's losses,
    //      over the port.
    CHECK(valueOf(tile, "flops_per_byte") == doctest::Approx(256.0 / 3));
    CHECK(valueOf(tile, "ridge") == doctest::Approx(48.7).epsilon(0.01));
    CHECK(tile.clears == "l2");
    CHECK(contains(tile.verdict, "the arithmetic takes longer than L2"));
    // DRAM's time against the clock that the board's power allows.
    const DerivationStep &problem = find(steps, "intensity of the problem");
    DeviceModel model = device(name);
    CHECK(valueOf(problem, "ridge") ==
          doctest::Approx(4096 * double(model.smCount) * 1e-3 * 1.08 *
                          model.sustainedTensorClockMHz /
                          model.dramBytesPerNs()));
  }
  // A thin tile loads more from L2 than it computes, and the text says so.
  Derivation thin =
      explain(kSquare, "h200-sxm", "sm90.bm64.bn32.bk64.st8.wg1.cm1.cn1");
  CHECK(find(thin, "intensity of the tile").clears == "tensor");
}

TEST_CASE("E2: S_min, verdict and estimate have one latency and one barrier") {
  NamedProblem named = parseProblem(kSquare);
  DeviceModel a100 = device("a100-sxm4-40gb");
  llvm::StringRef config = "mma.bm128.bn256.bk64.st3.wm2.wn4.mb1.rg16";
  Derivation steps = explain(kSquare, "a100-sxm4-40gb", config);
  const DerivationStep &wall = find(steps, "latency wall");
  REQUIRE(valueOf(wall, "stages_needed") <= 3);
  CHECK(wall.result == 0);
  CHECK(wall.verdict == "3 stages: latency is hidden");
  CHECK(wall.clears == "latency");
  // The barrier is shown where it is charged: beside the latency.
  const DerivationStep &step = find(steps, "step of k");
  REQUIRE(step.terms.size() == 3);
  CHECK(step.terms[1].value == 0);
  CHECK(step.terms[2].name == "barrier");
  // Two stages where three are needed.
  llvm::StringRef fewStages = "mma.bm128.bn128.bk64.st2.wm2.wn2.mb1.rg16";
  Derivation few = explain(kSquare, "a100-sxm4-40gb", fewStages);
  CHECK(find(few, "latency wall").result > 0);
  CHECK(contains(find(few, "latency wall").verdict, "stay exposed"));
  for (llvm::StringRef text : {config, fewStages}) {
    CAPTURE(text.str());
    auto typed = llvm::cantFail(named.family->parseConfig(text));
    Estimate estimate = typed.tmpl->estimate(named.problem, typed.config, a100);
    Derivation told = explain(kSquare, "a100-sxm4-40gb", text);
    const DerivationStep &charged = find(told, "step of k");
    REQUIRE(charged.terms.size() == 3);
    CHECK(charged.terms[1].value + charged.terms[2].value ==
          doctest::Approx(estimate.term("step exposed")));
  }
  Derivation simt =
      explain("gemm m=4096 n=4096 k=4096 dtype=fp32", "a100-sxm4-40gb");
  CHECK(contains(find(simt, "latency wall").verdict, "latency is hidden"));
}

TEST_CASE("E5: reload keeps to the registers that launch bounds leave") {
  NamedProblem named =
      parseProblem("layernorm rows=64 cols=262144 dtype=bf16 weight=1");
  DeviceModel h200 = device("h200-sxm");
  auto typed = llvm::cantFail(
      named.family->parseConfig("reload.t1024.rt1024.v8.i4.c1.h0"));
  REQUIRE(!typed.tmpl->prune(named.problem, typed.config, h200));
  Estimate estimate = typed.tmpl->estimate(named.problem, typed.config, h200);
  // One block an SM: all 64 rows are resident at once.
  CHECK(estimate.term("resident tasks") == double(h200.smCount));
  CHECK(estimate.totalNs < 60e3);
  // Neighbours in the space are neighbours in time.
  Space space =
      llvm::cantFail(exploreSpace(*named.family, named.problem, h200));
  for (const Candidate &candidate : space.ranked) {
    CAPTURE(candidate.config.text());
    CHECK(candidate.estimate.totalNs <
          15 * space.ranked.front().estimate.totalNs);
  }
}

TEST_CASE("E5: a kernel that fits no SM is pruned with figures") {
  llvm::StringRef rows = "rmsnorm rows=64 cols=262144 dtype=bf16";
  DeviceModel slice = device("h200-sxm");
  slice.smCount = 4;
  slice.maxClusters8 = 0;
  CHECK(reasonOf(rows, "reload.t1024.rt1024.v8.i4.c8.h0", slice) ==
        "cluster: 8 blocks, limit 4 blocks");
  DeviceModel narrow = device("h200-sxm");
  narrow.maxWarpsPerSm = 16;
  CHECK(reasonOf(rows, "reload.t1024.rt1024.v8.i4.c1.h0", narrow) ==
        "threads: 1024, limit 512");
}

TEST_CASE("E6: a tile that hits a wall is refused with both numbers") {
  DeviceModel h200 = device("h200-sxm");
  CHECK(reasonOf(kSquare, "sm90.bm256.bn256.bk64.st2.wg2.cm1.cn1", h200) ==
        "register wall: 256 accumulators a thread, 192 allowed");
  CHECK(reasonOf(kSquare, "sm90.bm128.bn256.bk32.st4.wg2.cm1.cn1", h200) ==
        "instruction-shape: 32 elements of k a stage, 64 or 128 allowed");
  CHECK(reasonOf(kSquare, "sm90.bm128.bn256.bk64.st20.wg2.cm1.cn1", h200) ==
        "instruction-shape: 20 stages, 2 to 16 allowed");
  CHECK(reasonOf(kSquare, "mma.bm256.bn256.bk32.st3.wm2.wn4.mb1", h200) ==
        "register wall: 256 accumulators a thread, 128 allowed");
  CHECK(reasonOf("gemm m=64 n=64 k=64 dtype=fp32",
                 "simt.bm128.bn128.bk8.tm16.tn16.mb1", h200) ==
        "register wall: 256 accumulators a thread, 128 allowed");
  // 8 vectors of 4 words and the registers to process them; 1024 threads leave
  //   64.
  std::string resident =
      reasonOf("rmsnorm rows=64 cols=131072 dtype=bf16",
               "resident.t1024.rt1024.v8.n16.s0.r1.c1.mb1.h0.e1", h200);
  CHECK(contains(resident, "register wall: "));
  CHECK(contains(resident, "registers a thread, 64 allowed"));
  CHECK(reasonOf("elementwise op=add rows=8192 cols=8192 dtype=bf16",
                 "flat.t256.v8.i16.h0", h200)
            .find("register wall: ") == 0);
  CHECK(reasonOf("elementwise rows=8192 cols=8192 dtype=bf16",
                 "flat.t256.v1.i16.h0", h200) ==
        "instruction-shape: 16 items a thread, limit 8 items a thread");
}

TEST_CASE("E7: power is a wall, and what it adds is derived") {
  Derivation steps = explain(kSquare, "h200-sxm", kWideTile);
  const DerivationStep &power = find(steps, "power wall");
  CHECK(power.rule == StepRule::Quotient);
  REQUIRE(power.terms.size() == 2);
  CHECK(power.terms[1].value == doctest::Approx(1.62)); // GHz, held
  CHECK(contains(power.formula, "1620 of 1980 MHz"));
  CHECK(contains(power.formula, "1500 for long"));
  CHECK(power.result == doctest::Approx(159.1e3).epsilon(1e-3));
  CHECK(find(steps, "bytes wall").result < power.result);
  // It is blamed only if it is above the path, but shown in any case.
  const DerivationStep &path = find(steps, "path of a block");
  CHECK(power.result < path.result);
  CHECK(power.blames == "");
  CHECK(find(steps, "total").blames == "tensor");
  const DerivationStep &beyond = find(steps, "beyond path");
  CHECK(beyond.result ==
        doctest::Approx(find(steps, "path and floors").result - path.result));
  CHECK(beyond.result > 5e3);
  CHECK(find(steps, "total").terms.back().name == "beyond path");
  // Floors are no addends.
  NamedProblem named = parseProblem(kSquare);
  Space space = llvm::cantFail(
      exploreSpace(*named.family, named.problem, device("h200-sxm")));
  space.ranked.front().fillTerms(named.problem, device("h200-sxm"));
  for (const EstimateTerm &term : space.ranked.front().estimate.terms)
    if (llvm::StringRef(term.name).starts_with("floor"))
      CHECK_FALSE(term.isAddend);
}

TEST_CASE("E8: the latency of a busy DRAM is named with what it comes from") {
  for (llvm::StringRef text : {"elementwise rows=4096 cols=4096 dtype=bf16",
                               "gemm m=1 n=4096 k=4096 dtype=bf16 layout=NT"}) {
    Derivation steps = explain(text, "h200-sxm");
    const DerivationStep &law = find(steps, "Little's law");
    for (llvm::StringRef part :
         {"288 ns on an idle DRAM", "2.5 times", "720 ns * 4290 GB/s"}) {
      CAPTURE(part.str());
      CHECK(contains(law.formula, part));
    }
  }
}

TEST_CASE("a further wave costs as much as the estimate adds for one") {
  Derivation square = explain(kSquare, "h200-sxm", kWideTile);
  const DerivationStep &step = find(square, "tiles for each block");
  CHECK(contains(step.formula, "512 tiles on 132 blocks: 3.9 for each; 16 more "
                               "would fit the last wave"));
  CHECK(step.verdict == "below 4: a further wave would cost 25 %");
  CHECK(valueOf(step, "further_share") == doctest::Approx(step.result));
  CHECK(find(square, "total").result == square[int(square.size())].result);
  // A problem with one tile more for each block.
  Derivation taller = explain("gemm m=5120 n=4096 k=4096 dtype=bf16 layout=NT",
                              "h200-sxm", kWideTile);
  CHECK(find(taller, "path of a block").result ==
        doctest::Approx(find(square, "path of a block").result +
                        step.terms[0].value)
            .epsilon(1e-3));
  CHECK(find(taller, "tiles for each block").verdict ==
        "at least 4: a further wave would cost 20 %");
}

TEST_CASE("a further wave of blocks is the last wave of a larger problem") {
  struct Case {
    const char *start, *before, *after, *end, *config, *device;
  };
  // Full waves, and one block more for each SM.
  for (const Case &one :
       {Case{"gemm m=", "22720", "24992", " n=128 k=4096 dtype=fp16 layout=NT",
             "mma.bm32.bn64.bk32.st3.wm2.wn2.mb2", "l40s"},
        Case{"gemm m=1 n=", "4224", "5280", " k=4096 dtype=bf16 layout=NT",
             "gemv.r8.u2.w4.wk4.v1.mb4.ef1", "h200-sxm"},
        Case{"rmsnorm rows=", "8448", "8580", " cols=8192 dtype=bf16",
             "resident.t128.rt128.v8.n8.r1.c1.mb8.e1", "h200-sxm"},
        Case{"attention batch=", "66", "99",
             " sq=1 sk=8192 heads=16 kvheads=4 d=128 dtype=bf16",
             "decode.r8.t16.st3.w4", "h200-sxm"}}) {
    CAPTURE(one.config);
    Derivation before =
        explain((llvm::Twine(one.start) + one.before + one.end).str(),
                one.device, one.config);
    const DerivationStep &step = find(before, "blocks for each SM");
    CHECK(contains(step.formula, "the last wave is full"));
    Derivation after =
        explain((llvm::Twine(one.start) + one.after + one.end).str(),
                one.device, one.config);
    const DerivationStep &more = find(after, "blocks for each SM");
    CHECK(valueOf(more, "for_each") == valueOf(step, "for_each") + 1);
    CHECK(more.terms[1].value - step.terms[1].value ==
          doctest::Approx(step.terms[0].value).epsilon(0.03));
    CHECK(step.result ==
          doctest::Approx(step.terms[0].value / step.terms[1].value));
  }
}

TEST_CASE("E9: splits are told as splits") {
  Derivation steps =
      explain("gemm m=256 n=256 k=16384 dtype=bf16 layout=NT", "h200-sxm",
              "sm90.bm64.bn64.bk64.st8.wg1.cm1.cn1.sk8");
  const DerivationStep &waves = find(steps, "waves");
  CHECK(contains(waves.formula, "16 tiles of 8 splits each"));
  CHECK_FALSE(contains(waves.formula, "cluster"));
  Derivation pairs =
      explain(kSquare, "h200-sxm", "sm90.bm128.bn256.bk64.st4.wg2.cm2.cn1");
  CHECK(contains(find(pairs, "waves").formula, "256 clusters of 2 tiles"));
}

TEST_CASE("E11: S_min says when it is fed a pace that is not T_math") {
  Derivation steps = explain("gemm m=128 n=4096 k=4096 dtype=bf16 layout=NT",
                             "h200-sxm", "sm90.bm64.bn64.bk64.st8.wg1.cm1.cn1");
  const DerivationStep &wall = find(steps, "latency wall");
  CHECK(contains(wall.formula, "at the pace that DRAM sets, not at T_math"));
  CHECK(contains(wall.formula, "with T_math it would be"));
  CHECK(contains(find(explain(kSquare, "h200-sxm"), "latency wall").formula,
                 "S_min = ceil(("));
}
