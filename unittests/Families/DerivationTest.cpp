// The explanations of single configs; the conformance suite checks that every
// derivation leads to its estimate.
#include "Families/FamilyTesting.h"
#include "Kernel/Space.h"

#include <doctest/doctest.h>

#include <llvm/ADT/STLExtras.h>

#include <utility>

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

/// The first step called \p name.
const DerivationStep &find(const Derivation &derivation, llvm::StringRef name) {
  static const DerivationStep nothing;
  if (const DerivationStep *step = derivation.find(name))
    return *step;
  FAIL_CHECK("no step ", name.str());
  return nothing;
}

/// The printed formula of the first step called \p name.
std::string formula(const Derivation &derivation, llvm::StringRef name) {
  for (int number = 1; number <= static_cast<int>(derivation.size()); ++number)
    if (derivation[number].name() == name)
      return derivation.formulaText(number);
  FAIL_CHECK("no step ", name.str());
  return "";
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
    // 4096 flop a clock at the clock that launches hold, less wgmma's losses,
    // over the port.
    CHECK(find(steps, "intensity of the tile").value() ==
          doctest::Approx(256.0 / 3));
    const DerivationStep &ridge = find(steps, "ridge of the tile");
    CHECK(ridge.value() == doctest::Approx(48.7).epsilon(0.01));
    CHECK(ridge.words.clears == "l2");
    CHECK(contains(ridge.words.verdict, "the arithmetic takes longer"));
  }
  // A thin tile loads more than it computes, and the text says so.
  Derivation thin =
      explain(kSquare, "h200-sxm", "sm90.bm64.bn32.bk64.st8.wg1.cm1.cn1");
  CHECK(find(thin, "ridge of the tile").words.clears == "tensor");
}

TEST_CASE("E2: S_min, verdict and estimate have one latency and one barrier") {
  Derivation steps = explain(kSquare, "a100-sxm4-40gb",
                             "mma.bm128.bn256.bk64.st3.wm2.wn4.mb1.rg16");
  const DerivationStep &wall = find(steps, "S_min");
  REQUIRE(wall.value() <= 3);
  CHECK(wall.words.verdict == "3 stages: latency is hidden");
  CHECK(wall.words.clears == "latency");
  CHECK(find(steps, "exposed latency").value() == 0);
  // The barrier is charged beside the latency.
  CHECK(find(steps, "step of k").figure.formula().parts.size() == 3);
  CHECK(find(steps, "step of k").value() ==
        doctest::Approx(find(steps, "pace of a step").value() +
                        find(steps, "barrier").value()));
  // Two stages where three are needed.
  Derivation few = explain(kSquare, "a100-sxm4-40gb",
                           "mma.bm128.bn128.bk64.st2.wm2.wn2.mb1.rg16");
  CHECK(find(few, "exposed latency").value() > 0);
  CHECK(contains(find(few, "S_min").words.verdict, "stay exposed"));
  Derivation simt =
      explain("gemm m=4096 n=4096 k=4096 dtype=fp32", "a100-sxm4-40gb");
  CHECK(contains(find(simt, "S_min").words.verdict, "latency is hidden"));
}

TEST_CASE("C5: S_min says where its latency comes from, and compares stages") {
  Derivation steps = explain(kSquare, "h200-sxm", kWideTile);
  CHECK(formula(steps, "latency of a busy DRAM") ==
        "latency of a busy DRAM = busy over idle 2.5000 x dramLatencyNs 288 ns "
        "= 720 ns");
  for (llvm::StringRef part :
       {"latency of a busy DRAM 720 ns", "TMA 200 ns",
        "last byte of a stage 378 ns", "pace of a step 618.4"}) {
    CAPTURE(part.str());
    CHECK(contains(formula(steps, "S_min"), part));
  }
  const DerivationStep &wall = find(steps, "S_min");
  CHECK(wall.value() == 4);
  CHECK(contains(wall.words.note, "the pace is that of wgmma"));
  CHECK(contains(wall.words.note, "1: 1.2980 us, 2: 339.79"));
  CHECK(contains(wall.words.note, ", 4: 0 ns"));
  // The fill has a latency of its own, an idle DRAM's.
  CHECK(contains(formula(steps, "fill"), "dramLatencyNs 288 ns + TMA 200 ns"));
}

TEST_CASE("C6: every factor of a pace is on its line") {
  Derivation steps = explain(kSquare, "h200-sxm", kWideTile);
  CHECK(contains(formula(steps, "port of the SM"),
                 "beside the others 0.91000 x ( A 16384 B + B 32768 B ) / ( "
                 "port 64 B/clk x smClockMHz 1980 MHz / 1000 )"));
  CHECK(contains(formula(steps, "L2"),
                 "hits that are answered together 2.6000 x l2GBs 10000 GB/s"));
  // Few warps do not reach the units' rate.
  Derivation few = explain("gemm m=23 n=272 k=1944 dtype=fp16 layout=TN",
                           "h200-sxm", "mma.bm16.bn32.bk64.st4.wm1.wn2.mb2");
  CHECK(contains(formula(few, "arithmetic"),
                 "( warps 2 / warps for the full rate 8 )"));
}

