//===- BenchDraw.cpp - kiln bench --draw ----------------------------------===//
#include "kiln/bench/BenchDraw.h"

#include "kiln/Console.h"
#include "kiln/Finish.h"
#include "kiln/bench/DrawRunner.h"
#include "kiln/bench/PeerLibrary.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringExtras.h>

namespace kiln::cli {

static llvm::Expected<std::vector<DrawState>>
readStates(const ParsedOptions &options, const NamedRange *fixed) {
  static constexpr DrawState kAll[] = {DrawState::First, DrawState::Met,
                                       DrawState::Tuned, DrawState::Prepared};
  const std::string text = options.value("--state").value_or(
      fixed ? "first,tuned" : "first,prepared");
  std::vector<DrawState> states;
  for (llvm::StringRef name : llvm::split(text, ',')) {
    const auto *known = llvm::find_if(
        kAll, [&](DrawState state) { return nameOf(state) == name; });
    if (known == std::end(kAll) || llvm::is_contained(states, *known))
      return makeError(ErrorCode::InvalidArgument,
                       "--state={} is not a list of first, met, tuned and "
                       "prepared, each once",
                       text);
    states.push_back(*known);
  }
  if (fixed && llvm::is_contained(states, DrawState::Prepared))
    return makeError(ErrorCode::InvalidArgument,
                     "--state={} prepares ranges, and {} of --range={} is no "
                     "extent that a range may vary",
                     text, fixed->key, fixed->text());
  return states;
}

/// The budget of a problem or a layer of \p state.
static llvm::Expected<std::chrono::milliseconds>
budgetOf(DrawState state, const ParsedOptions &options) {
  constexpr std::chrono::milliseconds kTuned(800);
  if (state == DrawState::Tuned)
    return options.duration("--budget", kTuned);
  return options.duration("--prepare-budget", std::chrono::milliseconds(0));
}

static BenchSetting describeSetting(const ParsedOptions &options,
                                    const LiveSession &session,
                                    const DrawRequest &draw,
                                    const CublasLt *peer) {
  BenchSetting setting;
  setting.what = draw.text(options.value("--suite").value_or(""));
  // Asked for before anything was measured.
  setting.commit = llvm::cantFail(commitOf(options));
  setting.gpu = marketingNameOf(session.model());
  setting.driver = driverVersionText(session.driver());
  const bool hasStream =
      !options.has("--no-peer") && llvm::any_of(draw.cases, isStreamed);
  setting.peer = peer        ? "cuBLASLt " + peer->versionText()
                 : hasStream ? "reference stream"
                             : "no peer";
  const NamedRange *fixed = draw.fixedRange();
  setting.protocol = fmt::format(
      "Values log-uniform, one in four made odd{}, no pair of layer and value "
      "twice, met in the order of the draw{}; cold L2 (operands rotate over {} "
      "times its size, or it is flushed), N(0, 1) data, short launches in CUDA "
      "graphs of 16 or more, all sides interleaved in one run{}, median of 7 "
      "to 15 samples{}{}.",
      fixed ? fmt::format(" (of {}, and other extents that are fixed in an "
                          "engine, a third odd, a third multiples of 8 and a "
                          "third of 64)",
                          fixed->key)
            : "",
      draw.bytes ? "; bytes log-uniform" : "", kColdFactor,
      peer ? " on the same buffers" : "",
      peer ? libraryProtocol(draw.cases) : "",
      hasStream ? kStreamProtocol : "");
  return setting;
}

/// Measures every case; an error is one after which nothing can be.
static llvm::Error
measureAll(const DrawRequest &draw,
           llvm::ArrayRef<std::unique_ptr<DrawSource>> sources,
           DrawRunner &runner, DrawReport &report) {
  report.interrupted = true; // unless the end is reached
  for (const auto &source : sources)
    if (llvm::Error error = source->prepare(draw, runner.calls()))
      return error;
  InterruptGuard interrupt;
  ProgressBar bar("measuring");
  for (size_t i = 0; i < draw.cases.size() && !interrupt.flag()->load(); ++i) {
    bar.update(i, draw.cases.size(), draw.cases[i].name);
    DrawRow &row = report.rows.emplace_back();
    row.which = &draw.cases[i];
    row.drawn = draw.drawn[i];
    if (llvm::Error error = runner.measure(i, sources, row))
      return error;
    if (!row.toolchain.empty())
      report.setting.cuda = cudaVersionOf(row.toolchain);
  }
  report.interrupted = report.rows.size() < draw.cases.size();
  return llvm::Error::success();
}

llvm::Expected<int> runDrawBench(const ParsedOptions &options,
                                 Environment environment,
                                 const Registry &registry,
                                 const DrawRequest &draw) {
  for (const char *option : {"--config", "--all-heuristics", "--hot", "--jit"})
    if (options.has(option))
      return makeError(ErrorCode::InvalidArgument, "--draw takes no {}",
                       option);
  DrawReport report;
  auto states = readStates(options, draw.fixedRange());
  if (!states)
    return states.takeError();
  report.states = std::move(*states);
  auto folder = ScratchFolder::make();
  if (!folder)
    return folder.takeError();
  // What was tuned before on this machine plays no part.
  environment.kilnCacheDir = folder->cache("session");
  auto session = LiveSession::open(options, environment, "bench measures");
  if (!session)
    return session.takeError();
  std::shared_ptr<const CublasLt> peer;
  if (!options.has("--no-peer") && llvm::any_of(draw.cases, hasLibraryPeer)) {
    auto library = loadPeerLibrary(options, environment);
    if (!library)
      return library.takeError();
    peer = std::move(*library);
  }
  std::vector<std::unique_ptr<DrawSource>> sources;
  for (DrawState state : report.states) {
    auto budget = budgetOf(state, options);
    if (!budget)
      return budget.takeError();
    sources.push_back(makeDrawSource(
        state, {**session, registry, options, environment, *folder, *budget}));
  }
  auto runner = DrawRunner::create(**session, peer, !options.has("--no-peer"));
  if (!runner)
    return runner.takeError();
  if (llvm::Error error = checkOutput(options.value("--out")))
    return error;

  report.setting = describeSetting(options, **session, draw, peer.get());
  report.ranges = draw.ranges;
  report.fixed = draw.fixed();
  report.seeds = draw.seeds;
  llvm::Error failure = measureAll(draw, sources, **runner, report);
  for (const auto &source : sources)
    report.costs.push_back(source->cost());
  return finish(report, options.value("--out"), options.wantsJson(),
                std::move(failure), report.exitCode());
}

} // namespace kiln::cli
