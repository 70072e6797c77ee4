//===- MemoryPass.h - the time of a memory-bound kernel -------------------===//
//
// The speed of a kernel that reads, computes little and writes follows from the
// bytes that it keeps in flight (Little, 1961). Its tasks alternate between
// waiting for loads and everything else, and during the latter they keep
// nothing in flight. So the bytes count that all resident tasks move in one
// task's life:
//
//   life       = load rounds * latency + reductions + a block's start and end
//   latency    : resident tasks * bytes of a task / life
//   bandwidth  : DRAM's for this mix of reads and writes, L2's for bytes that
//                are read once more
//   issue      : instructions of the SMs, results of their special units
//
// The least of them is the rate. None is reached to the last byte while another
// is close: times are joined by a p-norm, t = (sum t_i^p)^(1/p). Tasks run in
// waves; the last one has fewer tasks in flight.
//
// Kernels that reduce between their loads and their stores (rows) have a pace
// of their own: while a block reduces it has nothing in flight, and all blocks
// of the first wave do so at about the same time, unless they wait for loads
// often enough to drift apart.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Device/DeviceModel.h"
#include "Model/Occupancy.h"

#include <llvm/ADT/StringRef.h>

#include <cstdint>
#include <optional>

namespace kiln {

/// How the tasks of a kernel alternate between loads and stores.
enum class PassPace {
  Flows,  ///< each thread stores once its own loads have come
  Reduces ///< a task stores once all of its loads have come
};

/// The work of a memory-bound kernel. Bytes and operations are of the whole
/// problem unless the name says else.
struct MemoryPass {
  int64_t tasks = 1; ///< equal pieces of work, each of one block or cluster
  int64_t clusterSize = 1; ///< blocks that do a task together
  BlockResources block;
  /// Blocks to an SM of a grid that stays and strides over the tasks; 0: each
  /// task has a block of its own.
  int64_t persistentPerSm = 0;
  double readBytes = 0;   ///< from DRAM, once
  double writeBytes = 0;  ///< to DRAM, once
  double rereadBytes = 0; ///< read again by the task that read them before
  double sharedBytesPerTask = 0; ///< read by every task: weights
  /// The share of bytes read again that comes from DRAM, where the kernel knows
  /// it; else it follows from the bytes in flight.
  std::optional<double> rereadMissShare;
  int64_t loadRounds = 1;   ///< waits for DRAM that a task has in a row
  int64_t rereadRounds = 0; ///< waits for bytes that it reads again
  double serialNs = 0;      ///< reductions and barriers of a task
  PassPace pace = PassPace::Flows;
  double lostShare = 0;   ///< of DRAM's bandwidth, by pieces that are short
  double lostInWaves = 0; ///< of the same, where tasks take the place of others
  double simdOps = 0;     ///< instructions of one lane
  double specialOps = 0;  ///< exp2, rcp, rsqrt
};

/// The limit that sets the time.
enum class PassBound : int32_t { Dram = 0, L2 = 10, Issue = 20, Latency = 30 };
llvm::StringRef nameOf(PassBound bound);

/// The time of one wave of tasks, part by part.
struct PassWave {
  int64_t tasks = 0;
  double dramNs = 0, l2Ns = 0, issueNs = 0, lifeNs = 0;
  double norm = 1; ///< exponent of the norm that joins them
  double totalNs = 0;
};

/// The waits of a task that is alone, one after the other, in ns.
struct TaskLife {
  double loadNs = 0;       ///< first loads, from DRAM
  double rereadNs = 0;     ///< loads of bytes that it reads again
  double portNs = 0;       ///< its bytes through the SM's port
  double serialNs = 0;     ///< reductions and barriers, MemoryPass::serialNs
  double issueNs = 0;      ///< its instructions, at a thread's own pace
  double turnaroundNs = 0; ///< until the next block runs in its place

  double totalNs() const {
    return loadNs + rereadNs + portNs + serialNs + issueNs + turnaroundNs;
  }
};

/// Every term of the time. In ns unless the name says else.
struct PassTime {
  Occupancy occupancy;
  int64_t slots = 0;             ///< tasks that are resident at once
  double taskBytes = 0;          ///< read and written by one task
  double bytesInFlightPerSm = 0; ///< of loads, while all tasks wait
  double loadedLatencyNs = 0;    ///< of a load while DRAM is busy
  double loadLatencyNs = 0;      ///< of a load, with the bytes in flight here
  double bytesNeededPerSm = 0;   ///< loaded latency * bandwidth / SMs
  double dramBytesPerNs = 0;     ///< reached by this mix of reads and writes
  TaskLife life;                 ///< of a task that is alone
  double rereadMissShare = 0;    ///< of bytes read again: from DRAM
  /// The first full wave, where it has a pace of its own; the full waves behind
  /// it; and the last wave, with the remaining tasks.
  PassWave first, full, last;
  double fullWaves = 0; ///< besides `first`
  double launchNs = 0, rampNs = 0;
  double totalNs = 0;
  PassBound bound = PassBound::Dram;
};

/// Tasks of \p kernel that are resident at once; 0 where an SM, or the SMs of
/// a cluster, hold none. \p occupancy is that of its blocks.
int64_t residentTasks(const MemoryPass &kernel, const Occupancy &occupancy,
                      const DeviceModel &device);

/// Pure, about a microsecond. \p kernel must have tasks and threads, and fit an
/// SM: residentTasks() above 0.
PassTime passTime(const MemoryPass &kernel, const DeviceModel &device);

/// A wave behind those of \p time, which is passTime(), with one block on each
/// SM.
PassWave furtherWave(const MemoryPass &kernel, const DeviceModel &device,
                     PassTime time);

} // namespace kiln