TEST_CASE("C1, C3: shared memory is what the plan takes") {
  struct Case {
    const char *problem, *device;
  };
  for (const Case &one :
       {Case{"gemm m=2 n=7424 k=14464 dtype=fp16 layout=NT b=int4 "
             "order_b=k64r16 scale_b=1x128",
             "h200-sxm"},
        Case{"gemm m=512 n=7424 k=14464 dtype=fp16 layout=NT b=int4 "
             "order_b=k64r16 scale_b=1x128",
             "h100-sxm"},
        Case{"gemm m=64 n=8192 k=4096 dtype=fp16 layout=NN", "t4"},
        Case{"gemm m=16512 n=512 k=7424 batch=8 groups=ends dtype=bf16 "
             "layout=NT",
             "a100-sxm4-40gb"},
        Case{"gemm m=85 n=4096 k=4096 dtype=fp32 layout=NN", "h100-sxm"},
        Case{"gemm m=4224 n=1024 k=256 batch=8 groups=ends dtype=fp16 "
             "layout=NT",
             "t4"}}) {
    CAPTURE(one.problem);
    NamedProblem named = parseProblem(one.problem);
    const DeviceModel model = device(one.device);
    for (const Candidate &candidate :
         llvm::cantFail(exploreSpace(*named.family, named.problem, model))
             .ranked) {
      CAPTURE(candidate.config.text());
      const Plan plan =
          candidate.tmpl->plan(named.problem, candidate.config, model);
      const Derivation steps = candidate.derive(named.problem, model);
      const DerivationStep *shared = steps.find("shared memory");
      CHECK((shared ? shared->value() : 0) == plan.sharedBytes.front());
      // C3b: without a ring there are no stages to speak of.
      if (!shared)
        CHECK(!steps.find("S_min"));
    }
  }
}

TEST_CASE("C4: warps that share out k have all sums of the tile") {
  Derivation steps =
      explain("gemm m=85 n=4096 k=4096 dtype=fp32 layout=NN", "h100-sxm");
  const DerivationStep &sums = find(steps, "accumulators");
  const DerivationStep &registers = find(steps, "registers");
  CHECK(registers.value() > sums.value());
  NamedProblem named =
      parseProblem("gemm m=85 n=4096 k=4096 dtype=fp32 layout=NN");
  bool isShared = false;
  for (const Candidate &candidate :
       llvm::cantFail(
           exploreSpace(*named.family, named.problem, device("h100-sxm")))
           .ranked) {
    if (candidate.tmpl->name() != "ffma")
      continue;
    CAPTURE(candidate.config.text());
    const Derivation derived =
        candidate.derive(named.problem, device("h100-sxm"));
    CHECK(find(derived, "accumulators").value() ==
          double(candidate.config.get("tm") * candidate.config.get("tn")));
    isShared |= candidate.config.get("wk") > 1;
  }
  CHECK(isShared);
}

TEST_CASE("C9, C10: a floor is told once, and groups have the rows there are") {
  for (auto [text, name] :
       {std::pair{"gemm m=1024 n=1024 k=7168 batch=8 groups=ends dtype=fp16 "
                  "layout=NT",
                  "l40s"},
        std::pair{"gemm m=4224 n=1024 k=256 batch=8 groups=ends dtype=fp16 "
                  "layout=NT",
                  "t4"},
        std::pair{"gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NT",
                  "h200-sxm"}}) {
    CAPTURE(text);
    Derivation steps = explain(text, name);
    int bytes = 0, products = 0;
    for (const DerivationStep &step : steps) {
      bytes += step.name() == "floor of the bytes";
      products += step.name() == "floor of the products";
      if (step.name().starts_with("floor"))
        CHECK(step.value() <= steps.total().value());
    }
    CHECK(bytes == 1);
    CHECK(products <= 1);
  }
}

