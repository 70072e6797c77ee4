// The kernels that serve all sizes of a signature, by the estimate.
#include "Tune/PoolCover.h"

#include "Kernel/Space.h"
#include "Store/PoolStore.h"
#include "Tune/RangeTesting.h"

#include <llvm/ADT/STLExtras.h>

#include <set>

using namespace kiln;
using namespace kiln::testing;

namespace {

PoolSubject subjectOf(llvm::StringRef text) {
  auto [name, fields] = text.split(' ');
  auto subject = PoolSubject::parse(*builtinFamilies().find(name), fields);
  if (!subject)
    FAIL(summarize(subject.takeError()).message);
  return std::move(*subject);
}

/// Some hundred problems.
PoolOptions fewSamples() {
  PoolOptions options;
  options.layers = options.mostLayers = 8;
  options.judges = 4;
  options.valuesOfLayer = 4;
  options.threads = 2;
  return options;
}

PoolCover cover(const PoolSubject &subject, const PoolOptions &options) {
  auto made = coverSignature(subject, h200(), options);
  if (!made)
    FAIL(summarize(made.takeError()).message);
  return std::move(*made);
}

std::vector<std::string> textsOf(const PoolCover &pool) {
  std::vector<std::string> texts;
  for (const PoolKernel &kernel : pool.kernels)
    for (const Values &config : kernel.configs)
      texts.push_back(config.text());
  return texts;
}

} // namespace

TEST_CASE("a pool has a generic kernel, units of all plans and a curve") {
  for (const char *text : {"gemm dtype=bf16 layout=NT", "rmsnorm dtype=bf16"}) {
    CAPTURE(text);
    const PoolCover pool = cover(subjectOf(text), fewSamples());
    REQUIRE(pool.kernels.size() > 1);
    CHECK(pool.kernels.front().tmpl->isGeneric());
    std::set<std::string> kernels;
    for (const PoolKernel &kernel : pool.kernels) {
      CHECK(!kernel.units.empty());
      for (const Values &config : kernel.configs)
        CHECK(config.compiledText() == kernel.configs.front().compiledText());
      CHECK(kernels.insert(kernel.configs.front().compiledText()).second);
    }
    REQUIRE(!pool.curve.empty());
    CHECK(pool.curve.back().kernels == pool.kernels.size());
    for (size_t i = 1; i < pool.curve.size(); ++i) {
      CHECK(pool.curve[i].kernels > pool.curve[i - 1].kernels);
      CHECK(pool.curve[i].mean <= pool.curve[i - 1].mean);
      CHECK(pool.curve[i].most <= pool.curve[i - 1].most);
    }
    CHECK(pool.judged > 8);
  }
}

TEST_CASE("a pool is the same whatever the threads") {
  const PoolSubject subject = subjectOf("gemm dtype=bf16 layout=NT");
  PoolOptions options = fewSamples();
  options.layers = 3;
  const std::vector<std::string> texts = textsOf(cover(subject, options));
  options.threads = 1;
  CHECK(textsOf(cover(subject, options)) == texts);
  options.seed = 2;
  CHECK(textsOf(cover(subject, options)) != texts);
}

TEST_CASE("more kernels are never worse, and few are told not to be enough") {
  const PoolSubject subject = subjectOf("gemm dtype=bf16 layout=NT");
  PoolOptions options = fewSamples();
  options.maxKernels = 4;
  const PoolCover few = cover(subject, options);
  CHECK(few.kernels.size() == 4);
  CHECK_FALSE(few.reachesGoal);
  options.maxKernels = 40;
  CHECK(cover(subject, options).curve.back().mean < few.curve.back().mean);
  options.goal = {1e9, 1e9, 1e9}; // the generic one will do
  const PoolCover one = cover(subject, options);
  CHECK(one.kernels.size() == 1);
  CHECK(one.reachesGoal);
}

