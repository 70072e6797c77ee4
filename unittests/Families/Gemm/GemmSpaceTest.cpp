#include "Families/Gemm/GemmTemplate.h"
#include "Families/Gemm/GemmTesting.h"

#include "Kernel/Space.h"
#include "Support/Format.h"
#include "Support/Json.h"

#include <doctest/doctest.h>

#include <llvm/ADT/STLExtras.h>

#include <array>
#include <cmath>
#include <set>

using namespace kiln;
using namespace kiln::testing;

TEST_CASE("every combination of types, layouts and alignments is served") {
  for (llvm::StringRef types : {"bf16", "bf16 out=fp32", "fp16",
                                "fp16 out=fp32", "fp32", "fp32 compute=tf32"})
    for (llvm::StringRef layout : {"NN", "NT", "TN", "TT"})
      for (int align : {2, 4, 8, 16}) {
        if (types.starts_with("fp32") && align < 4)
          continue;
        std::string text =
            fmt::format("gemm m=17 n=19 k=23 dtype={} layout={} align={}",
                        types, layout, align);
        CAPTURE(text);
        auto space = exploreSpace(gemm(), parse(text), h200());
        CHECK(bool(space));
        llvm::consumeError(space.takeError());
      }
}

// All except sm90, which an A100 lacks.
TEST_CASE("every template serves a swiglu that it serves without") {
  DeviceModel a100 = llvm::cantFail(findDevice("a100-sxm4-80gb"));
  for (llvm::StringRef types :
       {"bf16", "bf16 out=fp32", "fp16", "fp32", "fp32 compute=tf32"})
    for (int n : {512, 500, 2}) {
      std::string text =
          fmt::format("gemm m=100 n={} k=320 dtype={} layout=NT", n, types);
      CAPTURE(text);
      auto configs = [&](llvm::StringRef chain) {
        std::set<std::string> found;
        auto space = llvm::cantFail(
            exploreSpace(gemm(), parse((text + chain).str()), a100));
        for (const Candidate &candidate : space.ranked)
          found.insert(candidate.config.text());
        return found;
      };
      CHECK(configs(" pointwise=swiglu") == configs(""));
    }
}

TEST_CASE("no config of the space takes more than is allowed") {
  // Splits exchange sums, and a row of 1001 elements has to be copied.
  for (llvm::StringRef text :
       {"gemm m=256 n=256 k=16384 dtype=bf16 layout=NT",
        "gemm m=256 n=256 k=1001 dtype=bf16 layout=NT"}) {
    CAPTURE(text);
    Problem problem = parse(text);
    Space all = llvm::cantFail(exploreSpace(gemm(), problem, h200()));
    constexpr uint64_t kAllowed = 256 << 10;
    Space some = llvm::cantFail(exploreSpace(
        gemm(), problem, h200(),
        {.keepRejected = true, .allowance = {.workspaceBytes = kAllowed}}));
    auto takesMore = [&](const Candidate &candidate) {
      return candidate.tmpl->workspace(problem, candidate.config, h200())
                 .bytes() > kAllowed;
    };
    const auto beyond = llvm::count_if(all.ranked, takesMore);
    CHECK(beyond > 0);
    CHECK(all.ranked.size() == some.ranked.size() + beyond);
    CHECK(llvm::none_of(some.ranked, takesMore));
    CHECK(llvm::count_if(some.rejected, [](const Rejected &rejected) {
            return rejected.rejection.reason == PruneReason::Workspace &&
                   rejected.rejection.limit == kAllowed &&
                   rejected.rejection.value > kAllowed;
          }) >= beyond);
  }
}

TEST_CASE("a plan that is to serve larger problems is judged by the largest") {
  Problem small = parse("gemm m=128 n=256 k=16384 dtype=bf16 layout=NT");
  Problem large = parse("gemm m=512 n=256 k=16384 dtype=bf16 layout=NT");
  constexpr uint64_t kAllowed = 1 << 20;
  Space alone = llvm::cantFail(exploreSpace(
      gemm(), small, h200(), {.allowance = {.workspaceBytes = kAllowed}}));
  Space covering = llvm::cantFail(exploreSpace(
      gemm(), small, h200(),
      {.allowance = {.workspaceBytes = kAllowed, .largest = &large}}));
  CHECK(covering.ranked.size() < alone.ranked.size());
  for (const Candidate &candidate : covering.ranked) {
    CHECK(!candidate.tmpl->prune(large, candidate.config, h200()));
    CHECK(candidate.tmpl->workspace(large, candidate.config, h200()).bytes() <=
          kAllowed);
  }
}

