//===- BenchRunner.cpp - one case, Kiln beside a peer ---------------------===//
//
// Both sides are sampled in turns by the loop that trials use, so that a clock
// that drifts meets both alike. A peer that computes the same reads and writes
// the same buffers; a reference stream has its own.
//
//===----------------------------------------------------------------------===//
#include "kiln/bench/BenchRunner.h"

#include "Trial/TrialBuffers.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln::cli {

/// Everything of one case while it is measured.
struct BenchRunner::Bench {
  std::shared_ptr<const LoadedPlan> plan;
  DeviceMemory workspace;
  std::optional<TrialBuffers> buffers;
  std::vector<Arguments> arguments; ///< of each copy
  TimedLaunch kiln;

  std::optional<MatrixProduct> product; ///< what the library's peer computes
  std::unique_ptr<BenchPeer> peer;

  std::unique_ptr<BenchStream> stream; ///< in place of a peer
};

BenchRunner::BenchRunner(LiveSession &session,
                         std::shared_ptr<const CublasLt> peer,
                         BenchOptions options, Stream stream, TrialTools tools)
    : session(session), peer(std::move(peer)), options(options),
      stream(std::move(stream)), tools(std::move(tools)),
      loader(session.driver()), streams(session.driver(), *session.artifacts,
                                        session.model(), this->tools) {}

llvm::Expected<std::unique_ptr<BenchRunner>>
BenchRunner::create(LiveSession &session, std::shared_ptr<const CublasLt> peer,
                    BenchOptions options) {
  auto stream = Stream::create(session.driver());
  if (!stream)
    return stream.takeError();
  auto tools =
      TrialTools::load(session.driver(), *session.artifacts, session.model());
  if (!tools)
    return tools.takeError();
  std::unique_ptr<BenchRunner> runner(
      new BenchRunner(session, std::move(peer), options, std::move(*stream),
                      std::move(*tools)));
  if (runner->peer) {
    auto memory = DeviceMemory::allocate(session.driver(), kPeerWorkspaceBytes);
    if (!memory)
      return memory.takeError();
    runner->peerWorkspace = std::move(*memory);
  }
  return runner;
}

