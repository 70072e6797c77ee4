//===- MemoryPass.cpp -----------------------------------------------------===//
#include "Model/MemoryPass.h"

#include "Model/Bandwidth.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace kiln {

namespace {
/// The constants of one PassPace.
struct Pace {
  /// Exponent of the p-norm: normBase + normStep for each block that an SM
  /// holds, normMost at most. A block loads, computes and stores in turn; other
  /// blocks overlap with it.
  double normBase, normStep, normMost;
  double firstNorm; ///< of the first wave; 0: as the others
  double turnaroundNs, clusterTurnaroundNs;
  bool waitsInQueues;          ///< loads take longer while DRAM is busy
  double crowdingLoss;         ///< see below
  double issueEfficiency;      ///< of the issue cycles between memory accesses
  double clocksPerInstruction; ///< of a warp that has its scheduler for itself
  double unevenIssue, unevenDram; ///< see PassModel::wave()
  double missFrom, missRange;     ///< see PassModel::computeMissShare()
  double rampShare;               ///< of the device's ramp
};
} // namespace

/// From the last instruction of a block to the first of the next in its place,
/// and from its last load's arrival to its stores' departure. H200: a block of
/// 1024 threads that normalises one row of 16 KB lives for 2.7 us where loads
/// alone take 1.1 us and its reduction 0.3 us.
static constexpr double kTurnaroundNs = 900;

/// The same times for a cluster, which waits for places on as many SMs. H100,
/// softmax of 2048 rows of 50257: clusters of 8 that hold 16 KB a block take 8
/// % more than clusters of 4 with 28 KB.
static constexpr double kClusterTurnaroundNs = 900;

/// A task that waits this often has no phases: its warps are apart by then.
static constexpr int64_t kManyRounds = 4;

/// Bytes in flight beyond twice the need spread the accesses over more pages of
/// the DRAM: this share of the bandwidth is lost for each doubling. H200, copy
/// of 256 MB with 32, 64 and 128 KB in flight per SM: 4.09, 4.00 and 3.90 TB/s.
/// Reading alone loses nothing (H100, maxima of 256 rows of 151936: 128 KB in
/// flight are best).
static constexpr double kCrowdingLoss = 0.02;

/// A grid that stays loses the order in which the scheduler starts blocks, and
/// with it this share of the bandwidth of a mix of reads and writes (H200, copy
/// of 256 MB: 72.4 against 65.7 us; reading alone loses nothing).
static constexpr double kPersistentLoss = 0.08;

static constexpr Pace kFlows = {.normBase = 2.5,
                                .normStep = 0.8,
                                .normMost = 6,
                                .firstNorm = 0,
                                .turnaroundNs = kTurnaroundNs,
                                .clusterTurnaroundNs = kClusterTurnaroundNs,
                                .waitsInQueues = true,
                                .crowdingLoss = kCrowdingLoss,
                                .issueEfficiency = 0.9,
                                .clocksPerInstruction = 2.2,
                                .unevenIssue = 0,
                                .unevenDram = 0,
                                .missFrom = 0.5,
                                .missRange = 0,
                                .rampShare = 1};

/// Fitted to 12500 times of 350 problems over rows (H200 and H100), which are
/// met to 11 % (rms, of configs within 1.6 of the best). Their loads,
/// reductions and stores add up more than in other kernels, so norms are low.
/// Because they overlap less, the latency is that of an idle DRAM and the
/// turnaround is short.
static constexpr Pace kReduces = {.normBase = 2.75,
                                  .normStep = 0.14,
                                  .normMost = 8,
                                  .firstNorm = 2.27,
                                  .turnaroundNs = 300,
                                  .clusterTurnaroundNs = 0,
                                  .waitsInQueues = false,
                                  .crowdingLoss = 0,
                                  .issueEfficiency = 1,
                                  .clocksPerInstruction = 4.05,
                                  .unevenIssue = 0.9,
                                  .unevenDram = 0.4,
                                  .missFrom = 0.5,
                                  .missRange = 3.5,
                                  .rampShare = 0.4};

static const Pace &paceOf(const PassWork &kernel) {
  return kernel.pace == PassPace::Reduces ? kReduces : kFlows;
}

int64_t residentTasks(const PassWork &kernel, const Occupancy &occupancy,
                      const DeviceModel &device) {
  int64_t perSm = occupancy.blocksPerSm;
  if (kernel.persistentPerSm != 0)
    perSm = std::min(perSm, kernel.persistentPerSm);
  if (kernel.clusterSize == 1)
    return perSm * device.smCount;
  int64_t clusters = device.maxClusters(kernel.clusterSize);
  if (clusters == 0)
    clusters = device.smCount / kernel.clusterSize;
  return clusters * perSm;
}

