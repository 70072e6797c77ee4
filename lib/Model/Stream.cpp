//===- Stream.cpp ---------------------------------------------------------===//
#include "Model/Stream.h"

#include "Model/Bandwidth.h"
#include "Model/MathUtil.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace kiln {

/// From the last instruction of a block to the first of the next in its place,
/// and from its last load's arrival to its stores' departure. H200: a block of
/// 1024 threads that normalises one row of 16 KB lives for 2.7 us where loads
/// alone take 1.1 us and its reduction 0.3 us.
static constexpr double kTurnaroundNs = 900;

/// The same of a cluster: it waits for places on as many SMs. H100, softmax of
/// 2048 rows of 50257: clusters of 8 that hold 16 KB a block take 8 % more than
/// clusters of 4 with 28 KB.
static constexpr double kClusterTurnaroundNs = 900;

/// Exponent of the p-norm: kNormBase + kNormStep for each block that an SM
/// holds, kNormMost at most. A block loads, computes and stores in turn; it is
/// other blocks that do the rest meanwhile.
static constexpr double kNormBase = 2.5, kNormStep = 0.8, kNormMost = 6;

/// A task that waits this often has no phases: its warps are apart by then.
static constexpr int64_t kManyRounds = 4;

/// What is in flight beyond twice the need spreads the accesses over more
/// pages of the DRAM: this share of the bandwidth is lost for each doubling.
/// H200, copy of 256 MB with 32, 64 and 128 KB in flight per SM: 4.09, 4.00
/// and 3.90 TB/s. Reading alone loses nothing (H100, maxima of 256 rows of
/// 151936: 128 KB in flight are best).
static constexpr double kCrowdingLoss = 0.02;

/// A grid that stays loses the order in which the scheduler starts blocks, and
/// with it this share of the bandwidth of a mix of reads and writes (H200, copy
/// of 256 MB: 72.4 against 65.7 us; reading alone loses nothing).
static constexpr double kPersistentLoss = 0.08;

/// Share of the issue slots that code between memory accesses reaches.
static constexpr double kIssueEfficiency = 0.9;

/// Clocks between two instructions of one warp that has its scheduler almost
/// for itself, with what a compiler finds to overlap.
static constexpr double kClocksPerInstruction = 2.2;

llvm::StringRef nameOf(StreamBound bound) {
  switch (bound) {
  case StreamBound::Dram:
    return "dram";
  case StreamBound::L2:
    return "l2";
  case StreamBound::Issue:
    return "simd";
  case StreamBound::Latency:
    return "latency";
  }
  return "unknown";
}

/// Bytes that are read beside writes, or written beside reads, of all bytes.
static double mixedShare(const StreamKernel &kernel) {
  double all = kernel.readBytes + kernel.writeBytes;
  return all == 0 ? 0 : 2 * std::min(kernel.readBytes, kernel.writeBytes) / all;
}

/// Bandwidth of a mix of reads and writes. Mixed with as many reads, writes go
/// as fast as these; what goes beyond runs at the rate of writing alone.
static double mixedBytesPerNs(const StreamKernel &kernel,
                              const DeviceModel &device) {
  double all = kernel.readBytes + kernel.writeBytes;
  if (all == 0)
    return device.dramBytesPerNs();
  double alone = std::max(0.0, kernel.writeBytes - kernel.readBytes);
  double rate = all / ((all - alone) / device.dramBytesPerNs() +
                       alone / device.dramWriteBytesPerNs());
  rate *= 1 - kernel.lostShare;
  if (kernel.persistentPerSm != 0) {
    rate *= 1 - kPersistentLoss * mixedShare(kernel);
  }
  return rate;
}

namespace {
/// The parts of a time that do not depend on how many tasks a wave has.
class WaveModel {
public:
  WaveModel(const StreamKernel &kernel, const DeviceModel &device,
            const StreamTime &time)
      : kernel(kernel), device(device), time(time),
        tasks(static_cast<double>(kernel.tasks)) {}

  StreamWave wave(int64_t count) const {
    StreamWave result;
    result.tasks = count;
    if (count == 0)
      return result;
    auto n = static_cast<double>(count);
    double reread = kernel.rereadBytes / tasks;
    double fromDram = time.taskBytes + (time.rereadFitsL2 ? 0 : reread);
    double fromL2 =
        fromDram + (time.rereadFitsL2 ? reread : 0) + kernel.sharedBytesPerTask;
    result.dramNs = n * fromDram / time.dramBytesPerNs;
    result.l2Ns = n * fromL2 / device.l2BytesPerNs();
    // Few tasks keep only their own SMs busy.
    double share = std::min(1.0, n * kernel.clusterSize /
                                     static_cast<double>(device.smCount));
    double clock = device.sustainedMemoryClockMHz * 1e-3;
    double lanes = device.simdFlopsPerClockPerSm(RateType::FP32) / 2;
    double sms = static_cast<double>(device.smCount) * share;
    // The special units work beside the others.
    double clocks = std::max(kernel.simdOps / lanes,
                             kernel.specialOps / device.specialOpsPerClock) /
                    kIssueEfficiency;
    result.issueNs = n / tasks * clocks / (sms * clock);
    result.lifeNs = time.life.totalNs();
    double sum = 0;
    for (double part :
         {result.dramNs, result.l2Ns, result.issueNs, result.lifeNs})
      sum += std::pow(part, time.norm);
    result.totalNs = std::pow(sum, 1 / time.norm);
    return result;
  }

private:
  const StreamKernel &kernel;
  const DeviceModel &device;
  const StreamTime &time;
  double tasks;
};
} // namespace

