//===- MemoryPass.cpp -----------------------------------------------------===//
#include "Model/MemoryPass.h"

#include "Model/Bandwidth.h"
#include "Support/EnumName.h"

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
  double busyLatencyFactor;    ///< latency of a busy DRAM over an idle one's
  double crowdingLoss;         ///< see below
  double issueEfficiency;      ///< of the issue cycles between memory accesses
  double clocksPerInstruction; ///< of a warp that has its scheduler for itself
  double unevenIssue, unevenDram; ///< see WaveModel
  double missFrom, missRange;     ///< see rereadMissShare()
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
                                .busyLatencyFactor = kBusyLatencyFactor,
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
                                  .busyLatencyFactor = 1,
                                  .crowdingLoss = 0,
                                  .issueEfficiency = 1,
                                  .clocksPerInstruction = 4.05,
                                  .unevenIssue = 0.9,
                                  .unevenDram = 0.4,
                                  .missFrom = 0.5,
                                  .missRange = 3.5,
                                  .rampShare = 0.4};

static const Pace &paceOf(const MemoryPass &kernel) {
  return kernel.pace == PassPace::Reduces ? kReduces : kFlows;
}

llvm::StringRef nameOf(PassBound bound) {
  using enum PassBound;
  static constexpr EnumName<PassBound> kNames[] = {
      {Dram, "dram"}, {L2, "l2"}, {Issue, "simd"}, {Latency, "latency"}};
  return nameIn(kNames, bound, "unknown");
}

/// Bytes that are read beside writes, or written beside reads, of all bytes.
static double mixedShare(const MemoryPass &kernel) {
  double all = kernel.readBytes + kernel.writeBytes;
  return all == 0 ? 0 : 2 * std::min(kernel.readBytes, kernel.writeBytes) / all;
}

/// Bandwidth of a mix of reads and writes. Writes beside as many reads are as
/// fast as these; the writes beyond run at the rate of writing alone.
static double mixedBytesPerNs(const MemoryPass &kernel,
                              const DeviceModel &device, bool isSingleWave) {
  double all = kernel.readBytes + kernel.writeBytes;
  if (all == 0)
    return device.dramBytesPerNs();
  double alone = std::max(0.0, kernel.writeBytes - kernel.readBytes);
  double rate = all / ((all - alone) / device.dramBytesPerNs() +
                       alone / device.dramWriteBytesPerNs());
  rate *=
      (1 - kernel.lostShare) * (1 - (isSingleWave ? 0 : kernel.lostInWaves));
  if (kernel.persistentPerSm != 0) {
    rate *= 1 - kPersistentLoss * mixedShare(kernel);
  }
  return rate;
}

namespace {
/// The parts of a time that do not depend on how many tasks a wave has.
class WaveModel {
public:
  WaveModel(const MemoryPass &kernel, const DeviceModel &device,
            const PassTime &time)
      : kernel(kernel), device(device), time(time), pace(paceOf(kernel)),
        tasks(static_cast<double>(kernel.tasks)) {}

  PassWave wave(int64_t count, double norm) const {
    PassWave result;
    result.tasks = count;
    result.norm = norm;
    if (count == 0)
      return result;
    auto n = static_cast<double>(count);
    double reread = kernel.rereadBytes / tasks;
    double fromDram = time.taskBytes + time.rereadMissShare * reread;
    double fromL2 = time.taskBytes + reread + kernel.sharedBytesPerTask;
    // Some SMs have a block more than others. Issue is limited on each of them;
    // the bandwidth is shared by all SMs alike.
    double perSm = n * static_cast<double>(kernel.clusterSize) /
                   static_cast<double>(device.smCount);
    double uneven = perSm > 1 ? std::ceil(perSm) / perSm - 1 : 0;
    result.dramNs =
        n * fromDram / time.dramBytesPerNs * (1 + pace.unevenDram * uneven);
    result.l2Ns = n * fromL2 / device.l2BytesPerNs();
    // Few tasks keep only their own SMs busy.
    double share = std::min(1.0, perSm);
    double clock = device.sustainedMemoryClockMHz * 1e-3;
    double lanes = device.simdFlopsPerClockPerSm(RateType::FP32) / 2;
    double sms = static_cast<double>(device.smCount) * share;
    // The special units work beside the others.
    double clocks = std::max(kernel.simdOps / lanes,
                             kernel.specialOps / device.specialOpsPerClock) /
                    pace.issueEfficiency;
    result.issueNs =
        n / tasks * clocks / (sms * clock) * (1 + pace.unevenIssue * uneven);
    result.lifeNs = time.life.totalNs();
    double sum = 0;
    for (double part :
         {result.dramNs, result.l2Ns, result.issueNs, result.lifeNs})
      sum += std::pow(part, norm);
    result.totalNs = std::pow(sum, 1 / norm);
    return result;
  }

private:
  const MemoryPass &kernel;
  const DeviceModel &device;
  const PassTime &time;
  const Pace &pace;
  double tasks;
};
} // namespace

