//===- DrawRunner.cpp - one drawn case, in several states, beside a peer --===//
#include "kiln-bench/DrawRunner.h"

#include <llvm/ADT/STLExtras.h>

#include <map>

namespace kiln::cli {

/// One config of a case; several states may have chosen it.
struct DrawRunner::Measured {
  DrawChoice choice;
  std::vector<size_t> states; ///< by index
  LoadedChoice loaded;
};

/// Everything of one case while it is measured.
struct DrawRunner::Bench {
  const Case *which = nullptr;
  ComparedCase compared;
  std::vector<std::unique_ptr<Measured>> measured;
  /// The output that engines wrote when they met the case, by state; empty:
  /// none.
  std::vector<std::vector<OutputRows>> written;
};

llvm::Expected<std::unique_ptr<DrawRunner>>
DrawRunner::create(LiveSession &session, std::shared_ptr<const CublasLt> peer,
                   bool wantsBaseline) {
  auto comparer = Comparer::create(session, std::move(peer), wantsBaseline);
  if (!comparer)
    return comparer.takeError();
  return std::unique_ptr<DrawRunner>(
      new DrawRunner(session, std::move(*comparer)));
}

llvm::Error
DrawRunner::measure(size_t index,
                    llvm::ArrayRef<std::unique_ptr<DrawSource>> sources,
                    DrawRow &row) {
  row.sides.resize(sources.size());
  auto bench = std::make_unique<Bench>();
  bench->which = row.which;
  auto run = [&]() -> llvm::Error {
    if (llvm::Error error = preparePeer(*bench, row))
      return error;
    if (llvm::Error error = meetAll(index, sources, *bench, row))
      return error;
    if (llvm::Error error = validate(*bench, row))
      return error;
    if (llvm::Error error = sample(*bench, row))
      return error;
    return compare(*bench, row);
  };
  llvm::Error error = run();
  if (!error)
    return llvm::Error::success();
  ErrorSummary summary = summarize(std::move(error));
  for (DrawSide &side : row.sides)
    if (side.error.empty())
      side.error = summary.message;
  if (!endsAll(summary.code))
    return llvm::Error::success();
  // Freeing waits for the device, which may never answer: leave it all.
  (void)bench.release();
  return makeError(summary.code, "{}: {}", row.which->name, summary.message);
}

/// The operands and the peer.
llvm::Error DrawRunner::preparePeer(Bench &bench, DrawRow &row) {
  // Room for what engines try and a library allocates.
  constexpr unsigned kTenths = 4;
  ComparedCase &compared = bench.compared;
  if (llvm::Error error = comparer->prepareOperands(*row.which, kTenths,
                                                    /*hot=*/false, compared))
    return error;
  if (hasCopyBaseline(*row.which))
    row.bytes =
        streamBytesOf(*row.which->named.family, row.which->named.problem);
  if (llvm::Error error =
          comparer->preparePeer(*row.which, /*allAlgorithms=*/false, compared))
    return error;
  row.noPeer = compared.noPeer;
  if (compared.peer)
    row.peerKind = compared.peer->otherKind();
  return llvm::Error::success();
}

/// Asks each source for its choice; equal ones become one.
llvm::Error
DrawRunner::meetAll(size_t index,
                    llvm::ArrayRef<std::unique_ptr<DrawSource>> sources,
                    Bench &bench, DrawRow &row) {
  bench.written.resize(sources.size());
  std::map<std::string, Measured *> byConfig;
  for (auto [state, source] : llvm::enumerate(sources)) {
    DrawSide &side = row.sides[state];
    const TrialBuffers &buffers = *bench.compared.buffers;
    if (llvm::Error error = buffers.prepareOutputs(calls().handle()))
      return error;
    if (llvm::Error error = calls().synchronize())
      return error;
    auto choice = source->meet(index, buffers, calls());
    if (!choice) {
      ErrorSummary summary = summarize(choice.takeError());
      side.error = summary.message;
      if (endsAll(summary.code))
        return errorOf(summary);
      continue;
    }
    side.callMs = choice->callMs;
    side.config = choice->plan.configText();
    if (choice->callMs > 0 && bench.compared.peer) {
      auto rows = readOutputs(session.driver(), buffers);
      if (!rows)
        return rows.takeError();
      bench.written[state] = std::move(*rows);
    }
    if (!choice->artifacts.empty())
      row.toolchain = choice->artifacts.front()->toolchain;
    Measured *&known = byConfig[side.config];
    if (!known) {
      bench.measured.push_back(std::make_unique<Measured>());
      known = bench.measured.back().get();
      known->choice = std::move(*choice);
    }
    known->states.push_back(state);
  }
  return llvm::Error::success();
}

/// Compares each config with the family's reference.
llvm::Error DrawRunner::validate(Bench &bench, DrawRow &row) {
  TrialRequest request;
  request.family = bench.which->named.family;
  request.problem = bench.which->named.problem;
  request.options.measure = false;
  request.options.validation = TrialValidation::All;
  // The reference of the largest problems takes seconds.
  request.options.timeLimit = std::chrono::seconds(60);
  std::vector<Measured *> judged;
  for (const auto &one : bench.measured) {
    for (size_t state : one->states)
      row.sides[state].correct = one->choice.validated;
    if (one->choice.validated)
      continue;
    TrialCandidate &candidate = request.candidates.emplace_back();
    candidate.plan = one->choice.plan;
    candidate.artifacts = one->choice.artifacts;
    judged.push_back(one.get());
  }
  if (judged.empty())
    return llvm::Error::success();
  auto results = session.trials->run(request);
  session.trials->releaseScratch();
  if (!results)
    return results.takeError();
  for (auto [one, result] : llvm::zip(judged, *results)) {
    if (result.status == TrialStatus::ContextDead)
      return makeError(ErrorCode::ContextDead, "{}", result.message);
    for (size_t state : one->states) {
      DrawSide &side = row.sides[state];
      side.correct = result.status == TrialStatus::Ok && result.validated;
      if (!side.correct)
        side.error =
            fmt::format("{}: {}", nameOf(result.status), result.message);
    }
  }
  return llvm::Error::success();
}

llvm::Error DrawRunner::sample(Bench &bench, DrawRow &row) {
  std::vector<TimedLaunch> launches;
  for (const auto &one : bench.measured) {
    if (llvm::Error error = comparer->load(one->choice, one->loaded))
      return error;
    launches.push_back(one->loaded.launchOn(bench.compared));
  }
  if (launches.empty())
    return llvm::Error::success();
  auto times = comparer->sample(std::move(launches), bench.compared);
  if (!times)
    return times.takeError();
  for (auto [i, one] : llvm::enumerate(bench.measured))
    for (size_t state : one->states) {
      row.sides[state].ns = (*times)[i].ns;
      if ((*times)[i].error.code != ErrorCode::Success)
        row.sides[state].error = (*times)[i].error.message;
    }
  takePeerTimes(bench, llvm::ArrayRef(*times).drop_front(bench.measured.size()),
                row);
  return llvm::Error::success();
}

/// Takes over \p times of the sides that are not Kiln's.
void DrawRunner::takePeerTimes(const Bench &bench,
                               llvm::ArrayRef<SampledTime> times,
                               DrawRow &row) {
  if (bench.compared.baseline) {
    auto fastest = bench.compared.baseline->result(times);
    if (!fastest) {
      row.noPeer = summarize(fastest.takeError()).message;
      return;
    }
    row.peer = fastest->ns;
    row.variant = fastest->variant;
  } else if (bench.compared.peer) {
    if (times.front().error.code == ErrorCode::Success)
      row.peer = times.front().ns;
    else
      row.noPeer = times.front().error.message;
  }
}

/// Holds what engines wrote against what the peer writes.
llvm::Error DrawRunner::compare(Bench &bench, DrawRow &row) {
  if (row.peer.count == 0 || !bench.compared.peer || !row.peerKind.empty())
    return llvm::Error::success();
  auto expected =
      comparer->outputsOf(bench.compared, bench.compared.peer->first());
  if (!expected)
    return expected.takeError();
  for (auto [state, written] : llvm::enumerate(bench.written))
    if (!written.empty())
      row.sides[state].agrees = agreeOn(
          *bench.compared.product, *bench.compared.buffers, written, *expected);
  return llvm::Error::success();
}

} // namespace kiln::cli
