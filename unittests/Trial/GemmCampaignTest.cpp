// Random problems, templates and configs of the GEMM family through the trials
// that a tuner runs: all of them must be right, on a real GPU.
#include "Families/Families.h"
#include "Trial/Campaign.h"

#include <algorithm>
#include <map>
#include <utility>

using namespace kiln;
using namespace kiln::fake;

namespace {

/// Draws triples; the same seed draws the same ones on the same device.
class GemmGenerator {
public:
  GemmGenerator(const KernelFamily &family, const DeviceModel &device,
                unsigned seed, int64_t largest)
      : family(family), device(device), draws(seed), largest(largest) {}

  /// A problem that the template called \p tmpl takes, and one of its configs;
  /// nothing where it is not for this device.
  std::optional<Triple> draw(llvm::StringRef tmpl, Evenly evenly) {
    bool streams = tmpl == "gemv" || tmpl == "skinny";
    bool takesBytes = tmpl == "sm90" || tmpl == "mma" || tmpl == "naive";
    return draws.tripleIfAny(family, tmpl, device, evenly, [&] {
      if (tmpl.starts_with("packed") || (tmpl == "naive" && draws.chance(30)))
        return packedText(tmpl == "packedgemv" ? 1 : 200);
      if (takesBytes && draws.chance(50))
        return byteText(extent());
      if (streams && draws.chance(40))
        return byteText(1 + draws.below(tmpl == "gemv" ? 4 : 64));
      return streams ? streamedText(tmpl == "gemv" ? 8 : 64) : problemText();
    });
  }

private:
  /// Ragged, or a multiple of what tiles are multiples of.
  int64_t extent() {
    if (draws.chance(15))
      return 1 + draws.below(8);
    if (draws.chance(40))
      return 16 * (1 + draws.below(largest / 16));
    return 1 + draws.below(largest);
  }

  std::string problemText() {
    int64_t m = extent(), n = extent();
    int64_t k = draws.chance(5) ? 0 : extent() * (draws.chance(20) ? 4 : 1);
    std::string type = draws.pick({"bf16", "fp16", "fp32"});
    std::string layout = draws.pick({"NN", "NT", "TN", "TT"});
    std::string text =
        fmt::format("m={} n={} k={} dtype={} layout={}", m, n, k, type, layout);
    if (type == "fp32" && draws.chance(60))
      text += " compute=tf32";
    int element = type == "fp32" ? 4 : 2;
    text += draws.alignment(element);
    bool transposedA = layout[0] == 'T', transposedB = layout[1] == 'T';
    text += draws.padded("lda", transposedA ? m : k) +
            draws.padded("ldb", transposedB ? k : n);
    return text + restOf(n, type);
  }

  /// One extent of up to \p most, and rows along k that begin at multiples of
  /// 16 bytes. k is long enough for several rounds, and of any length.
  std::string streamedText(int64_t most) {
    int64_t m = 1 + draws.below(most), n = extent();
    if (draws.chance(40))
      std::swap(m, n);
    int64_t k = draws.chance(5)    ? 0
                : draws.chance(50) ? 8 * (1 + draws.below(largest))
                                   : 1 + draws.below(4 * largest);
    std::string type = draws.pick({"bf16", "fp16", "fp32"});
    auto pitch = [&] { return (k + 7) / 8 * 8 + 8 * draws.below(3); };
    std::string text =
        fmt::format("m={} n={} k={} dtype={} layout=NT", m, n, k, type);
    if (k > 0)
      text += fmt::format(" lda={} ldb={}", pitch(), pitch());
    return text + restOf(n, type);
  }