llvm::Error BenchRunner::measure(const BenchChoice &choice, BenchRow &row) {
  row.config = choice.plan.configText();
  row.from = choice.from;
  if (!choice.artifacts.empty())
    row.toolchain = choice.artifacts.front()->toolchain;
  const auto &[family, problem] = row.which->named;
  if (row.isStreamed())
    row.stream.bytes = streamBytesOf(family->operands(problem));
  auto bench = std::make_unique<Bench>();
  auto run = [&]() -> llvm::Error {
    if (llvm::Error error = validate(choice, row))
      return error;
    if (llvm::Error error = prepare(choice, *bench))
      return error;
    if (llvm::Error error = prepareOperands(*bench, row))
      return error;
    if (llvm::Error error = row.isStreamed() ? prepareStream(*bench, row)
                                             : preparePeer(*bench, row))
      return error;
    if (llvm::Error error = sample(*bench, row))
      return error;
    return compare(*bench, row);
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

llvm::Error BenchRunner::prepare(const BenchChoice &choice, Bench &bench) {
  const Driver &driver = session.driver();
  auto plan = LoadedPlan::load(loader, choice.plan, choice.artifacts,
                               static_cast<int32_t>(session.model().smCount),
                               KernelLifetime::Users);
  if (!plan)
    return plan.takeError();
  bench.plan = std::move(*plan);
  const WorkspaceLayout &layout = bench.plan->workspace();
  auto workspace = DeviceMemory::allocate(driver, layout.bytes());
  if (!workspace)
    return workspace.takeError();
  bench.workspace = std::move(*workspace);
  return layout.bytes() ? fillAsync(driver, bench.workspace.address(), 0,
                                    layout.bytes(), stream.handle())
                        : llvm::Error::success();
}

llvm::Error BenchRunner::prepareOperands(Bench &bench, BenchRow &row) {
  auto memory = memoryInfo(session.driver());
  if (!memory)
    return memory.takeError();
  TrialBufferOptions bufferOptions;
  // Room for what a library allocates by itself.
  bufferOptions.capBytes = memory->freeBytes / 10 * 8;
  bufferOptions.forTiming = !options.hot;
  bufferOptions.l2Bytes = session.model().l2Bytes;
  const auto &[family, problem] = row.which->named;
  bufferOptions.alignsTables = family->matrixProduct(problem).has_value();
  auto buffers = TrialBuffers::create(session.driver(), tools, *family, problem,
                                      bufferOptions, stream.handle());
  if (!buffers)
    return buffers.takeError();
  bench.buffers.emplace(std::move(*buffers));
  row.copies = bench.buffers->copies();
  for (unsigned copy = 0; copy < row.copies; ++copy)
    bench.arguments.push_back(bench.buffers->arguments(copy));
  bench.kiln = [&bench](unsigned copy, CudaStream stream) {
    return bench.plan->launch(
        bench.arguments[copy],
        {bench.workspace.address(), bench.workspace.bytes(), true}, stream);
  };
  return llvm::Error::success();
}

SamplingOptions samplingOf(const TrialBuffers &buffers) {
  SamplingOptions sampling;
  sampling.copies = buffers.copies();
  sampling.warm = [&](CudaStream stream) { return buffers.flush(stream); };
  if (buffers.needsFlush())
    sampling.flush = sampling.warm;
  return sampling;
}

llvm::Error BenchRunner::preparePeer(Bench &bench, BenchRow &row) {
  const auto &[family, problem] = row.which->named;
  bench.product = family->matrixProduct(problem);
  if (!bench.product) {
    row.noPeer = "bench calls no library that computes it";
    return llvm::Error::success();
  }
  if (!peer) {
    row.noPeer = "none was asked for";
    return llvm::Error::success();
  }
  auto made = BenchPeer::create(
      session.driver(), peer, *bench.product,
      {bench.buffers->table(), bench.arguments, peerWorkspace.address()},
      options.allAlgorithms);
  if (!made) {
    row.noPeer = summarize(made.takeError()).message;
    return llvm::Error::success();
  }
  row.noPeer.clear();
  bench.peer = std::move(*made);
  row.peerKind = bench.peer->otherKind();
  if (llvm::Error error =
          bench.peer->loadAll(session.driver(), stream.handle()))
    return error;
  if (!options.allAlgorithms)
    return llvm::Error::success();
  row.algorithms = bench.peer->algorithmCount();
  return bench.peer->pickBest(session.driver(), stream.handle(),
                              samplingOf(*bench.buffers));
}

llvm::Error BenchRunner::prepareStream(Bench &bench, BenchRow &row) {
  if (!options.wantsStream) {
    row.noPeer = "none was asked for";
    return llvm::Error::success();
  }
  auto made = streams.make(row.stream.bytes, samplingOf(*bench.buffers),
                           stream.handle());
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

llvm::Error BenchRunner::sample(Bench &bench, BenchRow &row) {
  std::vector<TimedLaunch> launchers = {bench.kiln};
  if (bench.peer)
    launchers.push_back(bench.peer->first());
  if (bench.peer && bench.peer->best())
    launchers.push_back(*bench.peer->best());
  if (bench.stream)
    llvm::append_range(launchers, bench.stream->finalists());
  SamplingOptions sampling = samplingOf(*bench.buffers);
  sampling.minSamples = 7;
  sampling.maxSamples = 15;
  sampling.dropSlower = false;
  auto times = measureInterleaved(session.driver(), stream.handle(), launchers,
                                  sampling);
  if (!times)
    return times.takeError();
  const SampledTime &own = times->front();
  if (own.error.code != ErrorCode::Success)
    return errorOf(own.error);
  row.kiln = own.ns;
  row.launches = own.launches;
  if (bench.stream) {
    auto reference = bench.stream->result(llvm::ArrayRef(*times).drop_front());
    if (reference)
      row.stream = std::move(*reference);
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

/// A sample of each output after one run of \p launch on poisoned buffers.
llvm::Expected<std::vector<OutputRows>>
BenchRunner::outputsOf(const Bench &bench, const TimedLaunch &launch) {
  const TrialBuffers &buffers = *bench.buffers;
  if (llvm::Error error = buffers.prepareOutputs(stream.handle()))
    return error;
  if (llvm::Error error = launch(0, stream.handle()))
    return error;
  if (llvm::Error error = stream.synchronize())
    return error;
  return readOutputs(session.driver(), buffers);
}

llvm::Error BenchRunner::compare(Bench &bench, BenchRow &row) {
  if (row.peer.count == 0 || !row.peerKind.empty())
    return llvm::Error::success();
  auto own = outputsOf(bench, bench.kiln);
  if (!own)
    return own.takeError();
  auto other = outputsOf(bench, bench.peer->first());
  if (!other)
    return other.takeError();
  row.agrees = agreeOn(*bench.product, *bench.buffers, *own, *other);
  return llvm::Error::success();
}

} // namespace kiln::cli