TEST_CASE("every template is offered where its types allow it") {
  auto templates = [](llvm::StringRef text, llvm::StringRef device) {
    std::set<std::string> names;
    DeviceModel model = llvm::cantFail(findDevice(device));
    auto space = exploreSpace(gemm(), parse(text), model);
    REQUIRE(bool(space));
    for (const Candidate &candidate : space->ranked)
      names.insert(candidate.tmpl->name().str());
    return names;
  };
  using Names = std::set<std::string>;
  llvm::StringRef bf16 = "gemm m=512 n=512 k=512 dtype=bf16";
  CHECK(templates(bf16, "h200-sxm") == Names{"mma", "naive", "simt", "sm90"});
  CHECK(templates(bf16, "a100-sxm4-80gb") == Names{"mma", "naive", "simt"});
  CHECK(templates(bf16, "t4") == Names{"naive", "simt"});
  // One small extent, rows along k and their alignment make one operand
  // streamed.
  auto streamed = [&](llvm::StringRef text) {
    Names names = templates(text, "h200-sxm");
    for (const char *other : {"mma", "ffma", "simt", "naive", "sm90"})
      names.erase(other);
    return names;
  };
  CHECK(streamed("gemm m=1 n=512 k=512 dtype=bf16 layout=NT") == Names{"gemv"});
  CHECK(streamed("gemm m=4 n=512 k=512 dtype=fp16 layout=NT") ==
        Names{"gemv", "skinny"});
  CHECK(streamed("gemm m=5 n=512 k=512 dtype=fp16 layout=NT") ==
        Names{"skinny"});
  CHECK(streamed("gemm m=512 n=64 k=512 dtype=bf16 layout=NT") ==
        Names{"skinny"});
  CHECK(streamed("gemm m=65 n=512 k=512 dtype=bf16 layout=NT").empty());
  CHECK(streamed("gemm m=1 n=512 k=512 dtype=bf16 layout=NN").empty());
  CHECK(streamed("gemm m=1 n=512 k=511 dtype=bf16 layout=NT").empty());
  CHECK(streamed("gemm m=1 n=512 k=512 dtype=fp32 layout=NT") == Names{"gemv"});
  CHECK(streamed("gemm m=5 n=512 k=512 dtype=fp32 layout=NT").empty());
  for (const char *type : {"e4m3", "e5m2", "e4m3 b=e5m2", "int8"}) {
    CAPTURE(type);
    auto bytes = [&](llvm::StringRef fields) {
      return streamed(("gemm n=512 k=512 dtype=" + llvm::Twine(type) +
                       " scale_a=row " + fields)
                          .str());
    };
    CHECK(bytes("m=4 layout=NT") == Names{"gemv", "skinny"});
    CHECK(bytes("m=64 layout=NT") == Names{"skinny"});
    CHECK(bytes("m=4 layout=NN").empty());
    CHECK(bytes("m=4 layout=NT lda=520").empty());
  }
  CHECK(streamed("gemm m=1 n=512 k=512 dtype=e4m3 layout=NT scale_a=1x128 "
                 "scale_b=128x128") == Names{"skinny"});
  CHECK(streamed("gemm m=1 n=512 k=512 dtype=fp32 layout=NT compute=tf32") ==
        Names{"gemv"});
  llvm::StringRef fp32 = "gemm m=512 n=512 k=512 dtype=fp32";
  CHECK(templates(fp32, "h200-sxm") == Names{"ffma", "naive", "simt"});
  CHECK(templates(fp32, "a100-sxm4-80gb") == Names{"ffma", "naive", "simt"});
  CHECK(templates(fp32, "v100-sxm2") == Names{"naive", "simt"});
  CHECK(templates("gemm m=512 n=512 k=512 dtype=fp32 compute=tf32",
                  "h200-sxm") == Names{"mma", "naive", "sm90"});
}

