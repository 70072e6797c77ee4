//===- BenchRunner.cpp - one case, Kiln beside a peer ---------------------===//
//
// Both sides read and write the same buffers and are sampled in turns by the
// loop that trials use, so that a clock that drifts meets both alike.
//
//===----------------------------------------------------------------------===//
#include "kiln/BenchRunner.h"

#include <algorithm>
#include <cmath>

namespace kiln::cli {

/// What frameworks give cuBLASLt on Hopper and later.
static constexpr uint64_t kPeerWorkspaceBytes = 64ull << 20;

/// More algorithms than its heuristic has ever answered.
static constexpr int kManyAlgorithms = 100;

/// Everything of one case while it is measured.
struct BenchRunner::Bench {
  const Problem *problem = nullptr;
  OperandTable table;
  Arguments arguments;
  std::shared_ptr<const LoadedPlan> plan;
  DeviceMemory workspace;
  std::optional<BenchBuffers> buffers;
  TimedLaunch kiln;

  std::unique_ptr<CublasLtMatmul> matmul;
  std::vector<CublasLtAlgorithm> algorithms;
  std::vector<TimedLaunch> peers; ///< one for each algorithm
  size_t best = 0;                ///< index of the fastest of them
};

BenchRunner::BenchRunner(LiveSession &session,
                         std::shared_ptr<const CublasLt> peer,
                         BenchOptions options, Stream stream)
    : session(session), peer(std::move(peer)), options(options),
      stream(std::move(stream)), loader(session.driver()),
      pool(session.driver()) {}

llvm::Expected<std::unique_ptr<BenchRunner>>
BenchRunner::create(LiveSession &session, std::shared_ptr<const CublasLt> peer,
                    BenchOptions options) {
  auto stream = Stream::create(session.driver());
  if (!stream)
    return stream.takeError();
  std::unique_ptr<BenchRunner> runner(
      new BenchRunner(session, std::move(peer), options, std::move(*stream)));
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
  auto bench = std::make_unique<Bench>();
  bench->problem = &row.which->named.problem;
  bench->table = row.which->named.family->operands(*bench->problem);
  auto run = [&]() -> llvm::Error {
    if (llvm::Error error = validate(choice, row))
      return error;
    if (llvm::Error error = prepare(choice, *bench))
      return error;
    if (llvm::Error error = prepareOperands(*bench, row))
      return error;
    if (llvm::Error error = preparePeer(*bench, row))
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
  request.family = row.which->named.family->name().str();
  request.problem = row.which->text();
  request.candidates.push_back({row.config, choice.artifacts});
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
  auto workspace = DeviceMemory::allocate(driver, layout.bytes);
  if (!workspace)
    return workspace.takeError();
  bench.workspace = std::move(*workspace);
  return layout.bytes ? fillAsync(driver, bench.workspace.address(), 0,
                                  layout.bytes, stream.handle())
                      : llvm::Error::success();
}

llvm::Error BenchRunner::prepareOperands(Bench &bench, BenchRow &row) {
  const Driver &driver = session.driver();
  auto memory = memoryInfo(driver);
  if (!memory)
    return memory.takeError();
  // Room for what a library allocates by itself.
  uint64_t limit = options.hot ? 1 : memory->freeBytes / 10 * 8;
  auto buffers = BenchBuffers::create(driver, session.model(), bench.table,
                                      limit, pool, stream.handle());
  if (!buffers)
    return buffers.takeError();
  bench.buffers.emplace(std::move(*buffers));
  row.copies = bench.buffers->copies();

  bench.arguments = row.which->named.family->defaultArguments(*bench.problem);
  bench.kiln = [this, &bench](unsigned copy, CudaStream stream) {
    Arguments arguments = bench.arguments;
    const OperandAddresses &addresses = bench.buffers->addresses(copy);
    for (size_t i = 0; i < addresses.size(); ++i)
      if (bench.table.operands[i].present)
        arguments.operands[i].address = addresses[i];
    return bench.plan->launch(
        arguments, {bench.workspace.address(), bench.workspace.bytes(), true},
        stream);
  };

  return llvm::Error::success();
}

llvm::Error BenchRunner::preparePeer(Bench &bench, BenchRow &row) {
  if (!peer || row.which->named.family->name() != "gemm") {
    row.noPeer = peer ? "it has no such family" : "none was asked for";
    return llvm::Error::success();
  }
  GemmProblem problem = readGemmProblem(bench.arguments.problem);
  int64_t misalignment = bench.table.operands[bench.table.output].misalignment;
  uint32_t alignment = misalignment ? static_cast<uint32_t>(misalignment) : 256;
  auto matmul =
      CublasLtMatmul::create(peer, problem, alignment, kPeerWorkspaceBytes);
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
          return bench.matmul->launch(algorithm, bench.buffers->addresses(copy),
                                      peerWorkspace.address(), stream);
        });
  return options.allAlgorithms ? pickBest(bench, row) : llvm::Error::success();
}

