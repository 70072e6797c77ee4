//===- Stream.h - the time of a kernel that memory sets -------------------===//
//
// A kernel that reads, computes little and writes is as fast as the bytes that
// it keeps on the way (Little, 1961). Its blocks take turns between waiting for
// loads and everything else; while they do the latter they keep nothing on the
// way, so what counts is the average over a block's life.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Device/DeviceModel.h"
#include "Model/Occupancy.h"
#include "Model/Waves.h"

#include <cstdint>

namespace kiln {

/// What a memory-bound kernel does. Bytes are of the whole problem.
struct StreamKernel {
  int64_t tasks =
      0; ///< equal pieces of work, each done by one block or cluster
  int64_t clusterSize = 1; ///< blocks that do a task together
  BlockResources block;
  bool persistent = false;    ///< a resident grid that strides over the tasks
  double readBytes = 0;       ///< from DRAM, once
  double writeBytes = 0;      ///< to DRAM, once
  double rereadBytes = 0;     ///< read once more, while still in a cache or not
  double sharedReadBytes = 0; ///< small operands that each task reads (weights)
  double loadBytesPerTask = 0; ///< that a task has on the way at once
  int64_t loadRounds = 1;      ///< waits for loads that a task has in a row
  double serialNs = 0;   ///< of a task, between its loads and its end: barriers
  double simdOps = 0;    ///< fp32 instructions, per lane
  double specialOps = 0; ///< exp2, rcp, rsqrt
};

/// Every term of the time. In ns unless the name says else.
struct StreamTime {
  Occupancy occupancy;
  Waves waves;
  double bytesInFlight = 0;  ///< whole chip, average over a task's life
  double bytesNeeded = 0;    ///< latency * bandwidth
  double fullBytesPerNs = 0; ///< of this mix of reads and writes
  double reachedBytesPerNs = 0;
  double latencyNs = 0; ///< of a task that is alone
  double launchNs = 0, rampNs = 0;
  double dramNs = 0, l2Ns = 0, issueNs = 0;
  double tailNs = 0; ///< what the last wave adds
  double totalNs = 0;
  enum class Bound { Dram, L2, Issue, Latency } bound = Bound::Dram;
};

/// Pure, about a microsecond. \p kernel must have tasks and threads.
StreamTime streamTime(const StreamKernel &kernel, const DeviceModel &device);

} // namespace kiln
