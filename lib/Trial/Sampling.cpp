//===- Sampling.cpp - times of launches, measured side by side ------------===//
#include "Trial/Sampling.h"

#include "Driver/Context.h"
#include "Driver/DeviceMemory.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <thread>

namespace kiln {

using Clock = std::chrono::steady_clock;

llvm::Error waitWithLimit(const Driver &driver, CudaStream stream,
                          std::chrono::milliseconds limit) {
  auto event = Event::create(driver, Event::Timing::Disabled);
  if (!event)
    return event.takeError();
  if (llvm::Error error = event->record(stream))
    return error;
  return waitWithLimit(*event, limit);
}

llvm::Error waitWithLimit(const Event &end, std::chrono::milliseconds limit) {
  // Most waits are short, so the thread spins first and notices the end at
  // once.
  constexpr auto kSpin = std::chrono::milliseconds(2);
  constexpr auto kNap = std::chrono::microseconds(50);
  Clock::time_point begin = Clock::now();
  for (;;) {
    auto done = end.isDone();
    if (!done)
      return done.takeError();
    if (*done)
      return llvm::Error::success();
    Clock::duration waited = Clock::now() - begin;
    if (waited > limit)
      return makeError(ErrorCode::InProgress,
                       "the device did not finish within {} ms", limit.count());
    if (waited > kSpin)
      std::this_thread::sleep_for(kNap);
  }
}

llvm::Error readWithLimit(const Driver &driver, void *to, DeviceAddress from,
                          uint64_t bytes, CudaStream stream,
                          std::chrono::milliseconds limit) {
  // This comes first, because a copy to pageable memory returns only when it is
  // done.
  if (llvm::Error error = waitWithLimit(driver, stream, limit))
    return error;
  auto staging = std::make_unique<char[]>(bytes);
  if (llvm::Error error =
          copyToHostAsync(driver, staging.get(), from, bytes, stream))
    return error;
  if (llvm::Error error = waitWithLimit(driver, stream, limit)) {
    (void)staging.release(); // the copy may yet come
    return error;
  }
  std::memcpy(to, staging.get(), bytes);
  return llvm::Error::success();
}

namespace {

/// The least duration of a sample, if the copies allow it: events resolve about
/// 500 ns and a graph takes some us to begin.
constexpr double kSampleNs = 400e3;
/// Below this time a launch is short: the host could not keep the device busy.
constexpr double kShortNs = 20e3;
constexpr unsigned kShortLaunches = 16, kMaxLaunches = 256;
/// In the first rounds a launcher is dropped only if it is slower by this
/// factor.
constexpr unsigned kEarlyRounds = 3;
constexpr double kEarlyFactor = 1.05;

/// One launcher while it is sampled.
struct Lane {
  explicit Lane(const TimedLaunch &run) : run(&run) {}

  /// False also for a lane that was not prepared before the deadline.
  bool isActive() const {
    return result.launches != 0 && !result.dropped &&
           result.error.code == ErrorCode::Success;
  }

  const TimedLaunch *run;
  SampledTime result;
  std::optional<Graph> graph; ///< of result.launches launches
  std::optional<Event> start, stop;
  double sampleNs = 0; ///< about the time of a sample
  size_t row = 0;      ///< of its samples
  bool isKept = false;
};

class Sampler {
public:
  Sampler(const Driver &driver, CudaStream stream,
          llvm::ArrayRef<TimedLaunch> launchers, const SamplingOptions &options)
      : driver(driver), stream(stream), options(options),
        copies(std::max(options.copies, 1u)) {
    for (const TimedLaunch &launcher : launchers)
      lanes.emplace_back(launcher);
    samples.resize(lanes.size());
    for (size_t i = 0; i < lanes.size(); ++i) {
      lanes[i].row = i;
      lanes[i].isKept = i < options.keep.size() && options.keep[i];
    }
  }

