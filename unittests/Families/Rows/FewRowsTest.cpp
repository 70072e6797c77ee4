// Few long rows, and small problems: the first choice, and that it compiles to
// a kernel that an engine accepts.
#include "Families/FamilyTesting.h"
#include "Kernel/Space.h"
#include "KernelSrc/RealCompiler.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace kiln;
using namespace kiln::testing;

namespace {

struct Choices {
  Problem problem;
  std::vector<Candidate> ranked;

  std::string config(size_t i) const { return ranked[i].config.text(); }
};

/// The configs of the space of \p text on an H100, best first.
Choices choicesOf(llvm::StringRef text) {
  static const DeviceModel h100 = device("h100-sxm");
  const KernelFamily &family = **registry().get(text.split(' ').first);
  Problem problem = parse(family, text);
  auto space = llvm::cantFail(exploreSpace(family, problem, h100));
  REQUIRE_FALSE(space.ranked.empty());
  return {std::move(problem), std::move(space.ranked)};
}

} // namespace

// If the first of a ranking spills, an engine compiles the next: here it fell
// back to kernels that take two and three times as long (H100).
TEST_CASE("the first choices of long rows do not spill") {
  if (!hasNvrtc())
    return;
  for (const char *text :
       {"layernorm rows=35 cols=177600 weight=1 bias=1 dtype=fp16",
        "layernorm rows=768 cols=153408 weight=1 bias=1 dtype=bf16",
        "layernorm rows=34 cols=5504 weight=1 bias=1 dtype=fp16",
        "layernorm rows=3151 cols=50147 weight=1 bias=1 dtype=fp16",
        "rmsnorm rows=111 cols=103648 weight=1 dtype=fp32",
        "softmax rows=32 cols=256001 dtype=bf16"}) {
    CAPTURE(std::string(text));
    Choices choices = choicesOf(text);
    CAPTURE(choices.config(0));
    const Candidate &first = choices.ranked[0];
    Plan plan =
        first.tmpl->plan(choices.problem, first.config, device("h100-sxm"));
    for (const TranslationUnit &unit : plan.kernels) {
      auto artifact = compiler().compile(unit);
      REQUIRE(artifact);
      CHECK(artifact->rejection(/*maySpill=*/false) == "");
    }
  }
}

// No sweep has compared their registers with the model's.
TEST_CASE("the first choices of quantised blocks and chains do not spill") {
  if (!hasNvrtc())
    return;
  const DeviceModel h100 = device("h100-sxm");
  for (const char *text :
       {"rmsnorm rows=8192 cols=4096 dtype=bf16 weight=1 residual=1 "
        "out=fp8_e4m3 scale_y=1x128",
        "rmsnorm rows=64 cols=8192 dtype=bf16 weight=1 out=fp8_e4m3 "
        "scale_y=1x128",
        "layernorm rows=8192 cols=5120 dtype=fp16 weight=1 bias=1 out=int8 "
        "scale_y=1x128",
        "rowquant rows=8192 cols=7168 dtype=bf16 scale_y=1x128",
        "rowquant rows=300 cols=1001 dtype=bf16 scale_y=1x128",
        "elementwise op=silu,mul rows=8192 cols=14336 dtype=bf16 "
        "out=fp8_e4m3 scale_y=1x128 ldx=28672 ldo=28672",
        "elementwise op=silu,mul rows=16 cols=14336 dtype=bf16 out=fp8_e4m3 "
        "scale_y=1x128",
        "elementwise op=silu,mul rows=8192 cols=14336 dtype=bf16 out=int8 "
        "scale_y=row",
        "elementwise op=silu,mul rows=4096 cols=11008 dtype=fp32 "
        "out=fp8_e4m3 scale_y=row",
        "elementwise op=bias,gelu_tanh rows=513 cols=3001 dtype=bf16 "
        "out=fp8_e4m3 scale_y=row"}) {
    CAPTURE(std::string(text));
    Choices choices = choicesOf(text);
    constexpr size_t kFirst = 4;
    for (size_t i = 0; i < std::min(kFirst, choices.ranked.size()); ++i) {
      const Candidate &choice = choices.ranked[i];
      CAPTURE(choice.config.text());
      Plan plan = choice.tmpl->plan(choices.problem, choice.config, h100);
      auto artifact = compiler().compile(plan.kernels[0]);
      REQUIRE(artifact);
      CHECK(artifact->rejection(/*maySpill=*/false) == "");
    }
  }
}