template <Number N>
PassModel<N>::PassModel(const MemoryPass<N> &kernel, const DeviceModel &device)
    : kernel(kernel), device(device), resident(occupancy(device, kernel.block)),
      slots(residentTasks(kernel, resident, device)) {
  assert(kernel.tasks > 0 && "nothing to do");
  assert(slots > 0 && "a kernel that fits no SM");
  moved = named(count(kernel.readBytes, "read", "B") +
                    count(kernel.writeBytes, "written", "B"),
                "traffic", "B");
  taskBytes =
      named(moved / count(kernel.tasks, "tasks"), "bytes of a task", "B");
  computeFlight();
  computeRate();
  computeMissShare();
  computeLife();
  computeWaves();
  N start = at(&DeviceModel::rampNs);
  if (const double share = paceOf(kernel).rampShare; share != 1)
    start = fit(share, "share of the ramp") * start;
  total = withWaves(at(&DeviceModel::launchNs) + start);
}

/// Little's law: the bytes in flight while all tasks that run at once wait, and
/// those that DRAM asks for.
template <Number N> void PassModel<N>::computeFlight() {
  const ThreadLoads &loads = kernel.loads;
  const double warps =
      double(kernel.block.threads * kernel.clusterSize) / kWarpThreads;
  const double perSm =
      double(std::min(slots, kernel.tasks)) / double(device.smCount);
  N vector = count(kWarpThreads, "lanes") *
             count(loads.vectors, "vectors of a thread") *
             count(loads.elements, "elements of a vector") *
             count(loads.elementBytes, "of an element", "B");
  if (loads.operands != 1)
    vector *= count(loads.operands, "operands");
  const N ofWarp = named(vector, "loads of a warp at once", "B");
  // Ends of rows, and operands that are loaded otherwise.
  const N filled =
      named(count(kernel.readBytes / double(kernel.tasks), "read", "B") /
                (count(kernel.loadRounds, "rounds") *
                 count(warps, "warps of a task") * ofWarp),
            "fill of the rounds", "");
  inFlight = named(count(warps * perSm, "warps of an SM") * ofWarp * filled,
                   "bytes in flight", "B");
  busyLatency = busyDramLatencyNs<N>(device);
  needed =
      named(busyLatency * at(&DeviceModel::dramGBs) / at(&DeviceModel::smCount),
            "bytes to have in flight", "B");
}

/// The bandwidth of a mix of reads and writes. Writes beside as many reads are
/// as fast as these; the writes beyond run at the rate of writing alone.
template <Number N> void PassModel<N>::computeRate() {
  const Pace &pace = paceOf(kernel);
  const double all = kernel.readBytes + kernel.writeBytes;
  rate = at(&DeviceModel::dramGBs);
  if (kernel.writeBytes > kernel.readBytes) {
    const N alone = count(kernel.writeBytes - kernel.readBytes,
                          "written beyond reads", "B");
    rate = moved /
           ((moved - alone) / rate + alone / at(&DeviceModel::dramWriteGBs));
  }
  auto lose = [&](const N &share) {
    if (valueOf(share) != 0)
      rate = rate * (N(1) - share);
  };
  // Bytes that are read beside writes, or written beside reads.
  auto mixed = [&] {
    const double both = 2 * std::min(kernel.readBytes, kernel.writeBytes);
    return count(all == 0 ? 0 : both / all, "mixed share");
  };
  lose(kernel.lostShare);
  // The start of a first wave is in the ramp; later waves pay for theirs.
  if (!isSingle())
    lose(kernel.lostInWaves);
  if (kernel.persistentPerSm != 0)
    lose(fit(kPersistentLoss, "lost by a grid that stays") * mixed());
  constexpr double kMostDoublings = 4;
  const double crowding = valueOf(inFlight) / (2 * valueOf(needed));
  if (crowding > 1 && pace.crowdingLoss > 0)
    lose(fit(pace.crowdingLoss, "lost each doubling") * mixed() *
         count(std::min(kMostDoublings, std::log2(crowding)),
               "doublings of twice the need"));
  rate = named(rate, "DRAM's rate", "B/ns");
}