  llvm::Expected<std::vector<SampledTime>> run();

private:
  llvm::Error prepare(Lane &lane);
  llvm::Error endWith(Lane &lane);
  llvm::Error enqueueLaunches(Lane &lane, unsigned count);
  llvm::Error makeGraph(Lane &lane);
  llvm::Error capture(Lane &lane);
  llvm::Error timeOnce(Lane &lane, unsigned count, double &ns);
  unsigned launchesFor(double ns) const;
  llvm::Error enqueueSample(Lane &lane);
  llvm::Error runPiece(std::vector<Lane *> &piece);
  llvm::Error runRound(size_t round);
  void judge(size_t rounds);
  bool isSettled(size_t rounds) const;
  /// Whether no more work may begin.
  bool isOver() const {
    return isEnded || trialTime(options.pace) > options.deadline;
  }
  llvm::Error blame(Lane &lane, llvm::Error error);

  const Driver &driver;
  CudaStream stream;
  const SamplingOptions &options;
  unsigned copies;
  unsigned nextCopy = 0;
  bool isEnded = false; ///< the pace lets no more work begin
  std::vector<Lane> lanes;
  std::vector<std::vector<double>> samples;
};

} // namespace

/// Notes \p error against \p lane, unless it ends everything.
llvm::Error Sampler::blame(Lane &lane, llvm::Error error) {
  ErrorSummary summary = summarize(std::move(error));
  if (summary.code == ErrorCode::ContextDead ||
      summary.code == ErrorCode::InProgress)
    return errorOf(summary);
  lane.result.error = std::move(summary);
  return llvm::Error::success();
}

/// Ends sampling because the pace lets no more work begin: \p lane stays as it
/// is.
llvm::Error Sampler::endWith(Lane &lane) {
  isEnded = true;
  lane.result.launches = 0;
  return TrialPiece::refused();
}

llvm::Error Sampler::enqueueLaunches(Lane &lane, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    if (llvm::Error error = (*lane.run)(nextCopy % copies, stream)) {
      lane.result.isOfLaunch = true;
      return error;
    }
    ++nextCopy;
  }
  return llvm::Error::success();
}

/// Measures the time of one of \p count launches in a row, after a wait for
/// them.
llvm::Error Sampler::timeOnce(Lane &lane, unsigned count, double &ns) {
  TrialPiece piece(options.pace);
  if (!piece.mayRun())
    return endWith(lane);
  if (llvm::Error error = lane.start->record(stream))
    return error;
  if (llvm::Error error = enqueueLaunches(lane, count))
    return error;
  if (llvm::Error error = lane.stop->record(stream))
    return error;
  if (llvm::Error error = waitWithLimit(driver, stream, options.hangLimit))
    return error;
  auto elapsed = elapsedNs(driver, *lane.start, *lane.stop);
  if (!elapsed)
    return elapsed.takeError();
  ns = *elapsed / count;
  return llvm::Error::success();
}

/// The number of launches of a sample, for launches of \p ns.
unsigned Sampler::launchesFor(double ns) const {
  double wanted = kSampleNs / std::max(ns, 1.0);
  auto launches = static_cast<unsigned>(
      std::clamp(wanted, 1.0, static_cast<double>(kMaxLaunches)));
  if (ns < kShortNs)
    launches = std::max(launches, kShortLaunches);
  if (options.flush)
    return std::min(launches, copies);
  // A graph always begins with the same copy, so it runs over all of them.
  if (ns < kShortNs)
    launches = (launches + copies - 1) / copies * copies;
  return launches;
}

/// Puts the launches of a sample into a graph.
llvm::Error Sampler::makeGraph(Lane &lane) {
  nextCopy = 0;
  if (!lane.run->addTo)
    return capture(lane);
  auto builder = GraphBuilder::create(driver);
  if (!builder)
    return builder.takeError();
  for (unsigned i = 0; i < lane.result.launches; ++i, ++nextCopy)
    if (llvm::Error error = lane.run->addTo(nextCopy % copies, *builder)) {
      lane.result.isOfLaunch = true;
      return error;
    }
  auto graph = builder->instantiate();
  if (!graph) {
    lane.result.isOfLaunch = true;
    return graph.takeError();
  }
  lane.graph.emplace(std::move(*graph));
  return llvm::Error::success();
}