TEST_CASE("long rows behind chains of many matrices have configs") {
  for (const char *text :
       {"elementwise op=add,mul,add,mul rows=1000 cols=32771 dtype=bf16 "
        "out=fp8_e4m3 scale_y=1x128",
        "elementwise op=silu,mul,add,add,relu rows=1000 cols=65537 dtype=bf16 "
        "out=int8 scale_y=1x128",
        "elementwise op=add,mul rows=1000 cols=65536 dtype=bf16 align=2 "
        "out=fp8_e4m3 scale_y=1x128"}) {
    CAPTURE(std::string(text));
    CHECK(!choicesOf(text).ranked.empty());
  }
}

// Found by sweeps of an H200: some configs were refused because ptxas spilled,
// and others were fastest, or no longer spill.
TEST_CASE("configs of which ptxas spills are no candidates, the fastest are") {
  struct Case {
    const char *problem, *config;
    bool spills;
  };
  const DeviceModel h200 = device("h200-sxm");
  for (const Case &one : std::initializer_list<Case>{
           {"rmsnorm rows=5272 cols=10057 dtype=bf16 weight=1",
            "resident.t256.rt256.v8.n5.r1.c1.mb5.o1", true},
           {"softmax rows=1189 cols=8064 dtype=bf16",
            "resident.t128.rt128.v8.n4.s4.r1.c1.mb12", false},
           {"softmax rows=7833 cols=6208 dtype=bf16",
            "resident.t128.rt128.v8.n7.r1.c1.mb10", true},
           {"softmax rows=1543 cols=87773 dtype=bf16",
            "resident.t512.rt512.v8.n8.s3.r1.c2.mb2.o1", true},
           {"softmax rows=438 cols=59303 dtype=fp32",
            "resident.t256.rt256.v4.n8.r1.c8.mb4.o1", true},
           {"rowquant rows=61711 cols=256 dtype=bf16",
            "resident.t128.rt16.v8.n2.r2.c1.mb16.e1", true},
           {"rmsnorm rows=4725 cols=4096 dtype=bf16 out=fp8_e4m3 weight=1",
            "resident.t256.rt256.v8.n2.r1.c1.mb8.e1", true},
           {"layernorm rows=47 cols=50624 dtype=bf16 weight=1 bias=1",
            "resident.t512.rt512.v8.n6.s7.r1.c1.mb2.h1", true},
           {"softmax rows=1189 cols=8064 dtype=bf16",
            "resident.t256.rt256.v8.n4.r1.c1.mb6", false},
           {"softmax rows=2048 cols=50257 dtype=bf16",
            "resident.t256.rt256.v8.n7.r1.c4.mb4.o1", false},
           {"softmax rows=179 cols=237152 dtype=bf16",
            "resident.t256.rt256.v8.n8.s7.r1.c8.mb4", false},
           {"softmax rows=11622 cols=704 dtype=fp16",
            "resident.t128.rt32.v8.n3.r1.c1.mb16.h1", false},
           {"rowquant rows=58755 cols=56 dtype=bf16",
            "resident.t256.rt4.v8.n2.r1.c1.mb8", false},
           {"layernorm rows=685 cols=126605 dtype=bf16 weight=1 bias=1 "
            "residual=1",
            "resident.t512.rt512.v8.n4.r1.c8.mb2.o1", false},
           {"layernorm rows=768 cols=153408 dtype=bf16 weight=1 bias=1",
            "resident.t256.rt256.v8.n5.s5.r1.c8.mb4", false}}) {
    CAPTURE(std::string(one.problem));
    CAPTURE(std::string(one.config));
    llvm::StringRef text = one.problem;
    const KernelFamily &family = **registry().get(text.split(' ').first);
    Problem problem = parse(family, text);
    auto parsed = llvm::cantFail(family.parseConfig(one.config));
    CHECK(parsed.tmpl->prune(problem, parsed.config, h200).has_value() ==
          one.spills);
  }
}

