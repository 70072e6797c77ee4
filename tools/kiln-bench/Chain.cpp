//===- Chain.cpp - kiln-bench chain: the gain of dependent launch ---------===//
//
// Measures the gain of dependent launch where it is used: between the launches
// of a model. Every step has operands of its own, which rotate as a bench's do;
// so weights come from DRAM. Steps do not pass results on, because a launch
// waits for the one ahead whatever that wrote.
//
//===----------------------------------------------------------------------===//
#include "cli/Console.h"
#include "cli/Finish.h"
#include "compare/Comparer.h"
#include "kiln-bench/ChainReport.h"
#include "kiln-bench/Commands.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln::cli {

namespace {

/// One problem of a chain, ready to be launched.
struct LoadedStep {
  const Case *which = nullptr;
  std::shared_ptr<const LoadedPlan> plan;
  std::optional<TrialBuffers> buffers;
  std::vector<Arguments> arguments; ///< of each copy
  uint32_t weights = 0;             ///< a bit for each operand that is one
};

class Chain {
public:
  Chain(LiveSession &session, const TrialStream &trial, KernelLoader &loader)
      : session(session), stream(trial.stream), tools(trial.tools),
        loader(loader) {}

  llvm::Error add(const Case &which, const BenchChoice &choice,
                  uint64_t capBytes);
  /// When all steps are there.
  llvm::Error makeWorkspace();
  llvm::Error launch(ChainLink link, unsigned copy, CudaStream on) const;
  llvm::Error measure(ChainRow &row) const;

private:
  llvm::Expected<std::vector<std::vector<OutputRows>>>
  resultsOf(ChainLink link) const;

  LiveSession &session;
  const Stream &stream;
  const TrialTools &tools;
  KernelLoader &loader;
  std::vector<std::unique_ptr<LoadedStep>> steps;
  WorkspaceLayout layout; ///< that serves all steps
  DeviceMemory workspace;
};

} // namespace

llvm::Error Chain::add(const Case &which, const BenchChoice &choice,
                       uint64_t capBytes) {
  auto step = std::make_unique<LoadedStep>();
  step->which = &which;
  auto plan = LoadedPlan::load(loader, choice.plan, choice.artifacts,
                               static_cast<int32_t>(session.model().smCount),
                               KernelLifetime::Users);
  if (!plan)
    return plan.takeError();
  step->plan = std::move(*plan);
  layout.merge(step->plan->workspace());
  TrialBufferOptions options;
  options.capBytes = capBytes;
  options.l2Bytes = session.model().l2Bytes;
  const auto &[family, problem] = which.named;
  auto buffers = TrialBuffers::create(session.driver(), tools, *family, problem,
                                      options, stream.handle());
  if (!buffers)
    return buffers.takeError();
  step->buffers.emplace(std::move(*buffers));
  for (unsigned copy = 0; copy < step->buffers->copies(); ++copy)
    step->arguments.push_back(step->buffers->arguments(copy));
  for (auto [i, operand] : llvm::enumerate(step->buffers->table().operands))
    if (operand.present && operand.role == OperandRole::Constant)
      step->weights |= uint32_t(1) << i;
  steps.push_back(std::move(step));
  return llvm::Error::success();
}

llvm::Error Chain::makeWorkspace() {
  auto memory = DeviceMemory::allocate(session.driver(), layout.bytes());
  if (!memory)
    return memory.takeError();
  workspace = std::move(*memory);
  return layout.bytes() ? fillAsync(session.driver(), workspace.address(), 0,
                                    layout.bytes(), stream.handle())
                        : llvm::Error::success();
}

llvm::Error Chain::launch(ChainLink link, unsigned copy, CudaStream on) const {
  const Workspace memory{workspace.address(), workspace.bytes(),
                         /*isZeroed=*/true, layout.zeroedBytes};
  for (const auto &step : steps) {
    Arguments arguments = step->arguments[copy % step->arguments.size()];
    arguments.isDependent = link != ChainLink::Ordered;
    arguments.constants = link == ChainLink::Constant ? step->weights : 0;
    if (llvm::Error error = step->plan->launch(arguments, memory, on))
      return error;
  }
  return llvm::Error::success();
}

/// A sample of every step's outputs after one run on poisoned ones.
llvm::Expected<std::vector<std::vector<OutputRows>>>
Chain::resultsOf(ChainLink link) const {
  for (const auto &step : steps)
    if (llvm::Error error = step->buffers->prepareOutputs(stream.handle()))
      return error;
  if (llvm::Error error = launch(link, 0, stream.handle()))
    return error;
  if (llvm::Error error = stream.synchronize())
    return error;
  std::vector<std::vector<OutputRows>> results;
  for (const auto &step : steps) {
    auto rows = readOutputs(session.driver(), *step->buffers);
    if (!rows)
      return rows.takeError();
    results.push_back(std::move(*rows));
  }
  return results;
}