TEST_CASE("mma leaves large tiles to wgmma, where wgmma takes the problem") {
  auto hasLargeTiles = [](llvm::StringRef text, llvm::StringRef device) {
    CAPTURE(text.str());
    Space space = llvm::cantFail(
        exploreSpace(gemm(), parse(text), llvm::cantFail(findDevice(device))));
    bool hasSmall = false, hasLarge = false, hasWgmma = false;
    for (const Candidate &candidate : space.ranked) {
      hasWgmma |= candidate.tmpl->name() == "sm90";
      if (candidate.tmpl->name() != "mma")
        continue;
      const Values &config = candidate.config;
      (config.get("bm") * config.get("bn") > 64 * 128 ? hasLarge : hasSmall) =
          true;
    }
    CHECK(hasSmall);
    // No config lacks both.
    CHECK((hasLarge || hasWgmma));
    return hasLarge;
  };
  std::string bf16 = "gemm m=512 n=512 k=512 dtype=bf16";
  CHECK(!hasLargeTiles(bf16, "h200-sxm"));
  CHECK(!hasLargeTiles("gemm m=500 n=512 k=512 dtype=fp16 layout=TT lda=504",
                       "h200-sxm"));
  CHECK(hasLargeTiles(bf16, "a100-sxm4-80gb"));
  CHECK(hasLargeTiles(bf16, "b200-sxm"));
  CHECK(hasLargeTiles(bf16 + " align=8", "h200-sxm"));
  CHECK(hasLargeTiles(bf16 + " ldb=513", "h200-sxm"));
  CHECK(!hasLargeTiles(bf16 + " pointwise=swiglu", "h200-sxm"));
  CHECK(hasLargeTiles("gemm m=512 n=512 k=0 dtype=bf16", "h200-sxm"));
  std::string tf32 = "gemm m=512 n=512 k=512 dtype=fp32 compute=tf32";
  CHECK(!hasLargeTiles(tf32, "h200-sxm"));
  CHECK(!hasLargeTiles(tf32 + " layout=TT", "h200-sxm"));
  // Some operand has to be copied.
  CHECK(hasLargeTiles(tf32 + " layout=TN", "h200-sxm"));
  CHECK(hasLargeTiles(tf32 + " ldb=513", "h200-sxm"));
  CHECK(hasLargeTiles(tf32, "a100-sxm4-80gb"));
}

static std::string reason(llvm::StringRef problem, llvm::StringRef config,
                          llvm::StringRef name = "h200-sxm") {
  return reason(gemm(), problem, config, device(name));
}

TEST_CASE("prune names the limit that a typed config breaks") {
  llvm::StringRef nt = "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NT";
  llvm::StringRef tile = "mma.bm128.bn128.bk32.st3.wm2.wn2.mb1";
  CHECK(reason(nt, tile) == "none");
  CHECK(reason(nt, "mma.bm128.bn128.bk32.st3.wm8.wn8.mb1") ==
        "threads: 2048, limit 1024");
  CHECK(reason(nt, "mma.bm256.bn256.bk32.st3.wm2.wn4.mb1") ==
        "register wall: 256 accumulators a thread, 128 allowed");
  // 128 accumulators, 64 for fragments, 40 more; eight blocks of 128 threads
  // leave each 64.
  CHECK(reason(nt, "mma.bm128.bn128.bk32.st3.wm2.wn2.mb8") ==
        "register wall: 232 registers a thread, 64 allowed");
  CHECK(reason(nt, "mma.bm128.bn256.bk64.st8.wm2.wn4.mb1") ==
        "shared-memory wall: 393216 B, 232448 allowed");
  CHECK(reason(nt, "mma.bm128.bn128.bk24.st3.wm2.wn2.mb1") ==
        "instruction-shape");
  CHECK(reason(nt, tile, "t4") == "architecture: 75, 80 needed");
  CHECK(reason("gemm m=64 n=64 k=64 dtype=fp32", tile) == "type");
  CHECK(reason("gemm m=64 n=64 k=64 dtype=fp32 compute=tf32",
               "simt.bm128.bn128.bk8.tm8.tn8.mb2") == "type");
  CHECK(reason("gemm m=64 n=64 k=96 dtype=bf16 layout=NT",
               (tile + ".sp1.sk4").str()) ==
        "dominated: 4 splits, limit 3 splits");
  CHECK(reason("gemm m=8388608 n=8388608 k=64 dtype=bf16 layout=NT", tile) ==
        "grid: 4294967296 blocks, limit 2147483647 blocks");
  // 4096 partial tiles of 64 KiB and their counters; 2048 without any.
  CHECK(reason(nt, (tile + ".sp1.sk4").str()) ==
        "workspace: 268439552 B, limit 67108864 B");
  CHECK(reason("gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NT",
               "sm90.bm128.bn128.bk64.st6.wg2.cm1.cn1.sk2") ==
        "workspace: 134217728 B, limit 67108864 B");
}

