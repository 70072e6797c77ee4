//===- BenchRunner.cpp ----------------------------------------------------===//
#include "compare/BenchRunner.h"

#include "Kernel/Roofline.h"

namespace kiln::cli {

/// Everything of one case while it is measured.
struct BenchRunner::Bench {
  ComparedCase compared;
  LoadedChoice loaded;
  TimedLaunch kiln;
};

llvm::Expected<std::unique_ptr<BenchRunner>>
BenchRunner::create(LiveSession &session, std::shared_ptr<const CublasLt> peer,
                    BenchOptions options) {
  auto comparer =
      Comparer::create(session, std::move(peer), options.wantsBaseline);
  if (!comparer)
    return comparer.takeError();
  return std::unique_ptr<BenchRunner>(
      new BenchRunner(session, options, std::move(*comparer)));
}

llvm::Error BenchRunner::measure(const BenchChoice &choice, BenchRow &row) {
  row.config = choice.plan.configText();
  row.from = choice.from;
  if (!choice.artifacts.empty())
    row.toolchain = choice.artifacts.front()->toolchain;
  const auto &[family, problem] = row.which->named;
  const Roofline roof = rooflineOf(*family, problem, session.model());
  row.rooflineNs = roof.leastNs();
  if (roof.arithmetic)
    row.peakNs = roof.arithmetic->flop.value() / roof.arithmetic->peak.value();
  if (row.hasCopyBaseline())
    row.baseline.bytes = streamBytesOf(*family, problem);
  auto bench = std::make_unique<Bench>();
  auto run = [&]() -> llvm::Error {
    if (llvm::Error error = validate(choice, row))
      return error;
    if (llvm::Error error = prepare(choice, *bench, row))
      return error;
    if (llvm::Error error = sample(*bench, row))
      return error;
    if (llvm::Error error = compare(*bench, row))
      return error;
    return timeCalls(*bench, row);
  };
  llvm::Error error = run();
  if (!error)
    return llvm::Error::success();
  ErrorSummary summary = summarize(std::move(error));
  row.error = summary.message;
  if (!endsAll(summary.code))
    return llvm::Error::success();
  // Freeing waits for the device, which may never answer: leave it all.
  (void)bench.release();
  return makeError(summary.code, "{}: {}", row.which->name, summary.message);
}

llvm::Error BenchRunner::validate(const BenchChoice &choice, BenchRow &row) {
  row.correct = choice.validated;
  if (row.correct)
    return llvm::Error::success();
  TrialRequest request;
  request.family = row.which->named.family;
  request.problem = row.which->named.problem;
  TrialCandidate &candidate = request.candidates.emplace_back();
  candidate.plan = choice.plan;
  candidate.artifacts = choice.artifacts;
  request.options.measure = false;
  request.options.validation = TrialValidation::All;
  auto results = session.trials->run(request);
  session.trials->releaseScratch();
  if (!results)
    return results.takeError();
  const TrialResult &result = results->front();
  row.correct = result.status == TrialStatus::Ok && result.validated;
  if (result.status == TrialStatus::Ok)
    return llvm::Error::success();
  return makeError(result.status == TrialStatus::ContextDead
                       ? ErrorCode::ContextDead
                       : ErrorCode::Internal,
                   "{}: {}", nameOf(result.status), result.message);
}

llvm::Error BenchRunner::prepare(const BenchChoice &choice, Bench &bench,
                                 BenchRow &row) {
  // Room for what a library allocates by itself.
  constexpr unsigned kTenths = 8;
  ComparedCase &compared = bench.compared;
  if (llvm::Error error = comparer->load(choice, bench.loaded))
    return error;
  if (llvm::Error error =
          comparer->prepareOperands(*row.which, kTenths, options.hot, compared))
    return error;
  bench.kiln = bench.loaded.launchOn(compared);
  row.copies = compared.buffers->copies();
  if (llvm::Error error =
          comparer->preparePeer(*row.which, options.allAlgorithms, compared))
    return error;
  row.noPeer = compared.noPeer;
  if (compared.peer) {
    row.peerKind = compared.peer->otherKind();
    row.algorithms =
        options.allAlgorithms ? compared.peer->algorithmCount() : 0;
  } else if (!compared.baseline && row.noPeer.empty()) {
    row.noPeer = "none was asked for";
  }
  return llvm::Error::success();
}

llvm::Error BenchRunner::sample(Bench &bench, BenchRow &row) {
  auto times = comparer->sample({bench.kiln}, bench.compared);
  if (!times)
    return times.takeError();
  const SampledTime &own = times->front();
  if (own.error.code != ErrorCode::Success)
    return errorOf(own.error);
  row.kiln = own.ns;
  row.launches = own.launches;
  if (bench.compared.baseline) {
    auto reference =
        bench.compared.baseline->result(llvm::ArrayRef(*times).drop_front());
    if (reference)
      row.baseline = std::move(*reference);
    else
      row.noPeer = summarize(reference.takeError()).message;
  } else if (times->size() > 1) {
    const SampledTime &other = (*times)[1];
    if (other.error.code == ErrorCode::Success)
      row.peer = other.ns;
    else
      row.noPeer = other.error.message;
    if (row.algorithms > 0)
      row.best = times->back().ns;
  }
  return llvm::Error::success();
}

llvm::Error BenchRunner::compare(Bench &bench, BenchRow &row) {
  if (row.peer.count == 0 || !row.peerKind.empty())
    return llvm::Error::success();
  const ComparedCase &compared = bench.compared;
  auto own = comparer->outputsOf(compared, bench.kiln);
  if (!own)
    return own.takeError();
  auto other = comparer->outputsOf(compared, compared.peer->first());
  if (!other)
    return other.takeError();
  row.agrees = agreeOn(*compared.product, *compared.buffers, *own, *other);
  if (*row.agrees)
    return llvm::Error::success();
  auto verdict = comparer->judge(*row.which, bench.compared, bench.kiln);
  if (!verdict)
    return verdict.takeError();
  row.correct &= !verdict->isKilnWrong();
  row.verdict = std::move(*verdict);
  return llvm::Error::success();
}

llvm::Error BenchRunner::timeCalls(const Bench &bench, BenchRow &row) {
  if (!options.engine)
    return llvm::Error::success();
  auto call = timeEngineCall(options.engine, row.which->text(),
                             *bench.compared.buffers, comparer->stream());
  if (!call)
    return addContext(call.takeError(), "a call of an engine");
  row.call = std::move(*call);
  return llvm::Error::success();
}

} // namespace kiln::cli