llvm::Error Sampler::capture(Lane &lane) {
  if (llvm::Error error = Graph::beginCapture(driver, stream))
    return error;
  llvm::Error failure = enqueueLaunches(lane, lane.result.launches);
  auto graph = Graph::endCapture(driver, stream);
  if (!graph) {
    if (!failure)
      return graph.takeError();
    llvm::consumeError(graph.takeError());
    return failure;
  }
  if (!failure)
    lane.graph.emplace(std::move(*graph));
  return failure;
}

/// Runs a launcher alone, sizes its samples and makes its graph.
llvm::Error Sampler::prepare(Lane &lane) {
  for (std::optional<Event> *event : {&lane.start, &lane.stop}) {
    auto created = Event::create(driver);
    if (!created)
      return created.takeError();
    event->emplace(std::move(*created));
  }
  double ns = 0;
  if (llvm::Error error = timeOnce(lane, 1, ns))
    return error;
  // The first run loaded the code; the time of a slow one is accurate enough.
  constexpr double kSlowNs = 1e6;
  constexpr unsigned kProbes = 4;
  if (ns < kSlowNs)
    if (llvm::Error error = timeOnce(lane, kProbes, ns))
      return error;
  // A single delay of the host makes short launches look long, and samples
  // would be small, or without a graph. So the least of three probes counts.
  constexpr double kDoubtfulNs = 5 * kShortNs;
  constexpr int kMoreProbes = 2;
  for (int i = 0; i < kMoreProbes && ns < kDoubtfulNs; ++i) {
    double again = ns;
    if (llvm::Error error = timeOnce(lane, kProbes, again))
      return error;
    ns = std::min(ns, again);
  }
  lane.result.launches = launchesFor(ns);
  lane.sampleNs = ns * lane.result.launches;
  if (ns >= kShortNs || lane.result.launches == 1)
    return llvm::Error::success();
  if (llvm::Error error = makeGraph(lane))
    return error;
  // A graph's first launch uploads it.
  TrialPiece piece(options.pace);
  if (!piece.mayRun())
    return endWith(lane);
  if (llvm::Error error = lane.graph->launch(stream))
    return error;
  return waitWithLimit(driver, stream, options.hangLimit);
}

llvm::Error Sampler::enqueueSample(Lane &lane) {
  if (options.flush)
    if (llvm::Error error = options.flush(stream))
      return error;
  if (llvm::Error error = lane.start->record(stream))
    return error;
  if (llvm::Error error = lane.graph
                              ? lane.graph->launch(stream)
                              : enqueueLaunches(lane, lane.result.launches))
    return error;
  return lane.stop->record(stream);
}

/// Takes one sample of each lane of \p piece, enqueued without a gap. Removes
/// lanes that failed.
llvm::Error Sampler::runPiece(std::vector<Lane *> &piece) {
  TrialPiece granted(options.pace);
  if (!granted.mayRun()) {
    isEnded = true;
    piece.clear();
    return llvm::Error::success();
  }
  if (options.warm)
    if (llvm::Error error = options.warm(stream))
      return error;
  std::vector<Lane *> enqueued;
  for (Lane *lane : piece) {
    if (llvm::Error error = enqueueSample(*lane)) {
      if (llvm::Error fatal = blame(*lane, std::move(error)))
        return fatal;
      continue;
    }
    enqueued.push_back(lane);
  }
  piece = std::move(enqueued);
  return waitWithLimit(driver, stream, options.hangLimit);
}

