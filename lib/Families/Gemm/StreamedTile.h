//===- StreamedTile.h - GEMM kernels for one small extent -----------------===//
//
// What the templates for small m or n have in common on the host: which operand
// they stream, and how long that takes. The rows of one operand, once each, set
// the time.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Gemm/GemmProblem.h"
#include "Kernel/Derivation.h"
#include "Kernel/Estimate.h"

#include "Device/DeviceModel.h"
#include "Model/Occupancy.h"

#include <optional>

namespace kiln {

/// A kernel that streams rows past vectors, as the estimate sees it.
struct StreamedTile {
  bool streamsA = false; ///< A is streamed past the rows of B, else B past A's
  int rows = 0, vectors = 0; ///< of a block
  int splitK = 1;
  BlockResources block;
  /// Bytes of the streamed rows that a block keeps in flight, on average.
  double bytesInFlight = 0;
  /// True where a block's instructions and its loads take turns; else they run
  /// beside each other.
  bool alternates = false;
  /// Instructions of a lane for each element of the streamed rows.
  double opsPerElement = 0;
  /// Flops of the tensor cores for each element, and their rate in flops per SM
  /// and clock; 0 without them.
  double tensorFlopsPerElement = 0, tensorFlopsPerClock = 0;
  /// Blocks of an SM that share the vectors in its L1; 1 where each reads them.
  int64_t blocksPerVectorRead = 1;
  /// Part of DRAM's bandwidth that the pattern of the copies reaches.
  double dramShare = 1;
  double serialNs = 0; ///< reductions and barriers of a block
  double tailNs = 0; ///< from the last bytes' arrival to the end of the kernel
};

/// The extent that is streamed, and the other one.
int64_t streamedExtent(const GemmProblem &problem, bool streamsA);
int64_t vectorExtent(const GemmProblem &problem, bool streamsA);

/// The limits that all such kernels have: capability 8.0, 16-bit data stored NT
/// with rows of both operands aligned to 16 bytes, and at most \p vectors
/// vectors.
std::optional<Rejection> checkStreamed(const GemmProblem &problem,
                                       const GemmSignature &signature,
                                       bool streamsA, int vectors,
                                       const DeviceModel &device);

/// Predicted time of \p kernel on \p problem:
///   launch + ramp + stream + restarts + tail + reduction,
/// with stream the 6-norm of what DRAM, L2, the SMs' ports, the loads on the
/// way and the instructions take; the largest names the bound. About a
/// microsecond.
Estimate estimateTile(const GemmProblem &problem, const StreamedTile &kernel,
                      const DeviceModel &device, Detail detail = Detail::Terms);

/// The same, step by step.
Derivation explainTile(const GemmProblem &problem, const StreamedTile &kernel,
                       const DeviceModel &device);

} // namespace kiln