llvm::Error Chain::measure(ChainRow &row) const {
  auto expected = resultsOf(ChainLink::Ordered);
  if (!expected)
    return expected.takeError();
  row.agrees = true;
  for (ChainLink link : {ChainLink::Dependent, ChainLink::Constant}) {
    auto results = resultsOf(link);
    if (!results)
      return results.takeError();
    row.agrees &= *results == *expected;
  }
  std::vector<TimedLaunch> launchers;
  for (ChainLink link : kChainLinks)
    launchers.emplace_back([this, link](unsigned copy, CudaStream on) {
      return launch(link, copy, on);
    });
  // Copies of the first step that is flushed for stand for all: steps that fit
  // the cache alone do not fit it together.
  SamplingOptions sampling = samplingOf(*steps.front()->buffers);
  for (const auto &step : steps)
    sampling.copies = std::max(sampling.copies, step->buffers->copies());
  sampling.minSamples = 9;
  sampling.maxSamples = 21;
  sampling.dropSlower = false;
  auto times = measureInterleaved(session.driver(), stream.handle(), launchers,
                                  sampling);
  if (!times)
    return times.takeError();
  for (auto [i, time] : llvm::enumerate(*times)) {
    if (time.error.code != ErrorCode::Success)
      return errorOf(time.error);
    row.ns[i] = time.ns;
    row.launches = time.launches;
  }
  return llvm::Error::success();
}

/// The common beginning of the names of a chain's cases.
static llvm::StringRef chainOf(const Case &which) {
  auto [chain, step] = llvm::StringRef(which.name).rsplit('/');
  return step.empty() ? llvm::StringRef("all") : chain;
}

/// Measures chains of \p cases: a chain consists of neighbours with the same
/// beginning of their names, up to the last '/'. A failure of a chain is in its
/// row; an error ends the run, as in BenchRunner::measure.
static llvm::Error measureChains(LiveSession &session,
                                 llvm::ArrayRef<Case> cases,
                                 const ChoiceRequest &request,
                                 ChainReport &report) {
  const BenchChoices choices(cases, request, session);
  auto trial = TrialStream::open(session);
  if (!trial)
    return trial.takeError();
  KernelLoader loader(session.driver());
  InterruptGuard interrupt;
  ProgressBar bar("measuring");
  report.interrupted = true; // unless the end is reached
  for (size_t begin = 0, end = 0; begin < cases.size(); begin = end) {
    if (interrupt.flag()->load())
      return llvm::Error::success();
    const llvm::StringRef name = chainOf(cases[begin]);
    while (end < cases.size() && chainOf(cases[end]) == name)
      ++end;
    bar.update(begin, cases.size(), name.str());
    ChainRow &row = report.rows.emplace_back();
    row.name = name.str();
    auto chain = std::make_unique<Chain>(session, *trial, loader);
    auto run = [&]() -> llvm::Error {
      auto memory = memoryInfo(session.driver());
      if (!memory)
        return memory.takeError();
      for (size_t i = begin; i < end; ++i) {
        auto choice = choices.of(i);
        if (!choice)
          return choice.takeError();
        row.steps.push_back(
            {&cases[i], choice->plan.configText(), choice->from});
        if (!choice->artifacts.empty())
          report.setting.cuda =
              cudaVersionOf(choice->artifacts.front()->toolchain);
        if (llvm::Error error = chain->add(
                cases[i], *choice, memory->freeBytes / 10 * 8 / (end - begin)))
          return error;
      }
      if (llvm::Error error = chain->makeWorkspace())
        return error;
      return chain->measure(row);
    };
    if (llvm::Error error = run()) {
      ErrorSummary summary = summarize(std::move(error));
      row.error = summary.message;
      if (endsAll(summary.code)) {
        // Freeing waits for the device, which may never answer: leave it all.
        (void)chain.release();
        return makeError(summary.code, "{}: {}", row.name, summary.message);
      }
    }
  }
  report.interrupted = false;
  return llvm::Error::success();
}

static llvm::Expected<int> runChain(const ParsedOptions &options) {
  auto subject = Subject::read(options);
  if (!subject)
    return subject.takeError();
  auto request = ChoiceRequest::read(options);
  if (!request)
    return request.takeError();
  auto session =
      LiveSession::open(options, subject->environment, "chain measures");
  if (!session)
    return session.takeError();
  auto setting = BenchSetting::of(subjectOf(options), options, **session);
  if (!setting)
    return setting.takeError();
  if (llvm::Error error = checkOutput(options.value("--out")))
    return error;
  ChainReport report;
  report.setting = std::move(*setting);
  report.setting.protocol = fmt::format(
      "Chains of launches, cold L2 (the operands of each rotate over {} times "
      "its size, or it is flushed), N(0, 1) data, CUDA graphs of 16 chains or "
      "more, all sides interleaved in one run, median of 9 to 21 samples. "
      "Ordered: each launch begins when the one ahead has ended; dependent: by "
      "programmatic dependent launch; constant: the same with weights that may "
      "be read before the launch ahead has ended.",
      kColdFactor);
  llvm::Error failure =
      measureChains(**session, subject->cases, *request, report);
  return finish(report, options.value("--out"), options.wantsJson(),
                std::move(failure), report.exitCode());
}

static constexpr auto kChainOptions = joinOptions(
    kSubjectOptions, kChoiceOptions, kDocumentOptions, kCompilerOptions);

const CommandSpec kChainCommand = {
    "chain",
    "PROBLEM...",
    "measure problems one after the other, with and without dependent launch",
    "Neighbours named CHAIN/STEP in a suite form a chain; other problems form "
    "one chain together. Its steps run in CUDA graphs of many runs: each "
    "after the end of the one ahead, by dependent launch, and by dependent "
    "launch with weights that may be read at once. Ends with 1 if these "
    "differ in a result.\n  kiln-bench chain --suite "
    "benchmarks/suites/chains.json",
    kChainOptions,
    runChain,
};

} // namespace kiln::cli