TEST_CASE("prune names what takes tiles of bytes out") {
  llvm::StringRef tile = "mma.bm64.bn64.bk128.st3.wm2.wn2.mb2";
  llvm::StringRef large = "mma.bm128.bn128.bk128.st3.wm2.wn2.mb1";
  for (const char *layout : {"NN", "NT", "TN", "TT"})
    for (const char *type : {"e4m3", "int8", "e5m2 b=e4m3"})
      for (const char *device : {"a100-sxm4-80gb", "l40s", "h200-sxm"}) {
        CAPTURE(device);
        std::string text = fmt::format(
            "gemm m=129 n=257 k=513 dtype={} layout={} align=1", type, layout);
        CAPTURE(text);
        CHECK(reason(text, tile, device) == "none");
      }
  CHECK(reason("gemm m=64 n=64 k=64 dtype=int8 layout=NN", tile, "t4") ==
        "architecture: 75, 80 needed");
  CHECK(reason("gemm m=64 n=64 k=131072 dtype=int8 layout=NN", tile) ==
        "type: 131072 products a sum of int32, limit 131071 products a sum of "
        "int32");
  llvm::StringRef e4m3 = "gemm m=512 n=512 k=512 dtype=e4m3 layout=NN";
  CHECK(reason(e4m3, large) == "none");
  CHECK(reason(e4m3, large, "l40s") ==
        "register wall: 256 accumulators a thread, 128 allowed");
  CHECK(reason((e4m3 + " compute=fast_fp8").str(), large, "l40s") == "none");
}

TEST_CASE("prune names what takes the streams of one operand out") {
  llvm::StringRef one = "gemm m=1 n=4096 k=4096 dtype=bf16 layout=NT";
  llvm::StringRef nine = "gemm m=9 n=4096 k=4096 dtype=bf16 layout=NT";
  llvm::StringRef gemv = "gemv.r4.u4.w4.wk4.v1.mb4";
  llvm::StringRef skinny = "skinny.r16.v16.k64.st6.w4.mb2";
  CHECK(reason(one, gemv) == "none");
  CHECK(reason(nine, skinny) == "none");
  CHECK(reason(one, gemv, "t4") == "architecture: 75, 80 needed");
  CHECK(reason("gemm m=1 n=8 k=8 dtype=fp32 layout=NT", gemv) == "none");
  CHECK(reason("gemm m=1 n=8 k=8 dtype=fp32 layout=NT compute=tf32", gemv) ==
        "none");
  CHECK(reason("gemm m=9 n=8 k=8 dtype=fp32 layout=NT", skinny) == "type");
  llvm::StringRef bytes = "skinny.r16.v16.k128.st6.w4.mb2";
  CHECK(reason("gemm m=1 n=64 k=256 dtype=e4m3 layout=NT", bytes) == "none");
  CHECK(reason("gemm m=1 n=64 k=256 dtype=int8 layout=NT", bytes) ==
        "dominated: 1 vectors, 2 needed");
  CHECK(reason("gemm m=9 n=64 k=256 dtype=e4m3 layout=NT", bytes, "t4") ==
        "architecture: 75, 80 needed");
  CHECK(reason("gemm m=9 n=64 k=256 dtype=e4m3 layout=NN", bytes) ==
        "instruction-shape");
  CHECK(reason("gemm m=9 n=64 k=256 dtype=int8 layout=NT align=8", bytes) ==
        "alignment: 8 B, 16 needed");
  CHECK(reason("gemm m=9 n=64 k=131072 dtype=int8 layout=NT", bytes) ==
        "type: 131072 products a sum of int32, limit 131071 products a sum of "
        "int32");
  CHECK(reason("gemm m=1 n=64 k=131072 dtype=int8 layout=NT", gemv) ==
        "type: 131072 products a sum of int32, limit 131071 products a sum of "
        "int32");
  CHECK(reason("gemm m=1 n=64 k=131072 dtype=e4m3 layout=NT", gemv) == "none");
  // Partial sums need registers beside the others, if the tensor core's are
  // narrow.
  llvm::StringRef wide = "skinny.r64.v64.k128.st2.w2.mb1";
  CHECK(reason("gemm m=60 n=64 k=256 dtype=e4m3 layout=NT", wide) == "none");
  CHECK(reason("gemm m=60 n=64 k=256 dtype=e4m3 layout=NT", wide, "l40s") ==
        "register wall: 256 accumulators a thread, 128 allowed");
  CHECK(reason("gemm m=60 n=64 k=256 dtype=e4m3 layout=NT compute=fast_fp8",
               wide, "l40s") == "none");
  CHECK(reason("gemm m=1 n=8 k=8 dtype=bf16 layout=NN", gemv) ==
        "instruction-shape");
  CHECK(reason("gemm m=1 n=8 k=7 dtype=bf16 layout=NT", gemv) ==
        "alignment: 2 B, 16 needed");
  CHECK(reason(nine, gemv) == "dominated: 9 vectors, limit 1 vectors");
  CHECK(reason(nine, (skinny + ".sa1").str()) ==
        "dominated: 4096 vectors, limit 16 vectors");
  CHECK(reason(one, skinny) == "dominated: 1 vectors, 2 needed");
  CHECK(reason(one, "gemv.r3.u4.w4.wk4.v1.mb4") == "instruction-shape");
  CHECK(reason(one, "gemv.r4.u4.w2.wk4.v1.mb4") == "instruction-shape");
  CHECK(reason(nine, "skinny.r64.v16.k128.st8.w4.mb1") ==
        "shared-memory wall: 655360 B, 232448 allowed");
  CHECK(reason("gemm m=9 n=64 k=256 dtype=bf16 layout=NT",
               (skinny + ".sp1.sk2").str()) ==
        "dominated: 2 splits, limit 1 splits");
}