int64_t residentTasks(const StreamKernel &kernel, const Occupancy &occupancy,
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

static double normOf(const StreamKernel &kernel, const Occupancy &occupancy) {
  double norm =
      kNormBase + kNormStep * static_cast<double>(occupancy.blocksPerSm);
  return kernel.loadRounds >= kManyRounds ? kNormMost
                                          : std::min(norm, kNormMost);
}

static StreamBound boundOf(const StreamWave &wave) {
  double most = std::max({wave.dramNs, wave.l2Ns, wave.issueNs, wave.lifeNs});
  return most == wave.lifeNs    ? StreamBound::Latency
         : most == wave.issueNs ? StreamBound::Issue
         : most == wave.l2Ns    ? StreamBound::L2
                                : StreamBound::Dram;
}

StreamTime streamTime(const StreamKernel &kernel, const DeviceModel &device) {
  assert(kernel.tasks > 0 && "nothing to do");
  StreamTime time;
  auto tasks = static_cast<double>(kernel.tasks);
  auto sms = static_cast<double>(device.smCount);
  time.occupancy = occupancy(device, kernel.block);
  time.slots = residentTasks(kernel, time.occupancy, device);
  assert(time.slots > 0 && "a kernel that fits no SM");
  time.norm = normOf(kernel, time.occupancy);
  time.taskBytes = (kernel.readBytes + kernel.writeBytes) / tasks;
  double readPerTask = kernel.readBytes / tasks;
  auto resident = static_cast<double>(std::min(time.slots, kernel.tasks));
  time.bytesInFlightPerSm =
      resident * readPerTask / static_cast<double>(kernel.loadRounds) / sms;
  double loaded = busyDramLatencyNs(device);
  time.loadedLatencyNs = loaded;
  time.bytesNeededPerSm = loaded * device.dramBytesPerNs() / sms;
  time.dramBytesPerNs = mixedBytesPerNs(kernel, device);
  double crowding = time.bytesInFlightPerSm / (2 * time.bytesNeededPerSm);
  if (crowding > 1)
    time.dramBytesPerNs *= 1 - kCrowdingLoss * mixedShare(kernel) *
                                   std::min(4.0, std::log2(crowding));
  // What a task has read waits in L2 among what all others have in flight.
  time.rereadFitsL2 = resident * time.taskBytes < 0.5 * double(device.l2Bytes);
  double port = kL2BytesPerClockPerSm * device.sustainedMemoryClockMHz * 1e-3 *
                static_cast<double>(kernel.clusterSize);
  // DRAM is as busy as what is in flight makes it (H100, the greatest of 7 rows
  // of 123457, which 1 to 4 blocks a row load in 4 to 61 rounds: 0.92 to 1.25
  // of this; with a busy DRAM's latency throughout 0.57 to 0.77).
  double busy = std::min(1.0, time.bytesInFlightPerSm / time.bytesNeededPerSm);
  time.loadLatencyNs =
      device.dramLatencyNs + (loaded - device.dramLatencyNs) * busy;
  double again = time.rereadFitsL2 ? device.l2LatencyNs : time.loadLatencyNs;
  time.life.loadNs =
      static_cast<double>(kernel.loadRounds) * time.loadLatencyNs;
  time.life.rereadNs = static_cast<double>(kernel.rereadRounds) * again;
  time.life.portNs = (time.taskBytes + kernel.rereadBytes / tasks) / port;
  time.life.serialNs = kernel.serialNs;
  double opsPerThread =
      kernel.simdOps / tasks /
      static_cast<double>(kernel.block.threads * kernel.clusterSize);
  time.life.issueNs = opsPerThread * kClocksPerInstruction /
                      (device.sustainedMemoryClockMHz * 1e-3);
  time.launchNs = device.launchNs;
  time.rampNs = device.rampNs;
  // A first wave's start is in the ramp; those behind it pay for theirs.
  bool isSingle = kernel.tasks <= time.slots;
  if (!isSingle)
    time.life.turnaroundNs =
        kTurnaroundNs + (kernel.clusterSize > 1 ? kClusterTurnaroundNs : 0);
  WaveModel model(kernel, device, time);
  int64_t fullWaves = kernel.tasks / time.slots;
  time.full = model.wave(std::min(time.slots, kernel.tasks));
  time.last = model.wave(kernel.tasks - fullWaves * time.slots);
  time.fullWaves = static_cast<double>(fullWaves);
  time.totalNs = time.launchNs + time.rampNs +
                 time.fullWaves * time.full.totalNs + time.last.totalNs;
  time.bound = boundOf(fullWaves ? time.full : time.last);
  return time;
}

} // namespace kiln
