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

#include <algorithm>
#include <cmath>

namespace kiln::cli {

/// What frameworks give cuBLASLt on Hopper and later.
static constexpr uint64_t kPeerWorkspaceBytes = 64ull << 20;

/// More algorithms than its heuristic has ever answered.
static constexpr int kManyAlgorithms = 100;

/// Everything of one case while it is measured.
struct BenchRunner::Bench {
  std::shared_ptr<const LoadedPlan> plan;
  DeviceMemory workspace;
  std::optional<TrialBuffers> buffers;
  std::vector<Arguments> arguments; ///< of each copy
  TimedLaunch kiln;

  std::optional<MatrixProduct> product; ///< what the library's peer computes
  std::unique_ptr<CublasLtMatmul> matmul;
  std::vector<CublasLtAlgorithm> algorithms;
  std::vector<TimedLaunch> peers; ///< one for each algorithm
  size_t best = 0;                ///< index of the fastest of them

  std::unique_ptr<BenchStream> stream; ///< in place of a peer
};

BenchRunner::BenchRunner(LiveSession &session,
                         std::shared_ptr<const CublasLt> peer,
                         BenchOptions options, Stream stream, TrialTools tools)
    : session(session), peer(std::move(peer)), options(options),
      stream(std::move(stream)), tools(std::move(tools)),
      loader(session.driver()) {}

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

/// Whether the device is of no more use.
static bool endsAll(ErrorCode code) {
  return code == ErrorCode::ContextDead || code == ErrorCode::InProgress;
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
  auto matmul = CublasLtMatmul::create(
      peer, *bench.product, bench.buffers->table(), kPeerWorkspaceBytes);
  if (!matmul) {
    row.noPeer = summarize(matmul.takeError()).message;
    return llvm::Error::success();
  }
  bench.matmul = std::move(*matmul);
  auto algorithms =
      bench.matmul->algorithms(options.allAlgorithms ? kManyAlgorithms : 1);
  if (!algorithms) {
    row.noPeer = summarize(algorithms.takeError()).message;
    return llvm::Error::success();
  }
  row.noPeer.clear();
  bench.algorithms = std::move(*algorithms);
  for (const CublasLtAlgorithm &algorithm : bench.algorithms)
    bench.peers.push_back(
        [this, &bench, &algorithm](unsigned copy, CudaStream stream) {
          return bench.matmul->launch(algorithm, bench.arguments[copy],
                                      peerWorkspace.address(), stream);
        });
  if (llvm::Error error = loadPeers(bench))
    return error;
  return options.allAlgorithms ? pickBest(bench, row) : llvm::Error::success();
}

/// Runs each algorithm once: the driver loads a library's kernel at its first
/// launch, and where that is one of a graph in the making, the graph runs up to
/// a third slower than one made later. What fails is sampling's to report.
llvm::Error BenchRunner::loadPeers(const Bench &bench) {
  for (const TimedLaunch &launch : bench.peers)
    if (llvm::Error error = launch(0, stream.handle())) {
      ErrorSummary summary = summarize(std::move(error));
      if (endsAll(summary.code))
        return errorOf(summary);
    }
  return stream.synchronize();
}

/// How samples are taken over \p buffers, which must outlive it.
static SamplingOptions samplingOf(const TrialBuffers &buffers) {
  SamplingOptions sampling;
  sampling.copies = buffers.copies();
  sampling.warm = [&](CudaStream stream) { return buffers.flush(stream); };
  if (buffers.needsFlush())
    sampling.flush = sampling.warm;
  return sampling;
}

/// The stream kernels of \p mix, loaded once.
llvm::Expected<const StreamTools *> BenchRunner::streamTools(StreamMix mix) {
  auto known = streams.find({mix.reads, mix.writes});
  if (known != streams.end())
    return &known->second;
  auto loaded = StreamTools::load(session.driver(), *session.artifacts,
                                  session.model(), mix);
  if (!loaded)
    return loaded.takeError();
  return &streams.emplace(std::pair(mix.reads, mix.writes), std::move(*loaded))
              .first->second;
}

llvm::Error BenchRunner::makeStream(Bench &bench, const StreamBytes &bytes) {
  auto kernels = streamTools(bytes.mix());
  if (!kernels)
    return kernels.takeError();
  auto made = BenchStream::create(session.driver(), tools, **kernels, bytes,
                                  bench.buffers->copies(), stream.handle());
  if (!made)
    return made.takeError();
  bench.stream = std::move(*made);
  return bench.stream->pickBest(stream.handle(), samplingOf(*bench.buffers));
}

llvm::Error BenchRunner::prepareStream(Bench &bench, BenchRow &row) {
  if (!options.wantsStream) {
    row.noPeer = "none was asked for";
    return llvm::Error::success();
  }
  llvm::Error error = makeStream(bench, row.stream.bytes);
  if (!error)
    return llvm::Error::success();
  ErrorSummary summary = summarize(std::move(error));
  if (endsAll(summary.code))
    return errorOf(summary);
  // Kiln is measured without it.
  bench.stream.reset();
  row.noPeer = summary.message;
  return llvm::Error::success();
}

/// Finds the fastest of the peer's algorithms with few samples; the final run
/// measures it again beside Kiln.
llvm::Error BenchRunner::pickBest(Bench &bench, BenchRow &row) {
  SamplingOptions sampling = samplingOf(*bench.buffers);
  sampling.minSamples = 3;
  sampling.maxSamples = 5;
  auto times = measureInterleaved(session.driver(), stream.handle(),
                                  bench.peers, sampling);
  if (!times)
    return times.takeError();
  double bestNs = INFINITY;
  for (size_t i = 0; i < times->size(); ++i) {
    const SampledTime &time = (*times)[i];
    if (time.error.code != ErrorCode::Success || time.ns.count == 0 ||
        time.ns.median >= bestNs)
      continue;
    bestNs = time.ns.median;
    bench.best = i;
  }
  row.algorithms = bench.peers.size();
  return llvm::Error::success();
}

llvm::Error BenchRunner::sample(Bench &bench, BenchRow &row) {
  std::vector<TimedLaunch> launchers = {bench.kiln};
  if (!bench.peers.empty())
    launchers.push_back(bench.peers.front());
  if (bench.best != 0)
    launchers.push_back(bench.peers[bench.best]);
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
  std::vector<OutputRows> outputs;
  for (const TrialOutput &output : buffers.outputs()) {
    auto rows = readRows(session.driver(), buffers.specOf(output),
                         buffers.addressOf(output));
    if (!rows)
      return rows.takeError();
    outputs.push_back(std::move(*rows));
  }
  return outputs;
}

llvm::Error BenchRunner::compare(Bench &bench, BenchRow &row) {
  if (row.peer.count == 0)
    return llvm::Error::success();
  auto own = outputsOf(bench, bench.kiln);
  if (!own)
    return own.takeError();
  auto other = outputsOf(bench, bench.peers.front());
  if (!other)
    return other.takeError();
  // The sum of |a*b| behind the tolerance is not known here. k is above it for
  // N(0, 1) data, whose products' mean size is 0.64, except for very few
  // products.
  constexpr double kFewProducts = 16;
  double bound =
      std::abs(bench.product->alpha) * static_cast<double>(bench.product->k) +
      kFewProducts;
  row.agrees = true;
  llvm::ArrayRef<TrialOutput> outputs = bench.buffers->outputs();
  for (size_t i = 0; i < outputs.size(); ++i)
    *row.agrees &= agree((*own)[i], (*other)[i],
                         bench.buffers->specOf(outputs[i]).tolerance, bound);
  return llvm::Error::success();
}

} // namespace kiln::cli
