//===- DrawRunner.cpp - one drawn case, in several states, beside a peer --===//
#include "kiln/bench/DrawRunner.h"

#include "kiln/bench/BenchRunner.h"

#include <llvm/ADT/STLExtras.h>

#include <map>

namespace kiln::cli {

/// One config of a case; several states may have chosen it.
struct DrawRunner::Measured {
  DrawChoice choice;
  std::vector<size_t> states; ///< by index
  std::shared_ptr<const LoadedPlan> plan;
  DeviceMemory workspace;
  TimedLaunch launch;
};

/// Everything of one case while it is measured.
struct DrawRunner::Bench {
  const Case *which = nullptr;
  std::optional<TrialBuffers> buffers;
  std::vector<Arguments> arguments; ///< of each copy
  std::optional<MatrixProduct> product;
  std::unique_ptr<BenchPeer> peer;
  std::unique_ptr<BenchStream> stream; ///< in place of a peer
  std::vector<std::unique_ptr<Measured>> measured;
  /// What engines wrote when they met the case, by state; empty: nothing.
  std::vector<std::vector<OutputRows>> written;
};

DrawRunner::DrawRunner(LiveSession &session,
                       std::shared_ptr<const CublasLt> peer, bool wantsStream,
                       Stream stream, TrialTools tools)
    : session(session), peer(std::move(peer)), wantsStream(wantsStream),
      stream(std::move(stream)), tools(std::move(tools)),
      loader(session.driver()), streams(session.driver(), *session.artifacts,
                                        session.model(), this->tools) {}

llvm::Expected<std::unique_ptr<DrawRunner>>
DrawRunner::create(LiveSession &session, std::shared_ptr<const CublasLt> peer,
                   bool wantsStream) {
  auto stream = Stream::create(session.driver());
  if (!stream)
    return stream.takeError();
  auto tools =
      TrialTools::load(session.driver(), *session.artifacts, session.model());
  if (!tools)
    return tools.takeError();
  std::unique_ptr<DrawRunner> runner(
      new DrawRunner(session, std::move(peer), wantsStream, std::move(*stream),
                     std::move(*tools)));
  if (runner->peer) {
    auto memory = DeviceMemory::allocate(session.driver(), kPeerWorkspaceBytes);
    if (!memory)
      return memory.takeError();
    runner->peerWorkspace = std::move(*memory);
  }
  return runner;
}

llvm::Error
DrawRunner::measure(size_t index,
                    llvm::ArrayRef<std::unique_ptr<DrawSource>> sources,
                    DrawRow &row) {
  row.sides.resize(sources.size());
  auto bench = std::make_unique<Bench>();
  bench->which = row.which;
  auto run = [&]() -> llvm::Error {
    if (llvm::Error error = prepareOperands(*bench))
      return error;
    if (llvm::Error error = isStreamed(*row.which) ? prepareStream(*bench, row)
                                                   : preparePeer(*bench, row))
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

llvm::Error DrawRunner::prepareOperands(Bench &bench) {
  auto memory = memoryInfo(session.driver());
  if (!memory)
    return memory.takeError();
  TrialBufferOptions bufferOptions;
  // Room for what engines try and a library allocates.
  bufferOptions.capBytes = memory->freeBytes / 10 * 4;
  bufferOptions.l2Bytes = session.model().l2Bytes;
  const auto &[family, problem] = bench.which->named;
  bufferOptions.alignsTables = family->matrixProduct(problem).has_value();
  auto buffers = TrialBuffers::create(session.driver(), tools, *family, problem,
                                      bufferOptions, stream.handle());
  if (!buffers)
    return buffers.takeError();
  bench.buffers.emplace(std::move(*buffers));
  for (unsigned copy = 0; copy < bench.buffers->copies(); ++copy)
    bench.arguments.push_back(bench.buffers->arguments(copy));
  return stream.synchronize();
}

llvm::Error DrawRunner::preparePeer(Bench &bench, DrawRow &row) {
  const auto &[family, problem] = bench.which->named;
  bench.product = family->matrixProduct(problem);
  if (!bench.product || !peer) {
    row.noPeer = bench.product ? "" : "no library's peer computes it";
    return llvm::Error::success();
  }
  auto made = BenchPeer::create(
      session.driver(), peer, *bench.product,
      {bench.buffers->table(), bench.arguments, peerWorkspace.address()},
      /*allAlgorithms=*/false);
  if (!made) {
    row.noPeer = summarize(made.takeError()).message;
    return llvm::Error::success();
  }
  bench.peer = std::move(*made);
  row.peerKind = bench.peer->otherKind();
  return bench.peer->loadAll(session.driver(), stream.handle());
}

llvm::Error DrawRunner::prepareStream(Bench &bench, DrawRow &row) {
  row.bytes = streamBytesOf(bench.buffers->table());
  if (!wantsStream)
    return llvm::Error::success();
  auto made =
      streams.make(row.bytes, samplingOf(*bench.buffers), stream.handle());
  if (made) {
    bench.stream = std::move(*made);
    return llvm::Error::success();
  }
  ErrorSummary summary = summarize(made.takeError());
  if (endsAll(summary.code))
    return errorOf(summary);
  // Kiln is measured without it.
  row.noPeer = summary.message;
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
    if (llvm::Error error = bench.buffers->prepareOutputs(stream.handle()))
      return error;
    if (llvm::Error error = stream.synchronize())
      return error;
    auto choice = source->meet(index, *bench.buffers, stream);
    if (!choice) {
      ErrorSummary summary = summarize(choice.takeError());
      side.error = summary.message;
      if (endsAll(summary.code))
        return errorOf(summary);
      continue;
    }
    side.callMs = choice->callMs;
    side.config = choice->plan.configText();
    if (choice->callMs > 0 && bench.peer) {
      auto rows = readOutputs(session.driver(), *bench.buffers);
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

llvm::Error DrawRunner::load(Measured &measured, const Bench &bench) {
  auto plan = LoadedPlan::load(
      loader, measured.choice.plan, measured.choice.artifacts,
      static_cast<int32_t>(session.model().smCount), KernelLifetime::Users);
  if (!plan)
    return plan.takeError();
  measured.plan = std::move(*plan);
  const uint64_t bytes = measured.plan->workspace().bytes();
  auto workspace = DeviceMemory::allocate(session.driver(), bytes);
  if (!workspace)
    return workspace.takeError();
  measured.workspace = std::move(*workspace);
  measured.launch = [&](unsigned copy, CudaStream stream) {
    return measured.plan->launch(
        bench.arguments[copy],
        {measured.workspace.address(), measured.workspace.bytes(), true},
        stream);
  };
  return bytes ? fillAsync(session.driver(), measured.workspace.address(), 0,
                           bytes, stream.handle())
               : llvm::Error::success();
}

llvm::Error DrawRunner::sample(Bench &bench, DrawRow &row) {
  std::vector<TimedLaunch> launches;
  for (const auto &one : bench.measured) {
    if (llvm::Error error = load(*one, bench))
      return error;
    launches.push_back(one->launch);
  }
  if (launches.empty())
    return llvm::Error::success();
  if (bench.peer)
    launches.push_back(bench.peer->first());
  if (bench.stream)
    llvm::append_range(launches, bench.stream->finalists());
  SamplingOptions sampling = samplingOf(*bench.buffers);
  sampling.minSamples = 7;
  sampling.maxSamples = 15;
  sampling.dropSlower = false;
  auto times =
      measureInterleaved(session.driver(), stream.handle(), launches, sampling);
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

/// What \p times of the sides that are not Kiln's say.
void DrawRunner::takePeerTimes(const Bench &bench,
                               llvm::ArrayRef<SampledTime> times,
                               DrawRow &row) {
  if (bench.stream) {
    auto fastest = bench.stream->result(times);
    if (!fastest) {
      row.noPeer = summarize(fastest.takeError()).message;
      return;
    }
    row.peer = fastest->ns;
    row.stream = fastest->variant;
  } else if (bench.peer) {
    if (times.front().error.code == ErrorCode::Success)
      row.peer = times.front().ns;
    else
      row.noPeer = times.front().error.message;
  }
}

/// A sample of each output after one run of \p launch on poisoned buffers.
llvm::Expected<std::vector<OutputRows>>
DrawRunner::outputsOf(const Bench &bench, const TimedLaunch &launch) {
  if (llvm::Error error = bench.buffers->prepareOutputs(stream.handle()))
    return error;
  if (llvm::Error error = launch(0, stream.handle()))
    return error;
  if (llvm::Error error = stream.synchronize())
    return error;
  return readOutputs(session.driver(), *bench.buffers);
}

/// Holds what engines wrote against what the peer writes.
llvm::Error DrawRunner::compare(Bench &bench, DrawRow &row) {
  if (row.peer.count == 0 || !bench.peer || !row.peerKind.empty())
    return llvm::Error::success();
  auto expected = outputsOf(bench, bench.peer->first());
  if (!expected)
    return expected.takeError();
  for (auto [state, written] : llvm::enumerate(bench.written))
    if (!written.empty())
      row.sides[state].agrees =
          agreeOn(*bench.product, *bench.buffers, written, *expected);
  return llvm::Error::success();
}

} // namespace kiln::cli