TEST_CASE("a pool of a small family reaches the goal") {
  PoolOptions options = fewSamples();
  options.layers = 32;
  options.valuesOfLayer = 8;
  const PoolCover pool =
      cover(subjectOf("attention_merge d=128 dtype=bf16"), options);
  CHECK(pool.reachesGoal);
  CHECK(pool.kernels.size() < 64);
}

TEST_CASE("kernels of a pool are judged as problems run them") {
  // Judges are problems with any number of splits; a kernel has one config.
  PoolOptions options = fewSamples();
  options.layers = options.mostLayers = 24;
  options.judgeSets = 1;
  const PoolSubject subject =
      subjectOf("attention dtype=bf16 d=128 mask=causal");
  const PoolCover pool = cover(subject, options);
  KnownPool known;
  for (const PoolKernel &kernel : pool.kernels)
    known.kernels.push_back({kernel.tmpl, kernel.configs});
  PoolSubject::Random random(~options.seed);
  size_t judged = 0;
  double mean = 0;
  for (size_t layer = 0; layer < options.judges; ++layer) {
    auto record = subject.drawLayer(random);
    REQUIRE(record);
    for (size_t i = 0; i < options.valuesOfLayer; ++i) {
      auto problem =
          subject.drawAt(*record, 2 * (16 * i + layer) + 1, 128, random);
      if (!problem)
        continue;
      auto space = exploreSpace(subject.family(), *problem, h200());
      REQUIRE(static_cast<bool>(space));
      double bestNs = space->ranked.front().estimate.totalNs;
      for (const Candidate &candidate : space->ranked)
        bestNs = std::min(bestNs, candidate.estimate.totalNs);
      const auto picks = known.rank(*problem, h200());
      REQUIRE(!picks.empty());
      mean += std::max(0.0, picks.front().predictedNs / bestNs - 1);
      ++judged;
    }
  }
  REQUIRE(judged == pool.judged);
  CHECK(mean / double(judged) ==
        doctest::Approx(pool.curve.back().mean).epsilon(0.01));
}

TEST_CASE("further layers bring what is not served") {
  PoolOptions options = fewSamples();
  options.goal = {0, 0, 0}; // never reached
  const PoolSubject subject =
      subjectOf("attention dtype=bf16 d=128 mask=causal");
  const PoolCover few = cover(subject, options);
  options.mostLayers = 4 * options.layers;
  const PoolCover more = cover(subject, options);
  CHECK(more.samples > few.samples);
  CHECK(more.samples < 4 * few.samples); // most are served
  CHECK(more.judged == few.judged);
  CHECK(more.curve.back().mean < few.curve.back().mean);
}

TEST_CASE("a cancelled cover ends") {
  std::atomic<bool> cancel{true};
  PoolOptions options = fewSamples();
  options.cancel = &cancel;
  auto made =
      coverSignature(subjectOf("gemm dtype=bf16 layout=NT"), h200(), options);
  CHECK(summarize(made.takeError()).code == ErrorCode::Cancelled);
}

TEST_CASE("a pool offers one config of each kernel that runs, best first") {
  const PoolCover made =
      cover(subjectOf("gemm dtype=bf16 layout=NT"), fewSamples());
  KnownPool pool;
  for (const PoolKernel &kernel : made.kernels)
    pool.kernels.push_back({kernel.tmpl, kernel.configs});
  auto named = builtinFamilies().parseProblem(
      "gemm m=1590 n=5376 k=21504 dtype=bf16 layout=NT");
  REQUIRE(static_cast<bool>(named));
  const auto picks = pool.rank(named->problem, h200());
  REQUIRE(!picks.empty());
  CHECK(picks.size() <= pool.kernels.size());
  for (size_t i = 0; i < picks.size(); ++i) {
    CHECK_FALSE(picks[i].tmpl->prune(named->problem, picks[i].config, h200()));
    CHECK((i == 0 || picks[i - 1].predictedNs <= picks[i].predictedNs));
  }
}