TEST_CASE("few vectors past many rows are streamed, and the space is compact") {
  struct Case {
    llvm::StringRef text;
    double measuredUs; ///< best of many kernels on an H200, cold L2
  };
  for (const Case &c :
       {Case{"m=1 n=4096 k=4096", 9.5}, Case{"m=1 n=6144 k=4096", 13.2},
        Case{"m=1 n=28672 k=4096", 53.7}, Case{"m=1 n=4096 k=14336", 28.2},
        Case{"m=1 n=2112 k=7168", 8.8}, Case{"m=1 n=32768 k=512", 9.6},
        Case{"m=16 n=4096 k=4096", 10.4}, Case{"m=16 n=6144 k=4096", 14.3},
        Case{"m=16 n=28672 k=4096", 57.3}, Case{"m=16 n=4096 k=14336", 29.4},
        Case{"m=16 n=2112 k=7168", 9.7}, Case{"m=16 n=32768 k=512", 11.0}}) {
    CAPTURE(c.text.str());
    Problem problem = parse(("gemm dtype=bf16 layout=NT " + c.text).str());
    auto space = exploreSpace(gemm(), problem, h200(), {.keepRejected = true});
    REQUIRE(bool(space));
    auto countOf = [&](llvm::StringRef name) {
      auto isOfIt = [&](const auto &candidate) {
        return candidate.tmpl->name() == name;
      };
      return llvm::count_if(space->ranked, isOfIt) +
             llvm::count_if(space->rejected, isOfIt);
    };
    CHECK(countOf("gemv") <= 24);
    CHECK(countOf("skinny") <= 48);
    auto isStreamed = [](const Candidate &candidate) {
      llvm::StringRef name = candidate.tmpl->name();
      return name == "gemv" || name == "skinny";
    };
    auto best = llvm::find_if(space->ranked, isStreamed);
    REQUIRE(best != space->ranked.end());
    double us = best->estimate.totalNs * 1e-3;
    CHECK(us == doctest::Approx(c.measuredUs).epsilon(0.08));
    CHECK(best->derive(problem, h200()).total().value() ==
          doctest::Approx(best->estimate.totalNs));
  }
}

