//===- Run.cpp - kiln run: launches of problems, for profilers ------------===//
//
// Each problem is called as a program calls it: by an engine. The first call
// plans, compiles and measures; it comes before cuProfilerStart, so a profiler
// that waits for that sees the later launches alone.
//
//===----------------------------------------------------------------------===//
#include "Driver/DeviceMemory.h"
#include "Driver/Event.h"
#include "Driver/Graph.h"
#include "Driver/Profiler.h"
#include "cli/Console.h"
#include "cli/Finish.h"
#include "cli/LiveSession.h"
#include "compare/Comparer.h"
#include "compare/EngineCalls.h"
#include "kiln/Commands.h"
#include "kiln/RunReport.h"

#include <llvm/ADT/StringSwitch.h>

#include <chrono>
#include <deque>

namespace kiln::cli {

namespace {

struct RunRequest {
  kiln_mode mode = KILN_MODE_TUNE;
  unsigned launches = 100;
  unsigned replays = 0; ///< of a graph of all launches; 0: no graph
  bool isHot = false;
};

/// The objects that runs of all problems share.
struct RunTools {
  LiveSession &session;
  kiln_engine *engine;
  TrialStream trial;
  RunRequest request;

  const Driver &driver() const { return session.driver(); }
  CudaStream stream() const { return trial.stream.handle(); }
};

} // namespace

static llvm::Expected<RunRequest> readRun(const ParsedOptions &options) {
  RunRequest request;
  const std::string mode = options.value("--mode").value_or("tune");
  constexpr kiln_mode kUnknown = -1;
  request.mode = llvm::StringSwitch<kiln_mode>(mode)
                     .Case("tune", KILN_MODE_TUNE)
                     .Case("predict", KILN_MODE_PREDICT)
                     .Case("background", KILN_MODE_BACKGROUND)
                     .Case("strict", KILN_MODE_STRICT)
                     .Default(kUnknown);
  if (request.mode == kUnknown)
    return makeError(ErrorCode::InvalidArgument,
                     "--mode={} is not one of tune, predict, background, "
                     "strict",
                     mode);
  auto launches = options.number("--launches", request.launches);
  if (!launches)
    return launches.takeError();
  request.launches = *launches;
  auto replays = options.number("--graph", 0);
  if (!replays)
    return replays.takeError();
  request.replays = *replays;
  request.isHot = options.has("--hot");
  return request;
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

/// Calls \p launch as often as it is asked to, between events, as the part that
/// profilers see.
static llvm::Error
timeLaunches(RunTools &tools, unsigned count,
             llvm::function_ref<llvm::Error(unsigned)> launch, RunRow &row) {
  auto start = Event::create(tools.driver());
  if (!start)
    return start.takeError();
  auto stop = Event::create(tools.driver());
  if (!stop)
    return stop.takeError();
  llvm::Error error = startProfilers(tools.driver());
  if (!error)
    error = start->record(tools.stream());
  const auto begin = std::chrono::steady_clock::now();
  for (unsigned i = 0; i < count && !error; ++i)
    error = launch(i);
  row.hostNs = std::chrono::duration<double, std::nano>(
                   std::chrono::steady_clock::now() - begin)
                   .count();
  if (!error)
    error = stop->record(tools.stream());
  error = llvm::joinErrors(std::move(error), tools.trial.stream.synchronize());
  error = llvm::joinErrors(std::move(error), stopProfilers(tools.driver()));
  if (error)
    return error;
  auto ns = elapsedNs(tools.driver(), *start, *stop);
  if (!ns)
    return ns.takeError();
  row.ns = *ns;
  return llvm::Error::success();
}

/// Captures all launches and replays them.
static llvm::Error
replayLaunches(RunTools &tools,
               llvm::function_ref<llvm::Error(unsigned)> launch, RunRow &row) {
  const RunRequest &request = tools.request;
  if (llvm::Error error = Graph::beginCapture(tools.driver(), tools.stream()))
    return error;
  llvm::Error error = llvm::Error::success();
  for (unsigned i = 0; i < request.launches && !error; ++i)
    error = launch(i);
  auto graph = Graph::endCapture(tools.driver(), tools.stream());
  if (error) {
    if (!graph)
      llvm::consumeError(graph.takeError());
    return error;
  }
  if (!graph)
    return graph.takeError();
  row.graphNodes = graph->nodeCount();
  // The first replay uploads the graph.
  if (llvm::Error failed = graph->launch(tools.stream()))
    return failed;
  if (llvm::Error failed = tools.trial.stream.synchronize())
    return failed;
  return timeLaunches(
      tools, request.replays,
      [&](unsigned) { return graph->launch(tools.stream()); }, row);
}

static llvm::Expected<TrialBuffers> makeBuffers(RunTools &tools,
                                                const Case &which) {
  auto memory = memoryInfo(tools.driver());
  if (!memory)
    return memory.takeError();
  TrialBufferOptions options;
  // The rest is for workspaces and for the first call's trials.
  options.capBytes = memory->freeBytes / 10 * 4;
  options.forTiming = !tools.request.isHot;
  options.l2Bytes = tools.session.model().l2Bytes;
  return TrialBuffers::create(tools.driver(), tools.trial.tools,
                              *which.named.family, which.named.problem, options,
                              tools.stream());
}

/// The launches of one problem on \p buffers.
static llvm::Error runOn(RunTools &tools, const TrialBuffers &buffers,
                         RunRow &row) {
  const std::string text = row.which->text();
  auto first = callEngine(tools.engine, text, buffers, tools.trial.stream);
  if (!first)
    return first.takeError();
  auto config = configOf(tools.engine, text, tools.trial.stream);
  if (!config)
    return config.takeError();
  row.config = std::move(*config);
  std::deque<EngineCall> calls;
  for (unsigned copy = 0; copy < buffers.copies(); ++copy)
    calls.emplace_back(tools.engine, text, buffers, copy);
  auto launch = [&](unsigned i) {
    return calls[i % calls.size()].launch(tools.stream());
  };
  const RunRequest &request = tools.request;
  row.launches = request.launches * std::max(request.replays, 1u);
  if (llvm::Error error =
          request.replays ? replayLaunches(tools, launch, row)
                          : timeLaunches(tools, request.launches, launch, row))
    return error;
  row.ns /= row.launches;
  row.hostNs /= row.launches;
  return llvm::Error::success();
}

/// Runs one problem, whose failure is in its row. An error is one after which
/// nothing can run.
static llvm::Error runCase(RunTools &tools, RunRow &row) {
  const auto &[family, problem] = row.which->named;
  if (family->isEmpty(problem)) {
    row.error = summarize(
        makeError(ErrorCode::InvalidArgument, "there is nothing to compute"));
    return llvm::Error::success();
  }
  auto buffers = makeBuffers(tools, *row.which);
  row.error =
      summarize(buffers ? runOn(tools, *buffers, row) : buffers.takeError());
  if (!endsAll(row.error.code))
    return row.error.code == ErrorCode::CompilerMissing
               ? errorOf(row.error)
               : llvm::Error::success();
  // Freeing waits for the device, which may never answer.
  if (buffers)
    buffers->leak();
  return errorOf(row.error);
}

/// Runs all cases; an error is one after which nothing can run.
static llvm::Error runAll(llvm::ArrayRef<Case> cases, RunTools &tools,
                          RunReport &report) {
  InterruptGuard interrupt;
  ProgressBar bar("running");
  for (size_t i = 0; i < cases.size() && !interrupt.flag()->load(); ++i) {
    bar.update(i, cases.size(), cases[i].name);
    RunRow &row = report.rows.emplace_back();
    row.which = &cases[i];
    if (llvm::Error error = runCase(tools, row))
      return error;
  }
  report.interrupted = report.rows.size() < cases.size();
  return llvm::Error::success();
}

static llvm::Expected<int> runRun(const ParsedOptions &options) {
  auto subject = Subject::read(options);
  if (!subject)
    return subject.takeError();
  auto request = readRun(options);
  if (!request)
    return request.takeError();
  auto session =
      LiveSession::open(options, subject->environment, "run launches kernels");
  if (!session)
    return session.takeError();
  auto engine = makeSessionEngine(request->mode, options, subject->environment);
  if (!engine)
    return engine.takeError();
  auto trial = TrialStream::open(**session);
  if (!trial)
    return trial.takeError();
  RunTools tools{**session, engine->get(), std::move(*trial), *request};
  RunReport report;
  report.mode = options.value("--mode").value_or("tune");
  llvm::Error failure = runAll(subject->cases, tools, report);
  return finish(report, std::nullopt, options.wantsJson(), std::move(failure),
                report.exitCode());
}

static constexpr OptionSpec kRunOwnOptions[] = {
    {"--launches", "N", "launches of each problem that count; default 100"},
    {"--graph", "N",
     "capture the launches into a CUDA graph and replay it N times"},
    {"--mode", "NAME",
     "mode of the engine: tune (default), predict, background or strict"},
    {"--hot", nullptr,
     "the same operands at each launch, instead of copies that exceed the L2"},
};
static constexpr auto kRunOptions =
    joinOptions(kSubjectOptions, kRunOwnOptions, kCompilerOptions);

const CommandSpec kRunCommand = {
    "run",
    "PROBLEM...",
    "launch problems as a program does, for profilers",
    "Calls each problem through an engine on random data. The first call, "
    "which compiles and measures, does not count; the others lie between "
    "cuProfilerStart and cuProfilerStop. Prints the time of a launch, between "
    "events around all of them, and the host's time of a call. If the host "
    "needs longer for a call than the device for its kernels, both times are "
    "the host's, except with --graph.\n  kiln run PROBLEM --launches 200",
    kRunOptions,
    runRun,
};

} // namespace kiln::cli
