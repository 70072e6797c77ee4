// Random grouped GEMMs through the trials that a tuner runs: for all sizes and
// places of rows, results are right and nothing else is written, on a real GPU.
#include "Families/Families.h"
#include "Families/Gemm/GemmRounds.h"
#include "Trial/Campaign.h"

using namespace kiln;
using namespace kiln::fake;

namespace {

/// The kinds of weights.
enum class Weights { Any, Packed, Fp32 };

/// Draws problems with groups; the same seed draws the same ones.
class GroupedTexts {
public:
  GroupedTexts(unsigned seed, int64_t largest)
      : draws(seed), largest(largest) {}

  std::string text(Weights weights) {
    const bool isPacked = weights == Weights::Packed,
               isFp32 = weights == Weights::Fp32;
    const int64_t n = 2 * (1 + draws.below(largest / 2));
    const int64_t k = draws.chance(70) ? 16 * (1 + draws.below(largest / 16))
                                       : 1 + draws.below(largest);
    std::string text =
        fmt::format("m={} n={} k={} batch={}", 1 + draws.below(largest), n, k,
                    1 + draws.below(draws.chance(20) ? 200 : 12));
    const bool isByte = weights == Weights::Any && draws.chance(35);
    text += isPacked ? packed()
            : isByte
                ? bytes()
                : fmt::format(" dtype={} layout={}",
                              isFp32 ? "fp32" : draws.pick({"bf16", "fp16"}),
                              draws.pick({"NT", "NT", "NN"}));
    if (!isFp32 && draws.chance(25))
      text += " out=fp32";
    text += draws.padded("lda", k) + draws.alignment(isByte   ? 1
                                                     : isFp32 ? 4
                                                              : 2);
    if (draws.chance(30))
      return text + fmt::format(" groups=masked room={}", 2 * largest) +
             chain(true);
    text += " groups=ends";
    if (draws.chance(30))
      text += fmt::format(" group_align={}", draws.pick({8, 64, 128}));
    if (draws.chance(30))
      text += fmt::format(" gather=1 divisor={}", 1 + draws.below(4));
    const bool scatters = draws.chance(40);
    text += scatters ? " scatter=1" : "";
    if (draws.chance(30))
      text += " row_weights=1";
    return text + chain(!scatters);
  }

private:
  std::string packed() {
    std::string text = fmt::format(" dtype={} layout=NT order_b=k64r16",
                                   draws.pick({"bf16", "fp16"}));
    if (draws.chance(25))
      return text + " b=e2m1 scale_b=1x32";
    return text + fmt::format(" b={} scale_b={}",
                              draws.pick({"int4", "int4", "int8", "e4m3"}),
                              draws.pick({"1x32", "1x64", "1x128", "row"}));
  }

  std::string bytes() {
    const bool isInteger = draws.chance(25);
    std::string text =
        fmt::format(" dtype={} layout={}", isInteger ? "int8" : "e4m3",
                    draws.pick({"NT", "NT", "NN"}));
    if (!isInteger && draws.chance(60))
      return text + " scale_a=1x128 scale_b=128x128" +
             (draws.chance(50) ? " scale_order_a=rows" : "");
    return text + fmt::format(" scale_a={} scale_b={}",
                              draws.pick({"none", "tensor", "row"}),
                              draws.pick({"none", "tensor", "row"}));
  }

  std::string chain(bool takesResidual) {
    if (draws.chance(25))
      return " pointwise=swiglu";
    if (draws.chance(20))
      return " pointwise=bias,silu";
    return takesResidual && draws.chance(20) ? " pointwise=residual" : "";
  }

  Draws draws;
  int64_t largest;
};

/// \p count of the template \p tmpl.
std::vector<Triple> drawGroups(GpuTrials &gpu, llvm::StringRef tmpl,
                               unsigned seed, int count, int64_t largest) {
  const KernelFamily &family = **gpu.registry.get("gemm");
  GroupedTexts texts(seed, largest);
  Draws draws(seed + 1);
  std::vector<Triple> triples;
  for (int i = 0; i < count; ++i)
    if (auto drawn = draws.tripleIfAny(
            family, tmpl, gpu.device, i % 2 ? Evenly::Classes : Evenly::Configs,
            [&] {
              return texts.text(tmpl.starts_with("packed") ||
                                        (tmpl == "naive" && i % 4 == 0)
                                    ? Weights::Packed
                                : tmpl == "ffma" ? Weights::Fp32
                                                 : Weights::Any);
            }))
      triples.push_back(std::move(*drawn));
  return triples;
}

/// Leaves out the few drawn configs that ptxas refuses.
void checkMost(llvm::StringRef tmpl) {
  GpuTrials gpu(makeBuiltinRegistry());
  const std::vector<Triple> triples =
      drawGroups(gpu, tmpl, /*seed=*/5081, /*count=*/90, /*largest=*/600);
  if (triples.empty()) {
    MESSAGE("SKIPPED: ", tmpl, " is not for this device");
    return;
  }
  CHECK(checkAll(gpu, triples).size() >= triples.size() * 9 / 10);
}

/// Small enough to run under compute-sanitizer.
void checkSample(llvm::StringRef tmpl) {
  GpuTrials gpu(makeBuiltinRegistry());
  const std::vector<Triple> triples =
      drawGroups(gpu, tmpl, /*seed=*/11, /*count=*/10, /*largest=*/150);
  for (const Triple &triple : checkAll(gpu, triples))
    runWithoutRedZones(gpu, triple);
}

} // namespace

TEST_SUITE("gpu") {

  TEST_CASE("campaign: random groups of rows are right: sm90") {
    checkMost("sm90");
  }

  TEST_CASE("campaign: random groups of rows are right: mma") {
    checkMost("mma");
  }

  TEST_CASE("campaign: random groups of rows are right: packed90") {
    checkMost("packed90");
  }

  TEST_CASE("campaign: random groups of rows are right: packed") {
    checkMost("packed");
  }

  TEST_CASE("campaign: random groups of rows are right: ffma") {
    checkMost("ffma");
  }

  // Rows that are gathered or aligned have many rounds then.
  TEST_CASE("campaign: random groups of rows are right: rounds") {
    RoundsOfBytes small(int64_t(64) << 10);
    checkMost("sm90");
    checkMost("mma");
    checkMost("packed");
  }

  TEST_CASE("campaign: random groups of rows are right: naive") {
    checkMost("naive");
  }

  TEST_CASE("sample of groups of rows: sm90") { checkSample("sm90"); }

  TEST_CASE("sample of groups of rows: mma") { checkSample("mma"); }

  TEST_CASE("sample of groups of rows: packed90") { checkSample("packed90"); }

  TEST_CASE("sample of groups of rows: packed") { checkSample("packed"); }

  TEST_CASE("sample of groups of rows: ffma") { checkSample("ffma"); }

  TEST_CASE("sample of groups of rows: naive") { checkSample("naive"); }
}