/// Takes one sample of every active lane; each round begins with another lane.
/// With a pace a round is several pieces. Samples of a round that is cut short
/// do not count, so that all lanes have as many.
llvm::Error Sampler::runRound(size_t round) {
  constexpr double kMostNs =
      std::chrono::duration<double, std::nano>(kMostOfPiece).count();
  std::vector<Lane *> sampled, piece;
  double pieceNs = 0;
  auto run = [&]() -> llvm::Error {
    llvm::Error error = runPiece(piece);
    sampled.insert(sampled.end(), piece.begin(), piece.end());
    piece.clear();
    pieceNs = 0;
    return error;
  };
  for (size_t i = 0; i < lanes.size() && !isEnded; ++i) {
    Lane &lane = lanes[(i + round) % lanes.size()];
    if (!lane.isActive())
      continue;
    if (options.pace && !piece.empty() && pieceNs + lane.sampleNs > kMostNs)
      if (llvm::Error error = run())
        return error;
    piece.push_back(&lane);
    pieceNs += lane.sampleNs;
  }
  if (!isEnded)
    if (llvm::Error error = run())
      return error;
  if (isEnded)
    return llvm::Error::success();
  for (Lane *lane : sampled) {
    auto elapsed = elapsedNs(driver, *lane->start, *lane->stop);
    if (!elapsed)
      return elapsed.takeError();
    samples[lane->row].push_back(*elapsed / lane->result.launches);
  }
  return llvm::Error::success();
}

/// Summarises all samples so far and drops launchers that are slower than the
/// best.
void Sampler::judge(size_t rounds) {
  std::vector<std::vector<double>> steady = samples;
  removeCommonDrift(steady);
  double bestMedian = std::numeric_limits<double>::infinity(), bestHigh = 0;
  for (Lane &lane : lanes) {
    lane.result.ns = summarizeSamples(steady[lane.row]);
    if (lane.isActive() && lane.result.ns.count != 0 &&
        lane.result.ns.median < bestMedian) {
      bestMedian = lane.result.ns.median;
      bestHigh = lane.result.ns.ciHigh;
    }
  }
  if (!options.dropSlower || rounds < kEarlyRounds)
    return;
  double limit = bestHigh * (rounds < options.minSamples ? kEarlyFactor : 1.0);
  for (Lane &lane : lanes)
    if (lane.isActive() && !lane.isKept && lane.result.ns.ciLow > limit)
      lane.result.dropped = true;
}

/// Whether more rounds would not improve the result.
bool Sampler::isSettled(size_t rounds) const {
  bool anyActive = false, allNarrow = true;
  for (const Lane &lane : lanes)
    if (lane.isActive()) {
      const SampleSummary &ns = lane.result.ns;
      anyActive = true;
      allNarrow &=
          ns.ciHigh - ns.ciLow <= options.relativePrecision * ns.median;
    }
  return !anyActive || rounds >= options.maxSamples ||
         (rounds >= options.minSamples && allNarrow);
}

llvm::Expected<std::vector<SampledTime>> Sampler::run() {
  for (Lane &lane : lanes) {
    if (isOver())
      break;
    if (llvm::Error error = prepare(lane)) {
      if (isEnded)
        llvm::consumeError(std::move(error)); // the launch is not at fault
      else if (llvm::Error fatal = blame(lane, std::move(error)))
        return fatal;
    }
  }
  size_t round = 0;
  while (!isSettled(round) && !isOver()) {
    const Clock::time_point begin = Clock::now();
    if (llvm::Error error = runRound(round))
      return error;
    if (isEnded)
      break;
    judge(++round);
    constexpr Clock::duration kMostRest = std::chrono::milliseconds(10);
    if (options.rests && !isSettled(round))
      std::this_thread::sleep_for(std::min(Clock::now() - begin, kMostRest));
  }
  std::vector<SampledTime> results;
  for (Lane &lane : lanes)
    results.push_back(std::move(lane.result));
  return results;
}

llvm::Expected<std::vector<SampledTime>>
measureInterleaved(const Driver &driver, CudaStream stream,
                   llvm::ArrayRef<TimedLaunch> launchers,
                   const SamplingOptions &options) {
  CaptureModeGuard guard(driver);
  return Sampler(driver, stream, launchers, options).run();
}

} // namespace kiln