// A kernel that loads by half the width issues twice as many accesses (H200, a
// row of 7040 by 256 threads: 4.4 us by 7 vectors of 4, 3.0 us by 4 of 8).
TEST_CASE("whole accesses come before narrow ones") {
  Choices choices = choicesOf("rowquant rows=191 cols=7040 dtype=bf16");
  CHECK(choices.config(0).find(".v8.") != std::string::npos);
}

// The exchange through L2 pays if a cluster leaves most SMs idle (H200, softmax
// of one row of 262144: 4.4 us, and 5.4 us by a cluster).
TEST_CASE("one long row is spread over the GPU, several are for clusters") {
  CHECK(choicesOf("softmax rows=1 cols=262144 dtype=bf16")
            .config(0)
            .find(".g1.") != std::string::npos);
  CHECK(choicesOf("softmax rows=27 cols=124032 dtype=bf16")
            .config(0)
            .find(".c8.") != std::string::npos);
}

// Blocks that count one after the other are not free (H100: 6.5 us with 528
// ranges of a row, 4.1 with clusters of 4).
TEST_CASE("a short reduction has no more ranges than pay for themselves") {
  Choices choices = choicesOf("reduce op=sum rows=4 cols=69808 dtype=fp32");
  auto position = [&](llvm::StringRef config) {
    for (size_t i = 0; i < choices.ranked.size(); ++i)
      if (choices.config(i) == config)
        return i;
    FAIL("the space lacks ", config.str());
    return size_t(0);
  };
  CHECK(position("reload.t512.rt512.v4.i4.c4.h1") <
        position("split.t128.v4.i2.h1.k528"));
  CHECK(choices.config(0).find("k528") == std::string::npos);
}

// A second pass over a row has a beginning of its own (H100: 0.3 to 0.5 us).
TEST_CASE("rows that a few threads can keep are not read again") {
  for (const char *text :
       {"rmsnorm rows=3000 cols=23 weight=1 dtype=bf16",
        "layernorm rows=400 cols=15 weight=1 bias=1 dtype=fp32",
        "softmax rows=400 cols=31 mask=2 dtype=fp16",
        "layernorm rows=34 cols=5504 weight=1 bias=1 dtype=fp16"}) {
    CAPTURE(std::string(text));
    CHECK(llvm::StringRef(choicesOf(text).config(0)).starts_with("resident"));
  }
}

TEST_CASE("rows that leave most SMs idle may be spread over all") {
  auto spreads = [](llvm::StringRef text) {
    int count = 0;
    for (const Candidate &candidate : choicesOf(text).ranked)
      count += llvm::StringRef(candidate.config.text()).contains(".g1.");
    return count;
  };
  CHECK(spreads("layernorm rows=1 cols=98520 weight=1 bias=1 dtype=bf16") > 0);
  CHECK(spreads("softmax rows=8 cols=151936 dtype=bf16") > 0);
  CHECK(spreads("rmsnorm rows=3 cols=100001 weight=1 dtype=bf16 "
                "out=fp8_e4m3") > 0);
  // Clusters fill the GPU, a row belongs to a block, and reductions have
  // ranges.
  CHECK(spreads("softmax rows=64 cols=151936 dtype=bf16") == 0);
  CHECK(spreads("softmax rows=1 cols=2000 dtype=bf16") == 0);
  CHECK(spreads("reduce op=sum rows=1 cols=151936 dtype=bf16") == 0);
}

