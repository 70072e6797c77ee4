//===- Campaign.cpp -------------------------------------------------------===//
#include "Trial/Campaign.h"

#include "Driver/DeviceMemory.h"
#include "Driver/Stream.h"
#include "Store/LoadedPlan.h"
#include "Trial/TrialBuffers.h"
#include "Trial/TrialTools.h"

#include <algorithm>
#include <map>
#include <set>

namespace kiln::fake {

std::string Triple::text() const {
  std::string text =
      problem.text() + " | " + config +
      (data == TrialData::Usual ? " | usual data" : " | outliers");
  if (planted.operand >= 0)
    text +=
        fmt::format(" | {} in row {}, column {} of operand {}", planted.value,
                    planted.row, planted.column, planted.operand);
  return text;
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
  std::optional<Triple> drawn = tripleIfAny(family, tmpl, device, evenly, text);
  REQUIRE_MESSAGE(drawn.has_value(), tmpl.str(), " takes no problem drawn");
  return std::move(*drawn);
}

std::optional<Triple>
Draws::tripleIfAny(const KernelFamily &family, llvm::StringRef tmpl,
                   const DeviceModel &device, Evenly evenly,
                   llvm::function_ref<std::string()> text) {
  // A template for one layout, two types and few rows takes one in hundreds.
  constexpr int kMostDraws = 20000;
  for (int i = 0; i < kMostDraws; ++i) {
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
    return Triple{&family, std::move(*problem), drawn.config.text()};
  }
  return std::nullopt;
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

std::vector<Triple> compileAll(GpuTrials &gpu,
                               const std::vector<Triple> &triples) {
  std::vector<TranslationUnit> units;
  std::vector<size_t> tripleOf;
  for (size_t i = 0; i < triples.size(); ++i) {
    const Triple &triple = triples[i];
    auto named = must(triple.family->parseConfig(triple.config));
    Plan plan = named.tmpl->plan(triple.problem, named.config, gpu.device);
    units.insert(units.end(), plan.kernels.begin(), plan.kernels.end());
    units.push_back(triple.family->reference(triple.problem, gpu.device)
                        ->translationUnit());
    tripleOf.resize(units.size(), i);
  }
  std::vector<ArtifactOutcome> outcomes = gpu.artifacts->compileAll(units);
  std::set<size_t> refused;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    INFO(triples[tripleOf[i]].text());
    INFO(outcomes[i].compileLog);
    if (outcomes[i])
      continue;
    if (outcomes[i].error.message.find("rejected because ptxas") ==
        std::string::npos)
      FAIL(outcomes[i].error.message);
    refused.insert(tripleOf[i]);
  }
  if (!refused.empty())
    MESSAGE(refused.size(), " of ", triples.size(), " are refused, first ",
            triples[*refused.begin()].text());
  std::vector<Triple> kept;
  for (size_t i = 0; i < triples.size(); ++i)
    if (!refused.count(i))
      kept.push_back(triples[i]);
  return kept;
}

std::vector<Triple> checkAll(GpuTrials &gpu, const std::vector<Triple> &given) {
  std::vector<Triple> triples = compileAll(gpu, given);
  // Beyond so many, one more tells nothing new.
  constexpr int kMostFailures = 30;
  int failures = 0;
  for (const Triple &triple : triples) {
    INFO(triple.text());
    TrialRequest request =
        gpu.request(*triple.family, triple.problem, {triple.config});
    request.options.measure = false;
    request.options.data = triple.data;
    request.options.planted = triple.planted;
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
  return triples;
}

static std::shared_ptr<const LoadedPlan>
loadTriple(GpuTrials &gpu, KernelLoader &loader, const Triple &triple) {
  auto named = must(triple.family->parseConfig(triple.config));
  return must(obtainPlan(
      *gpu.artifacts, loader,
      named.tmpl->plan(triple.problem, named.config, gpu.device),
      static_cast<int32_t>(gpu.device.smCount), KernelLifetime::Users));
}

namespace {

/// Fills on a stream of their own.
class Fills {
public:
  explicit Fills(const Driver &driver)
      : driver(driver), stream(must(Stream::create(driver))),
        memory(must(DeviceMemory::allocate(driver, kBytes))) {}

  /// About 40 us of them, not waited for.
  void add() { must(fillAsync(driver, memory.address(), 1, kBytes, handle())); }
  void wait() { must(stream.synchronize()); }

private:
  CudaStream handle() const { return stream.handle(); }

  static constexpr uint64_t kBytes = uint64_t(128) << 20;
  const Driver &driver;
  Stream stream;
  DeviceMemory memory;
};

} // namespace

std::vector<uint8_t> checkRepeats(GpuTrials &gpu, const Triple &triple,
                                  int launches, Beside beside) {
  INFO(triple.text());
  std::optional<Fills> fills;
  if (beside == Beside::Fills)
    fills.emplace(*gpu.driver);
  const Driver &driver = *gpu.driver;
  KernelLoader loader(driver);
  auto plan = loadTriple(gpu, loader, triple);
  TrialTools tools = must(TrialTools::load(driver, *gpu.artifacts, gpu.device));
  Stream stream = must(Stream::create(driver));
  TrialBufferOptions bufferOptions;
  bufferOptions.capBytes = uint64_t(1) << 30;
  bufferOptions.forTiming = false;
  TrialBuffers buffers =
      must(TrialBuffers::create(driver, tools, *triple.family, triple.problem,
                                bufferOptions, stream.handle()));
  Arguments arguments = buffers.arguments(0);
  // Both results in memory of the same kind, whose rest stays as it is.
  int out = 0;
  OperandTable table = triple.family->operands(triple.problem);
  while (table.operands[out].role != OperandRole::Out)
    ++out;
  uint64_t bytes =
      (static_cast<uint64_t>(table.operands[out].bytes()) + 3) / 4 * 4;
  DeviceMemory first = must(DeviceMemory::allocate(driver, bytes));
  DeviceMemory next = must(DeviceMemory::allocate(driver, bytes));
  DeviceMemory counter = must(DeviceMemory::allocate(driver, 8));
  for (const DeviceMemory *memory : {&first, &next, &counter})
    must(fillAsync(driver, memory->address(), 0, memory->bytes(),
                   stream.handle()));
  WorkspaceLayout layout = plan->workspace();
  DeviceMemory scratch = must(DeviceMemory::allocate(driver, layout.bytes()));
  if (layout.bytes())
    must(fillAsync(driver, scratch.address(), 0, layout.bytes(),
                   stream.handle()));
  CountDifferencesParams differences;
  differences.left = reinterpret_cast<const void *>(first.address());
  differences.right = reinterpret_cast<const void *>(next.address());
  differences.bytes = static_cast<long long>(bytes);
  differences.differing =
      reinterpret_cast<unsigned long long *>(counter.address());
  for (int i = 0; i < launches; ++i) {
    arguments.operands[out].address = i == 0 ? first.address() : next.address();
    must(plan->launch(arguments, {scratch.address(), layout.bytes(), true},
                      stream.handle()));
    if (i > 0)
      must(tools.countDifferences(differences, stream.handle()));
    constexpr int kLaunchesAFill = 4;
    if (fills && i % kLaunchesAFill == 0)
      fills->add();
  }
  must(stream.synchronize());
  if (fills)
    fills->wait();
  unsigned long long differing = ~0ull;
  must(copyToHost(driver, &differing, counter.address(), sizeof(differing)));
  CHECK(differing == 0);
  // Checks the region that a next launch would take for its own counters or
  // sums.
  std::vector<uint8_t> zeroed(layout.zeroedBytes);
  must(copyToHost(driver, zeroed.data(), scratch.address(), zeroed.size()));
  CHECK(std::all_of(zeroed.begin(), zeroed.end(),
                    [](uint8_t byte) { return byte == 0; }));
  std::vector<uint8_t> result(bytes);
  must(copyToHost(driver, result.data(), first.address(), bytes));
  CHECK(std::any_of(result.begin(), result.end(),
                    [](uint8_t byte) { return byte != 0; }));
  return result;
}

void runWithoutRedZones(GpuTrials &gpu, const Triple &triple) {
  INFO(triple.text());
  KernelLoader loader(*gpu.driver);
  auto plan = loadTriple(gpu, loader, triple);
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
    constexpr uint64_t kVector = 16; // which is read to its end
    uint64_t end = (offset + bytes + kVector - 1) / kVector * kVector;
    arguments.operands[i].address = allocate(end) + offset;
  }
  Workspace workspace;
  if (uint64_t bytes = plan->workspace().bytes())
    workspace = {allocate(bytes), bytes, true};
  must(plan->launch(arguments, workspace, stream.handle()));
  must(stream.synchronize());
}

} // namespace kiln::fake