// FFMAs take every issue slot here. (On an A100 they take half of them, and the
// estimates of simt and ffma are close.)
TEST_CASE("exact fp32 has tiles, splits and thin tiles for any size") {
  for (llvm::StringRef name : {"h200-sxm", "rtx-4090"}) {
    CAPTURE(name.str());
    DeviceModel model = llvm::cantFail(findDevice(name));
    for (llvm::StringRef layout : {"NN", "NT", "TN", "TT"})
      for (int align : {4, 16})
        for (auto [m, n, k] :
             {std::array{4096, 4096, 4096}, std::array{777, 5120, 3072},
              std::array{16, 4096, 14336}, std::array{4096, 5, 512},
              std::array{3, 5, 7}}) {
          std::string text =
              fmt::format("gemm m={} n={} k={} dtype=fp32 layout={} align={}",
                          m, n, k, layout, align);
          CAPTURE(text);
          Space space =
              llvm::cantFail(exploreSpace(gemm(), parse(text), model));
          const Candidate &first = space.ranked.front();
          // The generic templates are the fallback for everything else.
          CHECK(first.tmpl->name() != "simt");
          if (m * n > 1000)
            CHECK(first.tmpl->name() != "naive");
          CHECK(space.ranked.size() < 150);
        }
  }
}

TEST_CASE("exact fp32 splits the tiles behind full waves where that is short") {
  // 15 x 40 tiles of 128 x 128: two waves of 264, and 72 tiles.
  Problem problem = parse("gemm m=1837 n=5120 k=8192 dtype=fp32 layout=NT");
  Space space = llvm::cantFail(exploreSpace(gemm(), problem, h200()));
  auto best = llvm::find_if(space.ranked, [](const Candidate &candidate) {
    return llvm::StringRef(candidate.config.text())
        .starts_with("ffma.bm128.bn128");
  });
  REQUIRE(best != space.ranked.end());
  CHECK(best->config.get("wb") == 264);
  CHECK(best->config.get("sk") == 3);
  Values whole = best->config;
  whole.set("sk", 1);
  whole.set("sp", 0);
  whole.set("wb", 0);
  double wholeNs = best->tmpl->estimate(problem, whole, h200()).totalNs;
  CHECK(best->estimate.totalNs < 0.92 * wholeNs);
  // Only their sums are exchanged.
  WorkspaceLayout layout = best->tmpl->workspace(problem, best->config, h200());
  CHECK(layout.scratchBytes < 264ull * 3 * 128 * 128 * 4);
  CHECK(best->derive(problem, h200()).total().value() ==
        doctest::Approx(best->estimate.totalNs));
}

TEST_CASE("a rate of zero takes the template out, never the estimate") {
  DeviceModel device = h200();
  auto json = llvm::cantFail(parseJson(
      R"({"mmaSyncBf16FlopsPerClock": 0, "simdFp16FlopsPerClock": 0})", "x"));
  REQUIRE(!applyJson(device, json, "x", ValueSource::Override));
  auto space =
      exploreSpace(gemm(), parse("gemm m=64 n=64 k=64 dtype=bf16"), device);
  REQUIRE(bool(space));
  for (const Candidate &candidate : space->ranked) {
    CHECK(candidate.tmpl->name() != "mma");
    CHECK(std::isfinite(candidate.estimate.totalNs));
  }
}

TEST_CASE("every case of the suites is planned") {
  for (llvm::StringRef suite : {"gemm_llm_bf16", "gemm_shapes"})
    for (const Problem &problem : suiteProblems(suite)) {
      CAPTURE(problem.text());
      auto space = exploreSpace(gemm(), problem, h200());
      REQUIRE(bool(space));
      // Any template may be first for a handful of products.
      if (gemm().flops(problem) > 1e6)
        CHECK(space->ranked.front().tmpl->name() != "naive");
    }
}

TEST_CASE("a reduction is a term of what is split") {
  Problem problem = parse("gemm m=300 n=4096 k=8192 dtype=bf16 layout=NT");
  auto space = exploreSpace(gemm(), problem, h200());
  REQUIRE(bool(space));
  for (Candidate &candidate : space->ranked) {
    CAPTURE(candidate.config.text());
    const Derivation derivation = candidate.derive(problem, h200());
    const bool isReduced =
        llvm::any_of(derivation.addends(), [](const Addend &addend) {
          return addend.name.starts_with("reduction") && addend.ns > 0;
        });
    llvm::StringRef name = candidate.tmpl->name();
    bool maySplit = name == "mma" || name == "sm90";
    CHECK(isReduced == (maySplit && candidate.config.get("sk") > 1));
  }
}