/// Finds the fastest of the peer's algorithms with few samples; the final run
/// measures it again beside Kiln.
llvm::Error BenchRunner::pickBest(Bench &bench, BenchRow &row) {
  SamplingOptions sampling;
  sampling.minSamples = 3;
  sampling.maxSamples = 5;
  sampling.copies = bench.buffers->copies();
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
  SamplingOptions sampling;
  sampling.minSamples = 7;
  sampling.maxSamples = 15;
  sampling.dropSlower = false;
  sampling.copies = bench.buffers->copies();
  auto times = measureInterleaved(session.driver(), stream.handle(), launchers,
                                  sampling);
  if (!times)
    return times.takeError();
  const SampledTime &own = times->front();
  if (own.error.code != ErrorCode::Success)
    return makeError(own.error.code, "{}", own.error.message);
  row.kiln = own.ns;
  row.launches = own.launches;
  if (times->size() > 1) {
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

/// A sample of the rows of the output after one run of \p launch on buffers
/// that held NaN before.
llvm::Expected<std::vector<std::vector<float>>>
BenchRunner::outputOf(const Bench &bench, const TimedLaunch &launch) {
  const Driver &driver = session.driver();
  const OperandSpec &spec = bench.table.operands[bench.table.output];
  DeviceAddress address = bench.buffers->addresses(0)[bench.table.output];
  if (llvm::Error error =
          fillAsync(driver, address, 0xff, static_cast<uint64_t>(spec.bytes()),
                    stream.handle()))
    return error;
  if (llvm::Error error = launch(0, stream.handle()))
    return error;
  if (llvm::Error error = stream.synchronize())
    return error;
  constexpr int64_t kRows = 64;
  int64_t all = spec.rows * spec.batch, count = std::min(all, kRows);
  std::vector<std::vector<float>> rows;
  for (int64_t i = 0; i < count; ++i) {
    // From the first to the last.
    int64_t row = count > 1 ? i * (all - 1) / (count - 1) : 0;
    auto values = readRow(driver, spec, address, row);
    if (!values)
      return values.takeError();
    rows.push_back(std::move(*values));
  }
  return rows;
}

/// Both sides' outputs must differ by no more than two errors of the size that
/// the problem's tolerance allows each. The sum of |a*b| behind it is not
/// known here; k is above it for N(0, 1) data, whose products' mean size is
/// 0.64.
llvm::Error BenchRunner::compare(Bench &bench, BenchRow &row) {
  if (row.peer.count == 0)
    return llvm::Error::success();
  auto own = outputOf(bench, bench.kiln);
  if (!own)
    return own.takeError();
  auto other = outputOf(bench, bench.peers.front());
  if (!other)
    return other.takeError();
  GemmProblem problem = readGemmProblem(bench.arguments.problem);
  const Tolerance &tolerance = bench.table.tolerance;
  constexpr double kSmallSums =
      16; // few products may be larger than their mean
  double bound = tolerance.scaled *
                 (std::abs(problem.alpha) * double(problem.k) + kSmallSums);
  row.agrees = true;
  for (size_t i = 0; i < own->size(); ++i)
    for (size_t j = 0; j < (*own)[i].size(); ++j) {
      double a = (*own)[i][j], b = (*other)[i][j];
      double allowed =
          2 * (tolerance.relative * std::max(std::abs(a), std::abs(b)) + bound);
      // Not a number compares false.
      row.agrees = *row.agrees && std::abs(a - b) <= allowed;
    }
  return llvm::Error::success();
}

} // namespace kiln::cli