  /// fp8 and int8 with all kinds of scales, along k mostly, some with an e4m3
  /// result or zero points of A.
  std::string byteText(int64_t m) {
    int64_t n = extent(), k = 1 + draws.below(4 * largest);
    if (draws.chance(60))
      k = 16 * (k / 16 + 1);
    std::string a = draws.pick({"e4m3", "e4m3", "e5m2", "int8"});
    bool isInteger = a == "int8";
    std::string text =
        fmt::format("m={} n={} k={} dtype={} layout={}", m, n, k, a,
                    draws.chance(60) ? "NT" : draws.pick({"NN", "TN", "TT"}));
    const bool quantizes = draws.chance(20);
    text += quantizes
                ? fmt::format(" out=e4m3 scale_d={}",
                              draws.pick({"tensor", "row", "1x128"}))
                : fmt::format(" out={}", draws.pick({"bf16", "fp16", "fp32"}));
    if (!isInteger && draws.chance(40))
      text += fmt::format(" b={}", draws.pick({"e4m3", "e5m2"}));
    if (!isInteger && draws.chance(40)) {
      text += " scale_a=1x128 scale_b=128x128";
      const int64_t depths = (k + 127) / 128;
      if (draws.chance(50))
        text += fmt::format(" scale_order_a=rows ldsa={}", (m + 3) / 4 * 4);
      else
        text += draws.padded("ldsa", depths);
      if (draws.chance(30))
        text += fmt::format(" scale_order_b=rows ldsb={}",
                            (n + 127) / 128 + draws.below(3));
    } else {
      text += fmt::format(" scale_a={} scale_b={}",
                          draws.pick({"none", "tensor", "row"}),
                          draws.pick({"none", "tensor", "row"}));
      if (!isInteger && draws.chance(30))
        text += " compute=fast_fp8";
      if (isInteger && draws.chance(40))
        text += fmt::format(" zero_a={}", draws.pick({"tensor", "row"}));
    }
    return text + draws.alignment(1) + restOf(n, "fp32");
  }

  /// Packed weights of all types, groups and scales; m as of decoding mostly.
  std::string packedText(int64_t most) {
    const int64_t m =
        1 + draws.below(std::min<int64_t>(most, draws.chance(70) ? 20 : most));
    const int64_t n = extent(), k = 1 + draws.below(4 * largest);
    const std::string type = draws.pick({"bf16", "fp16"});
    const std::string b = draws.pick({"int4", "int4", "int8", "e4m3", "e2m1"});
    std::string text =
        fmt::format("m={} n={} k={} dtype={} layout=NT b={} order_b=k64r16", m,
                    n, k, type, b);
    if (b == "e2m1")
      text += " scale_b=1x32 scale_type_b=e8m0";
    else {
      text += fmt::format(" scale_b={} scale_type_b={}",
                          draws.pick({"1x32", "1x64", "1x128", "row"}),
                          draws.pick({"fp16", "bf16", "fp32"}));
      if (b != "e4m3" && draws.chance(40))
        text += " zero_b=1";
    }
    return text + draws.alignment(2) + packedRest(n, type);
  }

  /// The end of the text without a batch, which packed weights do not have.
  std::string packedRest(int64_t n, llvm::StringRef type) {
    for (;;) {
      std::string rest = restOf(n, type);
      if (rest.find("batch=") == std::string::npos)
        return rest;
    }
  }

  /// The end of a problem's text, behind the inputs.
  std::string restOf(int64_t n, llvm::StringRef type) {
    std::string text;
    bool joins = n % 2 == 0 && draws.chance(30);
    if (type != "fp32" && draws.chance(25))
      text += " out=fp32";
    if (draws.chance(30))
      text += fmt::format(" batch={}", 1 + draws.below(4));
    if (draws.chance(25))
      text += fmt::format(" alpha={}", draws.pick({"0.5", "-1.25", "0"}));
    if (!joins && draws.chance(30))
      text += fmt::format(" beta={}", draws.pick({"1", "-0.75"}));
    int64_t columns = joins ? n / 2 : n; // of D
    return text + draws.padded("ldc", n) + draws.padded("ldd", columns) +
           (joins ? joinedChain(n) : chain(n));
  }

  std::string chain(int64_t n) {
    std::string text;
    auto add = [&](const char *op, int percent) {
      if (draws.chance(percent))
        text += fmt::format("{}{}", text.empty() ? "" : ",", op);
    };
    add("bias", 30);
    add(draws.pick({"relu", "gelu_erf", "gelu_tanh", "silu"}), 30);
    add("residual", 20);
    if (text.empty())
      return "";
    bool hasResidual = text.find("residual") != std::string::npos;
    return " pointwise=" + text + (hasResidual ? draws.padded("ldr", n) : "");
  }

