//===- DrawCommand.cpp - kiln-bench draw: sizes that were not tuned -------===//
#include "Families/Families.h"
#include "cli/Console.h"
#include "cli/Finish.h"
#include "compare/PeerLibrary.h"
#include "kiln-bench/Commands.h"
#include "kiln-bench/DrawRunner.h"

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

static std::string protocolOf(const DrawRequest &draw, const CublasLt *peer,
                              bool wantsBaseline) {
  const NamedRange *fixed = draw.fixedRange();
  return fmt::format(
      "Values log-uniform, one in four made odd{}, no pair of layer and value "
      "twice, met in the order of the draw{}; cold L2 (operands rotate over {} "
      "times its size, or it is flushed), N(0, 1) data, short launches in CUDA "
      "graphs of 16 or more, all sides interleaved in one run{}, median of 7 "
      "to 15 samples{}.",
      fixed ? fmt::format(" (of {}, and other extents that are fixed in an "
                          "engine, a third odd, a third multiples of 8 and a "
                          "third of 64)",
                          fixed->key)
            : "",
      draw.bytes ? "; bytes log-uniform" : "", kColdFactor,
      peer ? " on the same buffers" : "",
      BenchSetting::peerProtocol(draw.cases, peer, wantsBaseline));
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

static llvm::Expected<int> runDraw(const ParsedOptions &options) {
  Environment environment = Environment::fromProcess();
  const Registry registry = makeBuiltinRegistry();
  auto count = options.number("--count", 96);
  if (!count)
    return count.takeError();
  auto draw = readDraw(options, *count, registry);
  if (!draw)
    return draw.takeError();
  DrawReport report;
  auto states = readStates(options, draw->fixedRange());
  if (!states)
    return states.takeError();
  report.states = std::move(*states);
  auto folder = ScratchFolder::make();
  if (!folder)
    return folder.takeError();
  // Earlier tuning on this machine plays no part.
  environment.kilnCacheDir = folder->cache("session");
  environment.kilnCacheReadDirs.reset();
  auto session = LiveSession::open(options, environment, "draw measures");
  if (!session)
    return session.takeError();
  auto setting = BenchSetting::of(
      draw->text(options.value("--suite").value_or("")), options, **session);
  if (!setting)
    return setting.takeError();
  report.setting = std::move(*setting);
  auto peer = loadPeerLibrary(draw->cases, options, environment);
  if (!peer)
    return peer.takeError();
  const bool wantsBaseline = !options.has(kNoPeerOption.name);
  std::vector<std::unique_ptr<DrawSource>> sources;
  for (DrawState state : report.states) {
    auto budget = budgetOf(state, options);
    if (!budget)
      return budget.takeError();
    sources.push_back(makeDrawSource(
        state, {**session, registry, options, environment, *folder, *budget}));
  }
  auto runner = DrawRunner::create(**session, *peer, wantsBaseline);
  if (!runner)
    return runner.takeError();
  if (llvm::Error error = checkOutput(options.value("--out")))
    return error;

  report.setting.namePeers(draw->cases, peer->get(), wantsBaseline);
  report.setting.protocol = protocolOf(*draw, peer->get(), wantsBaseline);
  report.ranges = draw->ranges;
  report.fixed = draw->fixed();
  report.seeds = draw->seeds;
  llvm::Error failure = measureAll(*draw, sources, **runner, report);
  for (const auto &source : sources)
    report.costs.push_back(source->cost());
  return finish(report, options.value("--out"), options.wantsJson(),
                std::move(failure), report.exitCode());
}

static constexpr OptionSpec kDrawOwnOptions[] = {
    {"--state", "NAME,...",
     "how problems are met: first, met, tuned, prepared; default "
     "first,prepared, or first,tuned where a range cannot be prepared"},
    {"--budget", "TIME", "of each problem of the state tuned; default 800ms"},
    {"--prepare-budget", "TIME",
     "of each layer of the state prepared; default: the engine's"},
    kNoPeerOption,
};
static constexpr OptionSpec kCountOption[] = {
    {"--count", "N", "problems of each draw; default 96"}};
static constexpr OptionSpec kDrawEngineOptions[] = {
    kThreadsOption,
    {"--cache-dir", "DIR", "cache folder of the engines; default: empty ones"},
    kNvrtcOption,
};
static constexpr auto kDrawOptions =
    joinOptions(kDeviceOptions, kSuiteOptions, kCountOption, kDrawnOptions,
                kDrawOwnOptions, kDocumentOptions, kDrawEngineOptions);

const CommandSpec kDrawCommand = {
    "draw",
    "",
    "measure a suite's layers at sizes that were not tuned",
    "Draws values for the layers of a suite and measures them beside cuBLASLt "
    "or a copy baseline, in the order of the draw, as an engine meets them. "
    "In the state first it is the first call of mode predict with an empty "
    "cache, in met that of mode tune; in tuned each problem was tuned ahead "
    "of time, and in prepared the range of each layer was prepared once for "
    "all seeds. Ranges may name extents that are fixed in an engine, too: "
    "columns, n, k. Ends with 1 if a result is wrong.\n  kiln-bench draw "
    "--suite benchmarks/suites/layers.json --count 96 --range m=1..8192 "
    "--seed 1,2",
    kDrawOptions,
    runDraw,
};

} // namespace kiln::cli
