// Random problems, templates and configs of the GEMM family through the trials
// that a tuner runs: all of them must be right, on a real GPU.
#include "Driver/DeviceMemory.h"
#include "Driver/Stream.h"
#include "Families/Families.h"
#include "Kernel/Space.h"
#include "Tune/GpuTrials.h"
#include "Tune/LoadedPlan.h"
#include "Tune/Sampling.h"

#include <random>

using namespace kiln;
using namespace kiln::fake;

namespace {

/// One thing to try: the text of both is all that it takes to do it again.
struct Triple {
  Problem problem;
  std::string config;
  std::string text() const { return problem.text() + " | " + config; }
};

/// Draws triples; the same seed draws the same ones on the same device.
class Generator {
public:
  Generator(const KernelFamily &family, const DeviceModel &device,
            unsigned seed, int64_t largest)
      : family(family), device(device), random(seed), largest(largest) {}

  /// A problem that the template called \p tmpl takes, and one of its configs.
  Triple draw(llvm::StringRef tmpl) {
    for (;;) {
      std::string text = problemText();
      auto problem = family.parseProblem(text);
      if (!problem) {
        llvm::consumeError(problem.takeError());
        continue;
      }
      std::string config = configOf(*problem, tmpl);
      if (!config.empty())
        return {std::move(*problem), std::move(config)};
    }
  }

private:
  int64_t below(int64_t end) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(end));
  }
  bool chance(int percent) { return below(100) < percent; }
  template <class T> T pick(std::initializer_list<T> choices) {
    return choices.begin()[below(static_cast<int64_t>(choices.size()))];
  }

  /// Ragged, or a multiple of what tiles are multiples of.
  int64_t extent() {
    if (chance(15))
      return 1 + below(8);
    if (chance(40))
      return 16 * (1 + below(largest / 16));
    return 1 + below(largest);
  }

  std::string problemText() {
    int64_t m = extent(), n = extent();
    int64_t k = chance(5) ? 0 : extent() * (chance(20) ? 4 : 1);
    std::string type = pick({"bf16", "fp16", "fp32"});
    std::string layout = pick({"NN", "NT", "TN", "TT"});
    std::string text =
        fmt::format("m={} n={} k={} dtype={} layout={}", m, n, k, type, layout);
    if (type == "fp32" && chance(60))
      text += " compute=tf32";
    if (type != "fp32" && chance(25))
      text += " out=fp32";
    if (chance(30))
      text += fmt::format(" batch={}", 1 + below(4));
    if (chance(25))
      text += fmt::format(" alpha={}", pick({"0.5", "-1.25", "0"}));
    if (chance(30))
      text += fmt::format(" beta={}", pick({"1", "-0.75"}));
    int element = type == "fp32" ? 4 : 2;
    int64_t align = std::max<int64_t>(pick({16, 16, 16, 8, 4, 2}), element);
    if (align != 16)
      text += fmt::format(" align={}", align);
    bool transposedA = layout[0] == 'T', transposedB = layout[1] == 'T';
    text += padded("lda", transposedA ? m : k) +
            padded("ldb", transposedB ? k : n) + padded("ldc", n) +
            padded("ldd", n);
    return text + chain(n);
  }

  /// A leading dimension beyond the row, often one that breaks vectors.
  std::string padded(const char *key, int64_t columns) {
    if (!chance(25))
      return "";
    int64_t padding = chance(50) ? 8 * (1 + below(4)) : 1 + below(9);
    return fmt::format(" {}={}", key, columns + padding);
  }

  std::string chain(int64_t n) {
    std::string text;
    auto add = [&](const char *op, int percent) {
      if (chance(percent))
        text += (text.empty() ? "" : ",") + std::string(op);
    };
    add("bias", 30);
    add(pick({"relu", "gelu_erf", "gelu_tanh", "silu"}), 30);
    add("residual", 20);
    if (text.empty())
      return "";
    bool hasResidual = text.find("residual") != std::string::npos;
    return " pointwise=" + text + (hasResidual ? padded("ldr", n) : "");
  }

  std::string configOf(const Problem &problem, llvm::StringRef tmpl) {
    auto space = exploreSpace(family, problem, device);
    if (!space) {
      llvm::consumeError(space.takeError());
      return "";
    }
    std::vector<const Candidate *> candidates;
    for (const Candidate &candidate : space->ranked)
      if (candidate.tmpl->name() == tmpl)
        candidates.push_back(&candidate);
    if (candidates.empty())
      return "";
    return candidates[below(static_cast<int64_t>(candidates.size()))]
        ->config.text();
  }

  const KernelFamily &family;
  const DeviceModel &device;
  std::mt19937_64 random;
  int64_t largest;
};

