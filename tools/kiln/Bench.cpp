//===- Bench.cpp - kiln bench: Kiln beside cuBLASLt or a copy -------------===//
#include "cli/Console.h"
#include "cli/Finish.h"
#include "compare/BenchRunner.h"
#include "compare/PeerLibrary.h"
#include "kiln/Commands.h"

namespace kiln::cli {

static std::string protocolOf(const BenchSetting &setting,
                              llvm::ArrayRef<Case> cases, const CublasLt *peer,
                              bool wantsBaseline) {
  return fmt::format(
      "{}, N(0, 1) data, short launches in CUDA graphs of 16 or more, all "
      "sides interleaved in one run{}, median of 7 to 15 samples{}.",
      setting.hot ? std::string("Hot L2 (one copy of the operands)")
                  : fmt::format("Cold L2 (operands rotate over {} times its "
                                "size, or it is flushed)",
                                kColdFactor),
      peer ? " on the same buffers" : "",
      BenchSetting::peerProtocol(cases, peer, wantsBaseline));
}

/// Measures every case; an error is one after which nothing can be.
static llvm::Error measureAll(llvm::ArrayRef<Case> cases,
                              const ChoiceRequest &request,
                              LiveSession &session, BenchRunner &runner,
                              BenchReport &report) {
  InterruptGuard interrupt;
  const BenchChoices choices(cases, request, session);
  ProgressBar bar("measuring");
  report.interrupted = true; // unless the end is reached
  for (size_t i = 0; i < cases.size() && !interrupt.flag()->load(); ++i) {
    bar.update(i, cases.size(), cases[i].name);
    BenchRow &row = report.rows.emplace_back();
    row.which = &cases[i];
    auto choice = choices.of(i);
    if (!choice) {
      ErrorSummary error = summarize(choice.takeError());
      row.error = error.message;
      if (error.code == ErrorCode::CompilerMissing)
        return errorOf(error);
      continue;
    }
    if (llvm::Error error = runner.measure(*choice, row))
      return error;
    if (!row.toolchain.empty())
      report.setting.cuda = cudaVersionOf(row.toolchain);
  }
  report.interrupted = report.rows.size() < cases.size();
  return llvm::Error::success();
}

static llvm::Expected<int> runBench(const ParsedOptions &options) {
  auto subject = Subject::read(options);
  if (!subject)
    return subject.takeError();
  const auto &cases = subject->cases;
  auto request = ChoiceRequest::read(options);
  if (!request)
    return request.takeError();
  auto session =
      LiveSession::open(options, subject->environment, "bench measures");
  if (!session)
    return session.takeError();
  BenchReport report;
  auto setting = BenchSetting::of(subjectOf(options), options, **session);
  if (!setting)
    return setting.takeError();
  report.setting = std::move(*setting);
  auto peer = loadPeerLibrary(cases, options, subject->environment);
  if (!peer)
    return peer.takeError();
  const bool wantsBaseline = !options.has(kNoPeerOption.name);
  EnginePtr engine;
  if (options.has("--calls")) {
    auto made =
        makeSessionEngine(KILN_MODE_PREDICT, options, subject->environment);
    if (!made)
      return made.takeError();
    engine = std::move(*made);
  }
  auto runner =
      BenchRunner::create(**session, *peer,
                          {options.has("--all-heuristics"),
                           options.has("--hot"), wantsBaseline, engine.get()});
  if (!runner)
    return runner.takeError();
  if (llvm::Error error = checkOutput(options.value("--out")))
    return error;

  report.setting.namePeers(cases, peer->get(), wantsBaseline);
  report.setting.protocol =
      protocolOf(report.setting, cases, peer->get(), wantsBaseline);
  llvm::Error failure =
      measureAll(cases, *request, **session, **runner, report);
  report.peaks = MemoryPeaks::of((*session)->memory);
  return finish(report, options.value("--out"), options.wantsJson(),
                std::move(failure), report.exitCode());
}

static constexpr OptionSpec kBenchOwnOptions[] = {
    kNoPeerOption,
    {"--all-heuristics", nullptr,
     "measure every algorithm that cuBLASLt's heuristic answers, too"},
    {"--hot", nullptr, "operands in L2 instead of cold"},
    {"--calls", nullptr,
     "time whole calls of an engine, too: until the device has finished, and "
     "until the call returned; operands in L2"},
};
static constexpr auto kBenchOptions =
    joinOptions(kSubjectOptions, kChoiceOptions, kBenchOwnOptions,
                kDocumentOptions, kAllowanceOptions, kCompilerOptions);

const CommandSpec kBenchCommand = {
    "bench",
    "PROBLEM...",
    "compare with cuBLASLt or a copy baseline, interleaved in one run",
    "Measures the choice of the records, else of the estimator, beside "
    "cuBLASLt's own choice, and compares their results; where these differ, "
    "the family's reference says which side is wrong. A ratio is the peer's "
    "time over Kiln's: above 1, Kiln is faster. KILN_CUBLASLT names the "
    "peer's library.\nMemory-bound cases are compared with a copy baseline "
    "that moves the same bytes with as many reads and writes. A fraction is "
    "the baseline's time over Kiln's: at 1, nothing is left to gain. Ends "
    "with 1 if a result of Kiln's is wrong.\n  kiln bench --suite "
    "benchmarks/suites/memory_bound.json --budget 120s",
    kBenchOptions,
    runBench,
};

} // namespace kiln::cli