/// The share of bytes read again that L2 has lost. They wait there among all
/// bytes in flight. The more these are, the fewer are still there.
template <Number N> void PassModel<N>::computeMissShare() {
  const Pace &pace = paceOf(kernel);
  const N held = count(std::min(slots, kernel.tasks), "tasks at once") *
                 taskBytes / at(&DeviceModel::l2Bytes);
  if (kernel.rereadMissShare)
    missShare = count(*kernel.rereadMissShare, "share from DRAM");
  else if (pace.missRange == 0)
    missShare = count(valueOf(held) < pace.missFrom ? 0 : 1, "share from DRAM");
  else
    missShare =
        named(least({N(1), excess(held, fit(pace.missFrom, "kept whole")) /
                               fit(pace.missRange, "range of the loss")}),
              "share from DRAM", "");
}

/// From the end of a block to the work of the next in its place.
template <Number N> N PassModel<N>::turnaround() const {
  const Pace &pace = paceOf(kernel);
  const N block = fit(pace.turnaroundNs, "turnaround", "ns");
  return kernel.clusterSize > 1 && pace.clusterTurnaroundNs > 0
             ? block + fit(pace.clusterTurnaroundNs, "turnaround of a cluster",
                           "ns")
             : block;
}

/// The waits of a task that is alone, one after the other.
template <Number N> void PassModel<N>::computeLife() {
  const Pace &pace = paceOf(kernel);
  const auto tasks = double(kernel.tasks);
  latency = at(&DeviceModel::dramLatencyNs);
  // DRAM is as busy as the bytes in flight make it (H100, the greatest of 7
  // rows of 123457, which 1 to 4 blocks a row load in 4 to 61 rounds: 0.92 to
  // 1.25 of this; with a busy DRAM's latency throughout 0.57 to 0.77).
  if (pace.waitsInQueues)
    latency = named(
        latency *
            (N(1) + least({N(1), inFlight / needed}) *
                        (fit(kBusyLatencyFactor, "busy over idle") - N(1))),
        "wait for a load", "ns");
  N sum = count(kernel.loadRounds, "rounds") * latency;
  N ofTask = taskBytes;
  if (kernel.rereadBytes > 0)
    ofTask = ofTask + count(kernel.rereadBytes / tasks, "read again", "B");
  if (kernel.rereadRounds > 0) {
    const N l2 = at(&DeviceModel::l2LatencyNs);
    sum += count(kernel.rereadRounds, "rounds of further passes") *
           named(l2 + missShare * (latency - l2), "wait to read again", "ns");
  }
  N port = portBytesPerNs<N>(device);
  if (kernel.clusterSize > 1)
    port *= count(kernel.clusterSize, "SMs of a cluster");
  sum += named(ofTask / port, "bytes through the port", "ns");
  sum += kernel.serialNs;
  const double perThread = kernel.simdOps / tasks /
                           double(kernel.block.threads * kernel.clusterSize);
  sum += named(count(perThread, "instructions of a thread") *
                   fit(pace.clocksPerInstruction, "each", "clk") /
                   memoryClock<N>(device),
               "issue of a thread", "ns");
  life = named(isSingle() ? sum : sum + turnaround(), "life of a task", "ns");
}

/// Names of a wave's times.
struct WaveNames {
  llvm::StringLiteral dram, l2, issue;
};

static constexpr WaveNames kFull = {"DRAM", "L2", "issue"};
static constexpr WaveNames kLast = {"last wave's DRAM", "last wave's L2",
                                    "last wave's issue"};

