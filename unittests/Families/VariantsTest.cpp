// A kernel that was found for another problem runs with the run-time knobs for
// the current problem.
#include "Device/Catalog.h"
#include "Families/Families.h"
#include "Kernel/Space.h"
#include "Support/Error.h"

#include <doctest/doctest.h>

#include <llvm/ADT/STLExtras.h>

using namespace kiln;

namespace {

constexpr const char *kProblems[] = {
    "gemm m=1 n=6144 k=4096 dtype=bf16 layout=NT",
    "gemm m=141 n=6144 k=10752 dtype=bf16 layout=NT",
    "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NT",
    "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=TN",
    "gemm m=4096 n=4100 k=4100 dtype=bf16 layout=NT",
    "gemm m=256 n=256 k=16384 dtype=bf16 layout=NT",
    "gemm m=2048 n=2048 k=2048 batch=8 dtype=fp16 layout=NN",
    "gemm m=512 n=2048 k=2048 dtype=fp32 layout=NT compute=tf32",
    "rmsnorm rows=512 cols=4096 dtype=bf16",
    "attention sq=1 sk=4096 heads=32 kvheads=8 d=128 batch=4 dtype=bf16",
    "attention sq=2048 sk=2048 heads=32 kvheads=8 d=128 dtype=bf16",
    "attention sq=27 sk=28538 heads=42 kvheads=6 d=128 batch=3 dtype=bf16 "
    "mask=causal",
    "attention sq=8 sk=57287 heads=65 kvheads=5 d=128 batch=6 dtype=bf16 "
    "mask=causal kvlen=used pages=table page=224",
    "attention sq=5 sk=3000 heads=8 kvheads=2 d=64 batch=9 dtype=bf16 "
    "qlen=packed kvlen=packed",
    "attention sq=1 sk=9000 heads=64 kvheads=1 d=576 dv=512 latent=1 batch=7 "
    "dtype=bf16",
};

} // namespace

TEST_CASE("each config of a space is a variant of its kernel there") {
  const Registry families = makeBuiltinRegistry();
  const DeviceModel device = llvm::cantFail(findDevice("h200-sxm"));
  for (const char *text : kProblems) {
    CAPTURE(text);
    auto named = families.parseProblem(text);
    if (!named) {
      FAIL_CHECK(summarize(named.takeError()).message);
      continue;
    }
    auto space = exploreSpace(*named->family, named->problem, device);
    REQUIRE(space);
    for (const Candidate &candidate : space->ranked) {
      const auto variants =
          candidate.tmpl->variantsAt(named->problem, candidate.config, device);
      if (llvm::is_contained(variants, candidate.config))
        continue;
      FAIL_CHECK(candidate.config.text());
      break;
    }
  }
}

TEST_CASE("variants of a kernel differ in run-time knobs alone") {
  const Registry families = makeBuiltinRegistry();
  const DeviceModel device = llvm::cantFail(findDevice("h200-sxm"));
  auto large = llvm::cantFail(
      families.parseProblem("gemm m=8192 n=8192 k=4096 dtype=bf16 layout=NT"));
  auto small = llvm::cantFail(
      families.parseProblem("gemm m=17 n=8192 k=4096 dtype=bf16 layout=NT"));
  auto space =
      llvm::cantFail(exploreSpace(*large.family, large.problem, device));
  for (const Candidate &candidate : space.ranked)
    for (const Values &variant :
         candidate.tmpl->variantsAt(small.problem, candidate.config, device))
      CHECK(variant.compiledKnobs() == candidate.config.compiledKnobs());
}

TEST_CASE("a kernel runs with the splits that its problem asks for") {
  const Registry families = makeBuiltinRegistry();
  const DeviceModel device = llvm::cantFail(findDevice("h200-sxm"));
  // Found for a long prefill, which has tiles for all SMs.
  auto known = llvm::cantFail(
      families.find("attention")->parseConfig("sm90.wg3.bn80.st3.or1.pk7"));
  auto named = llvm::cantFail(families.parseProblem(
      "attention sq=27 sk=28538 heads=42 kvheads=6 d=128 batch=3 dtype=bf16 "
      "mask=causal"));
  auto space =
      llvm::cantFail(exploreSpace(*named.family, named.problem, device));
  double leastNs = 0;
  for (const Candidate &candidate : space.ranked)
    if (candidate.tmpl == known.tmpl &&
        candidate.config.compiledKnobs() == known.config.compiledKnobs() &&
        (leastNs == 0 || candidate.estimate.totalNs < leastNs))
      leastNs = candidate.estimate.totalNs;
  REQUIRE(leastNs > 0);
  auto fastest = known.tmpl->fastestAt({}, named.problem, known.config, device);
  REQUIRE(fastest);
  CHECK(fastest->ns == leastNs);
  CHECK(fastest->config.get("sp") > 1);
  const double ownNs =
      known.tmpl->estimate(named.problem, known.config, device).totalNs;
  CHECK(ownNs > 1.5 * fastest->ns);
}

TEST_CASE("no config of a space is faster than its kernel's fastest variant") {
  const Registry families = makeBuiltinRegistry();
  const DeviceModel device = llvm::cantFail(findDevice("h200-sxm"));
  for (const char *text : kProblems) {
    CAPTURE(text);
    auto named = llvm::cantFail(families.parseProblem(text));
    auto space =
        llvm::cantFail(exploreSpace(*named.family, named.problem, device));
    for (const Candidate &candidate : space.ranked) {
      auto fastest = candidate.tmpl->fastestAt({}, named.problem,
                                               candidate.config, device);
      REQUIRE(fastest);
      CHECK(fastest->ns <= candidate.estimate.totalNs);
      CHECK(fastest->config.compiledKnobs() ==
            candidate.config.compiledKnobs());
    }
  }
}