/// Compiles the kernels and references of all \p triples in parallel.
void compileAll(GpuTrials &gpu, const KernelFamily &family,
                const std::vector<Triple> &triples) {
  std::vector<TranslationUnit> units;
  std::vector<std::string> texts;
  for (const Triple &triple : triples) {
    auto named = must(family.parseConfig(triple.config));
    Plan plan = named.tmpl->plan(triple.problem, named.config, gpu.device);
    for (const TranslationUnit &unit : plan.kernels) {
      units.push_back(unit);
      texts.push_back(triple.text());
    }
    units.push_back(
        family.reference(triple.problem, gpu.device)->translationUnit());
    texts.push_back("the reference of " + triple.text());
  }
  std::vector<ArtifactOutcome> outcomes = gpu.artifacts->compileAll(units);
  for (size_t i = 0; i < outcomes.size(); ++i) {
    INFO(texts[i]);
    INFO(outcomes[i].compileLog);
    if (!outcomes[i])
      FAIL(outcomes[i].error.message);
  }
}

/// Validates all \p triples; the message of a failure does it again.
void validateAll(GpuTrials &gpu, const KernelFamily &family,
                 const std::vector<Triple> &triples) {
  for (const Triple &triple : triples) {
    INFO(triple.text());
    TrialRequest request = gpu.request(family, triple.problem, {triple.config});
    request.options.measure = false;
    auto results = gpu.runner->run(request);
    if (!results)
      FAIL(summarize(results.takeError()).message);
    const TrialResult &result = results->front();
    INFO(result.message);
    CHECK(nameOf(result.status).str() == "ok");
    CHECK(result.validated);
    if (!gpu.runner->isAlive())
      FAIL("the context is gone");
  }
}

/// Runs a triple over memory that ends where its operands end, so that a
/// sanitizer sees a read beyond them. What it computes is not looked at.
void runWithoutRedZones(GpuTrials &gpu, const KernelFamily &family,
                        const Triple &triple) {
  INFO(triple.text());
  auto named = must(family.parseConfig(triple.config));
  KernelLoader loader(*gpu.driver);
  auto plan = must(obtainPlan(
      *gpu.artifacts, loader,
      named.tmpl->plan(triple.problem, named.config, gpu.device),
      static_cast<int32_t>(gpu.device.smCount), KernelLifetime::Users));
  Stream stream = must(Stream::create(*gpu.driver));
  std::vector<DeviceMemory> memory;
  auto allocate = [&](uint64_t bytes) {
    memory.push_back(must(DeviceMemory::allocate(*gpu.driver, bytes)));
    must(fillAsync(*gpu.driver, memory.back().address(), 0, bytes,
                   stream.handle()));
    return memory.back().address();
  };
  Arguments arguments = family.defaultArguments(triple.problem);
  OperandTable table = family.operands(triple.problem);
  for (size_t i = 0; i < table.operands.size(); ++i) {
    const OperandSpec &operand = table.operands[i];
    auto bytes = static_cast<uint64_t>(operand.bytes());
    auto offset = static_cast<uint64_t>(operand.misalignment);
    if (bytes == 0)
      continue;
    constexpr uint64_t kVector = 16; // what is read to its end
    uint64_t end = (offset + bytes + kVector - 1) / kVector * kVector;
    arguments.operands[i].address = allocate(end) + offset;
  }
  Workspace workspace;
  if (uint64_t bytes = plan->workspace().bytes)
    workspace = {allocate(bytes), bytes, true};
  must(plan->launch(arguments, workspace, stream.handle()));
  must(stream.synchronize());
}

} // namespace

TEST_SUITE("gpu") {

  TEST_CASE("campaign: random gemms of every template are right") {
    GpuTrials gpu(makeBuiltinRegistry());
    const KernelFamily &family = **gpu.registry.get("gemm");
    constexpr unsigned kSeed = 20240917;
    constexpr size_t kTriples = 300;
    constexpr int64_t kLargest = 640;
    Generator generator(family, gpu.device, kSeed, kLargest);
    std::vector<Triple> triples;
    // The generic kernel has few configs and is the least likely to be wrong.
    std::vector<llvm::StringRef> special, generic;
    for (const auto &tmpl : family.templates())
      (tmpl->isGeneric() ? generic : special).push_back(tmpl->name());
    for (size_t i = 0; i < kTriples; ++i) {
      const auto &names = i % 10 == 0 ? generic : special;
      triples.push_back(generator.draw(names[i % names.size()]));
    }
    compileAll(gpu, family, triples);
    validateAll(gpu, family, triples);
  }

  // Small enough to run under compute-sanitizer.
  TEST_CASE("sample of every template") {
    GpuTrials gpu(makeBuiltinRegistry());
    const KernelFamily &family = **gpu.registry.get("gemm");
    constexpr unsigned kSeed = 7;
    constexpr int kEach = 12;
    constexpr int64_t kLargest = 96;
    Generator generator(family, gpu.device, kSeed, kLargest);
    std::vector<Triple> triples;
    for (const auto &tmpl : family.templates())
      for (int i = 0; i < kEach; ++i)
        triples.push_back(generator.draw(tmpl->name()));
    compileAll(gpu, family, triples);
    validateAll(gpu, family, triples);
    for (const Triple &triple : triples)
      runWithoutRedZones(gpu, family, triple);
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