TEST_CASE("E5: reload keeps to the registers that launch bounds leave") {
  NamedProblem named =
      parseProblem("layernorm rows=64 cols=262144 dtype=bf16 weight=1");
  DeviceModel h200 = device("h200-sxm");
  auto typed = llvm::cantFail(
      named.family->parseConfig("reload.t1024.rt1024.v8.i4.c1.h0"));
  REQUIRE(!typed.tmpl->prune(named.problem, typed.config, h200));
  // One block an SM: all 64 rows are resident at once.
  CHECK(find(typed.tmpl->explain(named.problem, typed.config, h200),
             "blocks of an SM")
            .value() == 1);
  CHECK(typed.tmpl->estimate(named.problem, typed.config, h200).totalNs < 60e3);
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

TEST_CASE("E7: power is a floor, and what it adds is derived") {
  Derivation steps = explain(kSquare, "h200-sxm", kWideTile);
  CHECK(contains(formula(steps, "clock that power leaves"),
                 "short launches 1.0800 x sustainedTensorClockMHz 1500 MHz"));
  CHECK(find(steps, "clock that power leaves").value() ==
        doctest::Approx(1.62)); // GHz, held
  const DerivationStep &power = find(steps, "floor of the products");
  CHECK(power.value() == doctest::Approx(159.1e3).epsilon(1e-3));
  CHECK(find(steps, "floor of the bytes").value() < power.value());
  // It is blamed only if it is above the path, but shown in any case.
  const DerivationStep &path = find(steps, "path of a block");
  CHECK(power.value() < path.value());
  CHECK(power.words.blames == "");
  CHECK(steps.total().words.blames == "tensor");
  CHECK(find(steps, "beyond the path").value() ==
        doctest::Approx(
            find(steps, "path at the clock that power leaves").value() -
            path.value()));
  CHECK(steps.addends().back().name == "beyond the path");
  // Floors are no addends.
  for (const Addend &addend : steps.addends())
    CHECK_FALSE(addend.name.starts_with("floor"));
}

TEST_CASE("E8: the latency of a busy DRAM is named with what it comes from") {
  Derivation steps =
      explain("gemm m=1 n=4096 k=4096 dtype=bf16 layout=NT", "h200-sxm");
  CHECK(contains(formula(steps, "latency of a busy DRAM"),
                 "busy over idle 2.5000 x dramLatencyNs 288 ns"));
  CHECK(contains(formula(steps, "bytes to have in flight"),
                 "latency of a busy DRAM 720 ns"));
}

TEST_CASE("a further wave costs as much as the estimate adds for one") {
  Derivation square = explain(kSquare, "h200-sxm", kWideTile);
  const DerivationStep &step = find(square, "share of a further wave");
  CHECK(contains(step.words.note,
                 "512 tiles on 132 blocks are 3.9 for each block, and the last "
                 "wave has room for 16 more"));
  CHECK(step.words.verdict == "below 4: a further wave would cost 25 %");
  // A problem with one tile more for each block.
  Derivation taller = explain("gemm m=5120 n=4096 k=4096 dtype=bf16 layout=NT",
                              "h200-sxm", kWideTile);
  CHECK(find(taller, "path of a block").value() ==
        doctest::Approx(find(square, "path of a block").value() *
                        (1 + step.value()))
            .epsilon(1e-3));
  CHECK(find(taller, "share of a further wave").words.verdict ==
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
    auto derive = [&](const char *size) {
      return explain((llvm::Twine(one.start) + size + one.end).str(),
                     one.device, one.config);
    };
    Derivation before = derive(one.before), after = derive(one.after);
    const DerivationStep &step = find(before, "share of a further wave");
    CHECK(contains(step.words.note, "the last wave is full"));
    // A further wave over all waves.
    const auto parts = [](const DerivationStep &share) {
      return share.figure.formula().parts;
    };
    CHECK(parts(find(after, "share of a further wave"))[1].value() -
              parts(step)[1].value() ==
          doctest::Approx(parts(step)[0].value()).epsilon(0.03));
  }
}

TEST_CASE("E9: splits are told as splits") {
  Derivation steps =
      explain("gemm m=256 n=256 k=16384 dtype=bf16 layout=NT", "h200-sxm",
              "sm90.bm64.bn64.bk64.st8.wg1.cm1.cn1.sk8");
  const std::string &note = find(steps, "tiles of a block").words.note;
  CHECK(contains(note, "16 tiles of 8 splits each"));
  CHECK_FALSE(contains(note, "cluster"));
  Derivation pairs =
      explain(kSquare, "h200-sxm", "sm90.bm128.bn256.bk64.st4.wg2.cm2.cn1");
  CHECK(contains(find(pairs, "tiles of a block").words.note,
                 "256 clusters of 2 tiles"));
}

TEST_CASE("E11: S_min names the resource whose pace it is fed") {
  Derivation steps = explain("gemm m=128 n=4096 k=4096 dtype=bf16 layout=NT",
                             "h200-sxm", "sm90.bm64.bn64.bk64.st8.wg1.cm1.cn1");
  CHECK(contains(find(steps, "S_min").words.note, "the pace is that of DRAM"));
  CHECK(contains(find(explain(kSquare, "h200-sxm"), "S_min").words.note,
                 "the pace is that of wgmma"));
}
