//===- Campaign.cpp -------------------------------------------------------===//
#include "Tune/Campaign.h"

#include "Driver/DeviceMemory.h"
#include "Driver/Stream.h"
#include "Tune/LoadedPlan.h"

#include <algorithm>
#include <map>
#include <set>

namespace kiln::fake {

std::string Triple::text() const {
  return problem.text() + " | " + config +
         (data == TrialData::Usual ? " | usual data" : " | outliers");
}

//===----------------------------------------------------------------------===//
// Drawing
//===----------------------------------------------------------------------===//

std::string Draws::padded(const char *key, int64_t columns) {
  if (!chance(25))
    return "";
  int64_t padding = chance(50) ? 8 * (1 + below(4)) : 1 + below(9);
  return fmt::format(" {}={}", key, columns + padding);
}

std::string Draws::alignment(int64_t least) {
  int64_t align = std::max<int64_t>(pick({16, 16, 16, 8, 4, 2}), least);
  return align == 16 ? "" : fmt::format(" align={}", align);
}

/// The candidates of the template called \p tmpl, best first.
static std::vector<Candidate> candidatesOf(const KernelFamily &family,
                                           const Problem &problem,
                                           llvm::StringRef tmpl,
                                           const DeviceModel &device) {
  auto space = exploreSpace(family, problem, device);
  if (!space) {
    llvm::consumeError(space.takeError());
    return {};
  }
  std::vector<Candidate> candidates;
  for (Candidate &candidate : space->ranked)
    if (candidate.tmpl->name() == tmpl)
      candidates.push_back(std::move(candidate));
  return candidates;
}

Triple Draws::triple(const KernelFamily &family, llvm::StringRef tmpl,
                     const DeviceModel &device, Evenly evenly,
                     llvm::function_ref<std::string()> text) {
  for (;;) {
    auto problem = family.parseProblem(text());
    if (!problem) {
      llvm::consumeError(problem.takeError());
      continue;
    }
    std::map<uint64_t, std::vector<Candidate>> classes;
    for (Candidate &candidate : candidatesOf(family, *problem, tmpl, device))
      classes[evenly == Evenly::Classes ? candidate.candidateClass.key : 0]
          .push_back(std::move(candidate));
    if (classes.empty())
      continue;
    auto chosen = classes.begin();
    if (evenly == Evenly::Classes)
      std::advance(chosen, below(static_cast<int64_t>(classes.size())));
    const std::vector<Candidate> &candidates = chosen->second;
    const Candidate &drawn =
        candidates[below(static_cast<int64_t>(candidates.size()))];
    return {&family, std::move(*problem), drawn.config.text()};
  }
}

std::vector<std::string> bestConfigs(const KernelFamily &family,
                                     const Problem &problem,
                                     const DeviceModel &device, size_t least) {
  Space space = must(exploreSpace(family, problem, device));
  std::vector<std::string> configs;
  std::set<const Template *> templates;
  for (const Candidate &candidate : space.ranked)
    if (templates.insert(candidate.tmpl).second)
      configs.push_back(candidate.config.text());
  // The ranked space begins with the best of each class.
  std::set<std::pair<const Template *, uint64_t>> classes;
  for (const Candidate &candidate : space.ranked) {
    if (configs.size() >= least)
      break;
    std::string text = candidate.config.text();
    if (classes.insert({candidate.tmpl, candidate.candidateClass.key}).second &&
        std::find(configs.begin(), configs.end(), text) == configs.end())
      configs.push_back(text);
  }
  return configs;
}

//===----------------------------------------------------------------------===//
// Trying
//===----------------------------------------------------------------------===//

void compileAll(GpuTrials &gpu, const std::vector<Triple> &triples) {
  std::vector<TranslationUnit> units;
  std::vector<std::string> texts;
  for (const Triple &triple : triples) {
    auto named = must(triple.family->parseConfig(triple.config));
    Plan plan = named.tmpl->plan(triple.problem, named.config, gpu.device);
    for (const TranslationUnit &unit : plan.kernels) {
      units.push_back(unit);
      texts.push_back(triple.text());
    }
    units.push_back(triple.family->reference(triple.problem, gpu.device)
                        ->translationUnit());
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

void checkAll(GpuTrials &gpu, const std::vector<Triple> &triples) {
  compileAll(gpu, triples);
  // Beyond so many, one more tells nothing new.
  constexpr int kMostFailures = 30;
  int failures = 0;
  for (const Triple &triple : triples) {
    INFO(triple.text());
    TrialRequest request =
        gpu.request(*triple.family, triple.problem, {triple.config});
    request.options.measure = false;
    request.options.data = triple.data;
    auto results = gpu.runner->run(request);
    if (!results)
      FAIL(summarize(results.takeError()).message);
    const TrialResult &result = results->front();
    INFO(result.message);
    CHECK(nameOf(result.status).str() == "ok");
    CHECK(result.validated);
    if (!gpu.runner->isAlive())
      FAIL("the context is gone");
    failures += !result.validated;
    if (failures == kMostFailures)
      FAIL("too many failures to go on");
  }
}

void runWithoutRedZones(GpuTrials &gpu, const Triple &triple) {
  INFO(triple.text());
  auto named = must(triple.family->parseConfig(triple.config));
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
  Arguments arguments = triple.family->defaultArguments(triple.problem);
  OperandTable table = triple.family->operands(triple.problem);
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

} // namespace kiln::fake