template <Number N>
PassWave<N> PassModel<N>::wave(int64_t size, const N &life,
                               const WaveNames &names) const {
  const Pace &pace = paceOf(kernel);
  const auto all = double(kernel.tasks), sms = double(device.smCount);
  const N tasks = count(size, "tasks");
  // Some SMs have a block more than others. Issue is limited on each of them;
  // the bandwidth is shared by all SMs alike.
  const double perSm = double(size * kernel.clusterSize) / sms;
  const double uneven = perSm > 1 ? std::ceil(perSm) / perSm - 1 : 0;
  auto stretch = [&](N ns, double share) {
    return uneven * share == 0
               ? ns
               : ns * (N(1) + fit(share, "felt share") *
                                  count(uneven, "uneven blocks"));
  };
  N fromDram = taskBytes, fromL2 = taskBytes;
  if (kernel.rereadBytes > 0) {
    const N again = count(kernel.rereadBytes / all, "read again", "B");
    fromDram = fromDram + missShare * again;
    fromL2 = fromL2 + again;
  }
  if (kernel.sharedBytesPerTask > 0)
    fromL2 =
        fromL2 + count(kernel.sharedBytesPerTask, "shared by all tasks", "B");
  PassWave<N> result{size};
  result.dram = named(stretch(tasks * fromDram / rate, pace.unevenDram),
                      names.dram, "ns");
  result.l2 = named(tasks * fromL2 / at(&DeviceModel::l2GBs), names.l2, "ns");
  // The special units work beside the others.
  N clocks = count(kernel.simdOps / all, "instructions of a task") /
             (at(&DeviceModel::simdFp32FlopsPerClock) / N(2));
  if (kernel.specialOps > 0)
    clocks =
        largest({clocks, count(kernel.specialOps / all, "special operations") /
                             at(&DeviceModel::specialOpsPerClock)});
  if (pace.issueEfficiency != 1)
    clocks = clocks / fit(pace.issueEfficiency, "share of issue slots");
  // Few tasks keep only their own SMs busy.
  const N busy = count(sms * std::min(1.0, perSm), "busy SMs");
  result.issue = named(stretch(tasks * clocks / (busy * memoryClock<N>(device)),
                               pace.unevenIssue),
                       names.issue, "ns");
  result.life = life;
  return result;
}

template <Number N> N PassModel<N>::laterExponent() const {
  const Pace &pace = paceOf(kernel);
  const N most = fit(pace.normMost, "most");
  if (kernel.pace == PassPace::Flows && kernel.loadRounds >= kManyRounds)
    return named(most, "exponent", "");
  const N blocks = count(resident.blocksPerSm, "blocks an SM");
  return named(least({fit(pace.normBase, "without others") +
                          fit(pace.normStep, "by each") * blocks,
                      most}),
               "exponent", "");
}

/// Tasks that wait often drift apart: some load while others sum, if enough is
/// in flight (H200, sums of 30 MB to 2 GB by one wave: with 64 KB an SM 0.99 of
/// the best, with 32 KB 0.94, with 16 KB 0.79).
template <Number N> N PassModel<N>::exponentOfFirst() const {
  constexpr double kRoundsInStep = 8, kRoundsApart = 16;
  constexpr double kLittle = 2, kPlenty = 2.5;
  const Pace &pace = paceOf(kernel);
  if (pace.firstNorm == 0)
    return exponent;
  const N inStep = fit(pace.firstNorm, "in step");
  double apart = 0;
  if (kernel.rereadRounds == 0 && isSingle()) {
    double drift = (double(kernel.loadRounds) - kRoundsInStep) /
                   (kRoundsApart - kRoundsInStep);
    double supply =
        (valueOf(inFlight) / valueOf(needed) - kLittle) / (kPlenty - kLittle);
    apart = std::clamp(drift, 0.0, 1.0) * std::clamp(supply, 0.0, 1.0);
  }
  return named(apart == 0 ? inStep
                          : inStep + count(apart, "share that drifts apart") *
                                         (exponent - inStep),
               "exponent of the first wave", "");
}

template <Number N> void PassModel<N>::computeWaves() {
  exponent = laterExponent();
  firstExponent = exponentOfFirst();
  const int64_t atOnce = std::min(slots, kernel.tasks);
  full = wave(atOnce, life, kFull);
  fullWaves = kernel.tasks / atOnce;
  if (isSingle() || firstExponent != exponent) {
    firstNs = named(full.joined(firstExponent), "first wave", "ns");
    --fullWaves;
  }
  if (fullWaves > 0)
    fullNs = named(full.joined(exponent), "full wave", "ns");
  if (const int64_t rest = kernel.tasks % atOnce) {
    last = wave(rest, life, kLast);
    lastNs = named(last.joined(exponent), "last wave", "ns");
  }
}

template <Number N> N PassModel<N>::withWaves(N sum) const {
  sum += firstNs;
  if (fullWaves > 0)
    sum += count(fullWaves, "waves") * fullNs;
  sum += lastNs;
  return sum;
}

template <Number N> N PassModel<N>::furtherWave() const {
  return wave(std::max<int64_t>(device.smCount / kernel.clusterSize, 1),
              isSingle() ? life + turnaround() : life, kLast)
      .joined(exponent);
}

template <Number N> llvm::StringRef PassModel<N>::bound() const {
  const N most = largest({full.dram, full.l2, full.issue, full.life});
  return most == full.life    ? "latency"
         : most == full.issue ? "simd"
         : most == full.l2    ? "l2"
                              : "dram";
}

template struct PassModel<double>;
template struct PassModel<Figure>;

} // namespace kiln