  /// One with a swiglu, and links on both sides of it.
  std::string joinedChain(int64_t n) {
    std::string before, behind;
    int64_t residualCols = 0;
    auto add = [&](const char *op, int percent) {
      if (!draws.chance(percent))
        return false;
      bool isBefore = draws.chance(50);
      if (isBefore)
        before += fmt::format("{},", op);
      else
        behind += fmt::format(",{}", op);
      residualCols = isBefore ? n : n / 2;
      return true;
    };
    add("bias", 40);
    add(draws.pick({"relu", "gelu_erf", "gelu_tanh", "silu"}), 20);
    bool hasResidual = add("residual", 30);
    const char *join = draws.pick({"swiglu", "swiglu", "swiglu_clamped"});
    return fmt::format(" pointwise={}{}{}", before, join, behind) +
           (hasResidual ? draws.padded("ldr", residualCols) : "");
  }

  const KernelFamily &family;
  const DeviceModel &device;
  Draws draws;
  int64_t largest;
};

/// The best two configs of each template and, for templates with split-K, the
/// best two with it: for the first problem that has them.
std::vector<Triple> productsOfEachKind(const KernelFamily &family,
                                       const DeviceModel &device) {
  std::vector<Triple> triples;
  std::map<std::pair<const Template *, bool>, int> seen;
  for (llvm::StringRef text :
       {"m=200 n=328 k=1000 dtype=bf16 layout=NT",
        "m=128 n=128 k=4096 dtype=bf16 layout=NT pointwise=bias,silu",
        "m=8 n=520 k=4096 dtype=fp16 layout=NT",
        "m=1 n=520 k=4096 dtype=bf16 layout=NT",
        "m=65 n=77 k=130 dtype=fp32"}) {
    Problem problem = must(family.parseProblem(text));
    Space space = must(exploreSpace(family, problem, device));
    for (const Candidate &candidate : space.ranked) {
      Plan plan = candidate.tmpl->plan(problem, candidate.config, device);
      bool isSplit = plan.workspace.zeroedBytes > 0;
      constexpr int kEach = 2;
      if (seen[{candidate.tmpl, isSplit}]++ < kEach)
        triples.push_back({&family, problem, candidate.config.text()});
    }
  }
  return triples;
}

/// Kinds of sm90 that a draw of small problems seldom or never has.
std::vector<Triple> kindsOfSm90(const KernelFamily &family) {
  struct Kind {
    llvm::StringRef problem, config;
  };
  const Kind kKinds[] = {
      // Pieces that overlap, with a bias that crosses words.
      {"m=130 n=240 k=200 dtype=bf16 layout=NT pointwise=bias,gelu_tanh",
       "sm90.bm64.bn112.bk64.st4.wg1.cm1.cn1"},
      {"m=260 n=360 k=136 dtype=bf16 out=fp32 layout=NT pointwise=bias",
       "sm90.bm128.bn144.bk64.st4.wg2.pp1.cm1.cn1"},
      {"m=72 n=56 k=72 dtype=fp16 layout=TT",
       "sm90.bm64.bn48.bk64.st4.wg1.cm1.cn1"},
      // Clusters with fewer steps than stages, and with more.
      {"m=130 n=240 k=64 dtype=bf16 layout=NT",
       "sm90.bm64.bn112.bk64.st6.wg1.cm2.cn1"},
      {"m=260 n=520 k=1000 dtype=bf16 layout=NT pointwise=bias,residual",
       "sm90.bm128.bn128.bk64.st3.wg2.cm1.cn2"},
      {"m=304 n=400 k=328 dtype=bf16 layout=TT beta=1",
       "sm90.bm128.bn128.bk64.st3.wg2.pp1.cm2.cn1"},
      // Splits of which some have a step more, in both orders of blocks, and
      // with several tiles a block.
      {"m=200 n=200 k=1000 dtype=bf16 layout=NT",
       "sm90.bm64.bn64.bk64.st4.wg1.cm1.cn1.sk5"},
      {"m=200 n=200 k=1000 dtype=bf16 layout=NT pointwise=bias,silu",
       "sm90.bm64.bn64.bk64.st4.wg1.cm1.cn1.sk5.tf1"},
      {"m=256 n=256 k=2104 dtype=fp16 layout=NT",
       "sm90.bm64.bn64.bk64.st4.wg1.cm1.cn1.sk32.tf1"},
      {"m=77 n=328 k=1000 dtype=bf16 layout=NT pointwise=bias",
       "sm90.bm40.bn64.bk64.st4.wg1.sw1.cm1.cn1.sk5"},
      // Columns that are no multiples of 16, with either order of the sides:
      // pieces that overlap, of aligned and of unaligned rows.
      {"m=203 n=328 k=200 dtype=bf16 layout=NT pointwise=bias",
       "sm90.bm104.bn64.bk64.st4.wg1.sw1.cm1.cn1"},
      {"m=1537 n=264 k=136 dtype=fp16 layout=NN batch=2",
       "sm90.bm200.bn192.bk64.st3.wg3.sw1.cm1.cn1"},
      {"m=311 n=600 k=136 dtype=bf16 out=fp32 layout=NT pointwise=bias",
       "sm90.bm152.bn128.bk64.st3.wg2.sw1.cm1.cn1"},
      {"m=131 n=333 k=136 dtype=bf16 layout=NT pointwise=bias,gelu_erf",
       "sm90.bm88.bn128.bk64.st4.wg2.sw1.cm1.cn1"},
      {"m=131 n=333 k=136 dtype=fp16 layout=TT lda=136",
       "sm90.bm128.bn104.bk64.st4.wg2.cm1.cn1"},
      {"m=300 n=408 k=136 dtype=bf16 layout=NT batch=3 pointwise=silu",
       "sm90.bm192.bn200.bk64.st3.wg3.cm1.cn1"},
      {"m=70 n=48 k=72 dtype=bf16 layout=NT",
       "sm90.bm64.bn24.bk64.st4.wg1.cm1.cn1"},
      // Pieces of odd widths that divide what is read.
      {"m=211 n=264 k=200 dtype=bf16 layout=NT beta=1 pointwise=residual",
       "sm90.bm104.bn128.bk64.st3.wg2.sw1.cm1.cn1"},
      {"m=211 n=264 k=200 dtype=fp16 out=fp32 layout=NT pointwise=residual",
       "sm90.bm72.bn64.bk64.st3.wg1.sw1.cm1.cn1"},
      {"m=131 n=333 k=136 dtype=bf16 layout=NT beta=-0.75",
       "sm90.bm88.bn128.bk64.st3.wg2.sw1.cm1.cn1"},
      // Turns of 192 rows, one consumer of 192 and of 256.
      {"m=600 n=328 k=328 dtype=bf16 layout=NT pointwise=bias,relu",
       "sm90.bm192.bn104.bk64.st3.wg2.pp1.cm1.cn1"},
      {"m=250 n=2000 k=328 dtype=bf16 layout=TT lda=256",
       "sm90.bm128.bn192.bk64.st3.wg2.pp1.sw1.cm1.cn1"},
      {"m=400 n=264 k=200 dtype=fp16 layout=TN lda=400",
       "sm90.bm192.bn128.bk64.st3.wg1.cm1.cn1"},
      {"m=171 n=520 k=200 dtype=bf16 layout=NN batch=2",
       "sm90.bm88.bn256.bk64.st3.wg1.sw1.cm1.cn1"},
      // Consumers that share out columns, in slabs of either kind.
      {"m=400 n=264 k=200 dtype=bf16 layout=NT pointwise=bias,gelu_tanh",
       "sm90.bm192.bn208.bk64.st3.wg2.cm1.cn1.cs1"},
      {"m=700 n=264 k=136 dtype=bf16 layout=NN",
       "sm90.bm320.bn128.bk64.st3.wg2.cm1.cn1.cs1"},
      {"m=151 n=800 k=136 dtype=fp16 layout=NT",
       "sm90.bm80.bn384.bk64.st3.wg2.sw1.cm1.cn1.cs1"},
      {"m=151 n=800 k=136 dtype=bf16 layout=TN lda=152 pointwise=residual",
       "sm90.bm128.bn192.bk64.st3.wg2.sw1.cm1.cn1.cs1"},
      {"m=800 n=520 k=136 dtype=bf16 layout=NT",
       "sm90.bm384.bn96.bk64.st3.wg2.cm1.cn2.cs1"},
      {"m=300 n=333 k=136 dtype=bf16 layout=NT batch=2",
       "sm90.bm192.bn144.bk64.st3.wg3.cm1.cn1.cs1"},
      // One staging buffer, with results that TMA stores and that threads do.
      {"m=600 n=328 k=328 dtype=bf16 layout=NT pointwise=bias",
       "sm90.bm128.bn152.bk64.st5.wg2.pp1.cm1.cn1.sg1"},
      {"m=203 n=333 k=200 dtype=bf16 layout=NT",
       "sm90.bm152.bn128.bk64.st5.wg2.sw1.cm1.cn1.sg1"},
      {"m=400 n=400 k=1000 dtype=bf16 layout=NT",
       "sm90.bm128.bn128.bk64.st4.wg2.cm1.cn1.sk3.sg1"},
      // Staging where the ring was: fewer steps than stages, and more; a tile
      // for nearly each SM; results that threads store.
      {"m=203 n=328 k=136 dtype=bf16 layout=NT pointwise=bias,silu",
       "sm90.bm152.bn128.bk64.st5.wg2.sw1.cm1.cn1.sg2"},
      {"m=500 n=392 k=1000 dtype=bf16 layout=NT batch=2",
       "sm90.bm64.bn56.bk64.st4.wg1.cm1.cn1.sg2"},
      {"m=777 n=1032 k=328 dtype=fp16 out=fp32 layout=NT",
       "sm90.bm184.bn192.bk64.st4.wg3.sw1.cm1.cn1.sg2"},
      {"m=203 n=333 k=328 dtype=bf16 layout=NN ldb=336",
       "sm90.bm192.bn128.bk64.st4.wg2.cm1.cn1.cs1.sg2"},
      // tf32: along k; rows from registers, of one consumer, of several, of
      // turns, splits and clusters, with each kind of epilogue.
      {"m=200 n=328 k=200 dtype=fp32 compute=tf32 layout=NT pointwise=bias",
       "sm90.bm128.bn136.bk32.st3.wg2.cm1.cn1"},
      {"m=77 n=328 k=1000 dtype=fp32 compute=tf32 layout=NT beta=1",
       "sm90.bm40.bn64.bk64.st4.wg1.sw1.cm1.cn1.sk5"},
      {"m=260 n=520 k=136 dtype=fp32 compute=tf32 layout=TT",
       "sm90.bm128.bn256.bk32.st4.wg2.cm1.cn1"},
      {"m=260 n=520 k=1000 dtype=fp32 compute=tf32 layout=TT "
       "pointwise=bias,silu,residual",
       "sm90.bm128.bn112.bk32.st4.wg2.pp1.cm2.cn1"},
      {"m=264 n=333 k=200 dtype=fp32 compute=tf32 layout=TT beta=-0.75",
       "sm90.bm64.bn80.bk64.st3.wg1.cm1.cn1"},
      {"m=203 n=328 k=1000 dtype=fp32 compute=tf32 layout=NN "
       "pointwise=bias,residual",
       "sm90.bm104.bn128.bk32.st4.wg2.sw1.cm1.cn1"},
      {"m=131 n=332 k=1000 dtype=fp32 compute=tf32 layout=NN batch=2",
       "sm90.bm40.bn192.bk32.st4.wg3.sw1.cm1.cn1.sk3"},
      {"m=400 n=264 k=200 dtype=fp32 compute=tf32 layout=TT",
       "sm90.bm192.bn160.bk32.st3.wg2.cm1.cn1.cs1.sg2"},
      // Bytes: promoted in one part and in several, of units, turns, splits and
      // clusters, with each kind of scales, and not promoted.
      {"m=200 n=328 k=1040 dtype=e4m3 layout=NT scale_a=row scale_b=row",
       "sm90.bm128.bn128.bk128.st3.wg2.cm1.cn1"},
      {"m=300 n=536 k=1040 dtype=e4m3 layout=NT scale_a=1x128 "
       "scale_b=128x128 scale_order_a=rows",
       "sm90.bm128.bn256.bk128.st3.wg2.cm1.cn1"},
      {"m=600 n=328 k=528 dtype=e4m3 b=e5m2 layout=NT scale_a=1x128 "
       "scale_b=128x128 ldsa=9 pointwise=bias,silu",
       "sm90.bm256.bn128.bk128.st3.wg2.cm1.cn1"},
      {"m=400 n=400 k=2064 dtype=e4m3 out=fp32 layout=NT scale_a=1x128 "
       "scale_b=128x128",
       "sm90.bm192.bn96.bk128.st4.wg3.cm1.cn1"},
      {"m=400 n=520 k=528 dtype=e5m2 b=e4m3 layout=NT scale_a=tensor "
       "scale_b=row beta=1",
       "sm90.bm128.bn128.bk128.st3.wg2.pp1.cm1.cn2"},
      {"m=77 n=328 k=4112 dtype=e4m3 layout=NT scale_a=1x128 scale_b=128x128",
       "sm90.bm40.bn64.bk256.st4.wg1.sw1.cm1.cn1.sk5"},
      {"m=17 n=328 k=4112 dtype=e4m3 layout=NT batch=2 scale_a=1x128 "
       "scale_b=128x128 scale_order_a=rows",
       "sm90.bm24.bn64.bk256.st4.wg1.sw1.cm1.cn1"},
      {"m=300 n=408 k=1040 dtype=e4m3 layout=NT compute=fast_fp8 scale_a=row "
       "pointwise=swiglu",
       "sm90.bm128.bn256.bk128.st3.wg2.cm1.cn1"},
      {"m=300 n=408 k=1040 dtype=int8 layout=NT scale_a=row scale_b=row "
       "pointwise=bias",
       "sm90.bm128.bn192.bk128.st3.wg2.cm1.cn1"},
      {"m=77 n=328 k=4112 dtype=int8 out=fp32 layout=NT scale_a=tensor",
       "sm90.bm48.bn64.bk256.st4.wg1.sw1.cm1.cn1.sk5"},
  };
  std::vector<Triple> triples;
  for (const Kind &kind : kKinds)
    triples.push_back(
        {&family, must(family.parseProblem(kind.problem)), kind.config.str()});
  return triples;
}

} // namespace