int64_t residentTasks(const MemoryPass &kernel, const Occupancy &occupancy,
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

static double normOf(const MemoryPass &kernel, const Occupancy &occupancy) {
  const Pace &pace = paceOf(kernel);
  if (kernel.pace == PassPace::Flows && kernel.loadRounds >= kManyRounds)
    return pace.normMost;
  return std::min(pace.normBase + pace.normStep * static_cast<double>(
                                                      occupancy.blocksPerSm),
                  pace.normMost);
}

/// The exponent of a first wave whose others have \p norm. Tasks that wait
/// often drift apart: some load while others sum, if enough is in flight (H200,
/// sums of 30 MB to 2 GB by one wave: with 64 KB an SM 0.99 of the best, with
/// 32 KB 0.94, with 16 KB 0.79).
static double firstNormOf(const MemoryPass &kernel, const PassTime &time,
                          double norm) {
  constexpr double kRoundsInStep = 8, kRoundsApart = 16;
  constexpr double kLittle = 2, kPlenty = 2.5;
  const Pace &pace = paceOf(kernel);
  if (pace.firstNorm == 0)
    return norm;
  if (kernel.rereadRounds > 0 || kernel.tasks > time.slots)
    return pace.firstNorm;
  double drift = (static_cast<double>(kernel.loadRounds) - kRoundsInStep) /
                 (kRoundsApart - kRoundsInStep);
  double supply = (time.bytesInFlightPerSm / time.bytesNeededPerSm - kLittle) /
                  (kPlenty - kLittle);
  double apart = std::clamp(drift, 0.0, 1.0) * std::clamp(supply, 0.0, 1.0);
  return pace.firstNorm + apart * (norm - pace.firstNorm);
}

static PassBound boundOf(const PassWave &wave) {
  double most = std::max({wave.dramNs, wave.l2Ns, wave.issueNs, wave.lifeNs});
  return most == wave.lifeNs    ? PassBound::Latency
         : most == wave.issueNs ? PassBound::Issue
         : most == wave.l2Ns    ? PassBound::L2
                                : PassBound::Dram;
}

/// The share of bytes read again that L2 has lost. They wait there among all
/// bytes in flight, \p bytes. The more these are, the fewer are still there.
static double rereadMissShare(const Pace &pace, double bytes,
                              const DeviceModel &device) {
  double beyond = bytes / static_cast<double>(device.l2Bytes) - pace.missFrom;
  if (pace.missRange == 0)
    return beyond < 0 ? 0 : 1;
  return std::clamp(beyond / pace.missRange, 0.0, 1.0);
}

/// From the end of a block to the work of the next in its place.
static double turnaroundNs(const MemoryPass &kernel) {
  const Pace &pace = paceOf(kernel);
  return pace.turnaroundNs +
         (kernel.clusterSize > 1 ? pace.clusterTurnaroundNs : 0);
}

PassTime passTime(const MemoryPass &kernel, const DeviceModel &device) {
  assert(kernel.tasks > 0 && "nothing to do");
  PassTime time;
  const Pace &pace = paceOf(kernel);
  auto tasks = static_cast<double>(kernel.tasks);
  auto sms = static_cast<double>(device.smCount);
  time.occupancy = occupancy(device, kernel.block);
  time.slots = residentTasks(kernel, time.occupancy, device);
  assert(time.slots > 0 && "a kernel that fits no SM");
  time.taskBytes = (kernel.readBytes + kernel.writeBytes) / tasks;
  double readPerTask = kernel.readBytes / tasks;
  auto resident = static_cast<double>(std::min(time.slots, kernel.tasks));
  time.bytesInFlightPerSm =
      resident * readPerTask / static_cast<double>(kernel.loadRounds) / sms;
  double loaded = busyDramLatencyNs(device);
  time.loadedLatencyNs = loaded;
  time.bytesNeededPerSm = loaded * device.dramBytesPerNs() / sms;
  // A first wave's start is in the ramp; later waves pay for their start.
  bool isSingle = kernel.tasks <= time.slots;
  time.dramBytesPerNs = mixedBytesPerNs(kernel, device, isSingle);
  double crowding = time.bytesInFlightPerSm / (2 * time.bytesNeededPerSm);
  if (crowding > 1)
    time.dramBytesPerNs *= 1 - pace.crowdingLoss * mixedShare(kernel) *
                                   std::min(4.0, std::log2(crowding));
  time.rereadMissShare = kernel.rereadMissShare.value_or(
      rereadMissShare(pace, resident * time.taskBytes, device));
  double port = kL2BytesPerClockPerSm * device.sustainedMemoryClockMHz * 1e-3 *
                static_cast<double>(kernel.clusterSize);
  // DRAM is as busy as the bytes in flight make it (H100, the greatest of 7
  // rows of 123457, which 1 to 4 blocks a row load in 4 to 61 rounds: 0.92 to
  // 1.25 of this; with a busy DRAM's latency throughout 0.57 to 0.77).
  double busy = std::min(1.0, time.bytesInFlightPerSm / time.bytesNeededPerSm);
  time.loadLatencyNs =
      device.dramLatencyNs * (1 + (pace.busyLatencyFactor - 1) * busy);
  double again =
      device.l2LatencyNs +
      (time.loadLatencyNs - device.l2LatencyNs) * time.rereadMissShare;
  time.life.loadNs =
      static_cast<double>(kernel.loadRounds) * time.loadLatencyNs;
  time.life.rereadNs = static_cast<double>(kernel.rereadRounds) * again;
  time.life.portNs = (time.taskBytes + kernel.rereadBytes / tasks) / port;
  time.life.serialNs = kernel.serialNs;
  double opsPerThread =
      kernel.simdOps / tasks /
      static_cast<double>(kernel.block.threads * kernel.clusterSize);
  time.life.issueNs = opsPerThread * pace.clocksPerInstruction /
                      (device.sustainedMemoryClockMHz * 1e-3);
  time.launchNs = device.launchNs;
  time.rampNs = pace.rampShare * device.rampNs;
  if (!isSingle)
    time.life.turnaroundNs = turnaroundNs(kernel);
  WaveModel model(kernel, device, time);
  const double norm = normOf(kernel, time.occupancy);
  const double firstNorm = firstNormOf(kernel, time, norm);
  int64_t fullWaves = kernel.tasks / time.slots;
  int64_t rest = kernel.tasks - fullWaves * time.slots;
  time.full = model.wave(std::min(time.slots, kernel.tasks), norm);
  time.last = model.wave(rest, fullWaves == 0 ? firstNorm : norm);
  if (fullWaves > 0 && firstNorm != norm) {
    time.first = model.wave(time.slots, firstNorm);
    --fullWaves;
  }
  time.fullWaves = static_cast<double>(fullWaves);
  time.totalNs = time.launchNs + time.rampNs + time.first.totalNs +
                 time.fullWaves * time.full.totalNs + time.last.totalNs;
  time.bound = boundOf(isSingle && rest > 0 ? time.last : time.full);
  return time;
}

PassWave furtherWave(const MemoryPass &kernel, const DeviceModel &device,
                     PassTime time) {
  time.life.turnaroundNs = turnaroundNs(kernel);
  return WaveModel(kernel, device, time)
      .wave(std::max<int64_t>(device.smCount / kernel.clusterSize, 1),
            normOf(kernel, time.occupancy));
}

} // namespace kiln