TEST_CASE("spread blocks run all at once and have zeros to exchange through") {
  const KernelFamily &family = **registry().get("rmsnorm");
  const DeviceModel h100 = device("h100-sxm");
  auto planOf = [&](llvm::StringRef text) {
    Problem problem = parse(family, text);
    auto config = llvm::cantFail(
        family.parseConfig("resident.t256.rt256.v8.n2.r1.c1.mb1.g1.k44"));
    return config.tmpl->plan(problem, config.config, h100);
  };
  constexpr llvm::StringLiteral kNorm =
      "rmsnorm rows=3 cols=100000 weight=1 dtype=bf16";
  CHECK(planOf(kNorm).workspace.zeroedBytes == 16 * 3 * 44 * 44);
  CHECK(planOf(kNorm).workspace.scratchBytes == 0);
  // The greatest result is exchanged as well, unless it is known by then.
  CHECK(planOf((kNorm + " out=int8").str()).workspace.zeroedBytes ==
        16 * 3 * 44 * 44);
  CHECK(planOf((kNorm + " bias=1 out=int8").str()).workspace.zeroedBytes ==
        2 * 16 * 3 * 44 * 44);
  CHECK(reason(family, kNorm, "resident.t256.rt256.v8.n2.r1.c1.mb1.g1.k44") ==
        "none");
  CHECK(reason(family, "rmsnorm rows=4 cols=100000 weight=1 dtype=bf16",
               "resident.t256.rt256.v8.n2.r1.c1.mb1.g1.k44") ==
        "grid: 176 blocks at once, limit 132 blocks at once");
  // Neither with clusters nor where others share the block.
  for (const char *config : {"resident.t256.rt256.v8.n2.r1.c2.mb1.g1.k44",
                             "resident.t256.rt128.v8.n4.r1.c1.mb1.g1.k44",
                             "resident.t256.rt256.v8.n2.r1.c1.mb1.k44"})
    CHECK(reason(family, kNorm, config) != "none");
}

// 7 to 14 of 39 columns are ends: trials have to tell whether vectors pay.
TEST_CASE("short rows that begin anywhere may be read by elements early on") {
  Choices choices =
      choicesOf("layernorm rows=23183 cols=39 weight=1 bias=1 residual=1 "
                "dtype=bf16");
  bool isEarly = false;
  for (size_t i = 0; i < 3; ++i)
    isEarly |= llvm::StringRef(choices.config(i)).contains(".v1.n");
  CHECK(isEarly);
}

TEST_CASE("a config that asks for last vectors only serves rows that fill it") {
  const DeviceModel h200 = device("h200-sxm");
  auto serves = [&](llvm::StringRef text, llvm::StringRef config) {
    const KernelFamily &family = **registry().get(text.split(' ').first);
    auto parsed = llvm::cantFail(family.parseConfig(config));
    return !parsed.tmpl->prune(parse(family, text), parsed.config, h200);
  };
  // Each of four blocks has 64 vectors at least.
  constexpr llvm::StringLiteral kConfig =
      "resident.t64.rt64.v8.n2.r1.c4.mb1.e2";
  CHECK(serves("rmsnorm rows=9 cols=2048 dtype=bf16", kConfig));
  CHECK(serves("rmsnorm rows=9 cols=4096 dtype=bf16", kConfig));
  CHECK_FALSE(serves("rmsnorm rows=9 cols=2040 dtype=bf16", kConfig));
  CHECK_FALSE(serves("rmsnorm rows=9 cols=4104 dtype=bf16", kConfig));
  // Ends take vectors from a row that begins anywhere.
  constexpr llvm::StringLiteral kAnywhere =
      "resident.t64.rt64.v8.n2.r1.c1.mb1.o1.e2";
  CHECK_FALSE(serves("rmsnorm rows=9 cols=513 dtype=bf16", kAnywhere));
  CHECK(serves("rmsnorm rows=9 cols=545 dtype=bf16", kAnywhere));
}