TEST_CASE("the kinds of sm90 that are tested are configs of their problems") {
  Registry registry = makeBuiltinRegistry();
  const KernelFamily &family = **registry.get("gemm");
  DeviceModel device = must(findDevice("h200-sxm"));
  for (const Triple &triple : kindsOfSm90(family)) {
    CAPTURE(triple.text());
    auto named = must(family.parseConfig(triple.config));
    auto rejection = named.tmpl->prune(triple.problem, named.config, device);
    CHECK((rejection ? rejection->text() : "fits") == "fits");
    // Nothing is copied ahead: TMA takes these operands as they are.
    Plan plan = named.tmpl->plan(triple.problem, named.config, device);
    CHECK(plan.kernels.size() == 1);
  }
}

TEST_SUITE("gpu") {

  TEST_CASE("campaign: random gemms of every template are right") {
    GpuTrials gpu(makeBuiltinRegistry());
    const KernelFamily &family = **gpu.registry.get("gemm");
    constexpr unsigned kSeed = 20240917;
    constexpr size_t kTriples = 600, kLeast = 500;
    constexpr int64_t kLargest = 640;
    GemmGenerator generator(family, gpu.device, kSeed, kLargest);
    std::vector<Triple> triples;
    // The generic kernels have few configs and are the least likely to be
    // wrong.
    std::vector<llvm::StringRef> special, generic;
    for (const auto &tmpl : family.templates())
      if (generator.draw(tmpl->name(), Evenly::Configs))
        (tmpl->isGeneric() ? generic : special).push_back(tmpl->name());
    for (size_t i = 0; i < kTriples; ++i) {
      const auto &names = i % 10 == 0 ? generic : special;
      // Half of them from rare classes as often as from large ones.
      triples.push_back(*generator.draw(
          names[(i % 10 == 0 ? i / 10 : i) % names.size()],
          i / names.size() % 2 ? Evenly::Classes : Evenly::Configs));
    }
    CHECK(checkAll(gpu, triples).size() >= kLeast);
  }

  TEST_CASE("ten thousand launches of each kind of kernel agree bit for bit") {
    GpuTrials gpu(makeBuiltinRegistry());
    const KernelFamily &family = **gpu.registry.get("gemm");
    // mma with and without splits, simt and naive are on every device.
    std::vector<Triple> triples =
        compileAll(gpu, productsOfEachKind(family, gpu.device));
    REQUIRE(triples.size() >= 4);
    constexpr int kLaunches = 10000;
    for (const Triple &triple : triples)
      checkRepeats(gpu, triple, kLaunches);
  }

  // Small enough to run under compute-sanitizer, as what follows.
  TEST_CASE("sample of every template: kinds of sm90") {
    GpuTrials gpu(makeBuiltinRegistry());
    if (gpu.device.computeCapability() != 90) {
      MESSAGE("SKIPPED: no device of compute capability 9.0");
      return;
    }
    std::vector<Triple> triples = kindsOfSm90(**gpu.registry.get("gemm"));
    CHECK(checkAll(gpu, triples).size() == triples.size());
  }

  TEST_CASE("sample of every template") {
    GpuTrials gpu(makeBuiltinRegistry());
    const KernelFamily &family = **gpu.registry.get("gemm");
    constexpr unsigned kSeed = 7;
    constexpr int kEach = 12;
    constexpr int64_t kLargest = 96;
    GemmGenerator generator(family, gpu.device, kSeed, kLargest);
    std::vector<Triple> triples;
    for (const auto &tmpl : family.templates())
      for (int i = 0; i < kEach; ++i) {
        auto drawn = generator.draw(tmpl->name(), Evenly::Configs);
        if (!drawn)
          break;
        triples.push_back(std::move(*drawn));
      }
    for (const Triple &triple : checkAll(gpu, triples))
      runWithoutRedZones(gpu, triple);
  }

  TEST_CASE("cold times are those of DRAM, and their intervals are narrow") {
    GpuTrials gpu(makeBuiltinRegistry());
    const KernelFamily &family = **gpu.registry.get("gemm");
    // 16 MiB of weights: they would stay in the L2 of a large GPU.
    Problem problem =
        must(family.parseProblem("m=8 n=4096 k=2048 dtype=bf16 layout=NT"));
    Space space = must(exploreSpace(family, problem, gpu.device));
    std::vector<std::string> configs;
    for (size_t i = 0; i < std::min<size_t>(4, space.ranked.size()); ++i)
      configs.push_back(space.ranked[i].config.text());
    TrialRequest request = gpu.request(family, problem, configs);
    request.options.validation = TrialValidation::MayWin;
    auto coldTimes = must(gpu.runner->run(request));
    request.options.mode = MeasurementMode::Hot;
    auto hotTimes = must(gpu.runner->run(request));
    auto best = [](const std::vector<TrialResult> &results) {
      return *std::min_element(results.begin(), results.end(),
                               [](const TrialResult &a, const TrialResult &b) {
                                 return a.medianNs < b.medianNs;
                               });
    };
    TrialResult cold = best(coldTimes), hot = best(hotTimes);
    MESSAGE(cold.config, ": cold ", cold.medianNs, " ns, hot ", hot.medianNs,
            " ns");
    CHECK(cold.validated);
    double floorNs =
        family.compulsoryBytes(problem) / gpu.device.dramPeakBytesPerNs();
    CHECK(cold.medianNs > floorNs);
    CHECK(cold.medianNs > hot.medianNs);
    CHECK(cold.ciLowNs <= cold.medianNs);
    CHECK(cold.ciHighNs >= cold.medianNs);
    CHECK(cold.ciHighNs - cold.ciLowNs < 0.2 * cold.medianNs);
  }

} // TEST_SUITE
