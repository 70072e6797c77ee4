//===- TileEstimate.h - predicted time of a tiled GEMM kernel -------------===//
//
// One estimate serves every template that computes blockM x blockN tiles with a
// ring of stages in shared memory. A template describes its kernel; the terms
// are the bricks of lib/Model put together.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Gemm/GemmProblem.h"
#include "Kernel/Derivation.h"
#include "Kernel/Estimate.h"

#include "Device/DeviceModel.h"

namespace kiln {

/// The time of splits to hand their sums to the last of them: the way of a
/// store, a fence, a counter and a load, one after the other, and the wait for
/// the slowest (H200: two round trips of 0.65 us and 0.5 us more, 30 swept
/// problems).
inline constexpr double kHandOverNs = 1800;

/// The last of the splits has few reads of sums in flight: they take this many
/// times as long as its port or L2 would (the same sweeps).
inline constexpr double kSumReadFactor = 3;

/// Copies to a ring from a busy DRAM take this many times as long as a load
/// from an idle one: they queue behind each other, and their stage waits for
/// the last of them (the same sweeps: 950 ns, where a lone load takes 288).
inline constexpr double kRingLatencyFactor = 3.3;

/// The share of the arithmetic units' rate that a stream of instructions
/// reaches. By default all of it.
struct IssueShare {
  double ffmas = 1;  ///< of a step
  double slots = 1;  ///< issue slots of each, as registers conflict
  double others = 0; ///< other instructions' slots
  double share = 1;  ///< a factor beside that
};

/// A tiled GEMM kernel as the estimate sees it. Bytes and flops are those of
/// one block.
struct TileKernel {
  int blockM = 0, blockN = 0, blockK = 0;
  int stages = 0; ///< tiles in the ring; loads in flight are one fewer
  int threads = 0;
  int splitK = 1;
  int waveBlocks = 0;  ///< SplitTiles::waveBlocks
  int rasterGroup = 1; ///< tile rows that consecutive blocks cover
  int64_t sharedBytes = 0;
  /// Shared memory of a stage's tile of A and of B; 0 without stages.
  int64_t stageBytesA = 0, stageBytesB = 0;
  int registersPerThread = 0;         ///< expected, for occupancy
  int tileThreads = 0;                ///< threads that share the tile's sums
  int fragmentsA = 0, fragmentsB = 0; ///< registers of a thread
  /// Shared memory that the arithmetic of one k iteration reads.
  double sharedReadBytes = 0;
  /// Clocks of an SM's load units that it takes to issue one iteration's
  /// copies.
  double loadIssueClocks = 0;
  /// The rate of the arithmetic units, and the part of it that this tile's
  /// instruction stream can sustain.
  double DeviceModel::*rate = nullptr;
  IssueShare issue = {};
  /// Clocks of an SM a step that conversions of operands and promotions of sums
  /// keep the products waiting.
  double conversionClocks = 0;
  /// True for tensor cores: they hold a lower clock than other work.
  bool tensor = true;
  /// Resident warps that it takes to use the units of an SM fully.
  int warpsForPeak = 8;
};

/// How \p ffmas and \p others share the issue slots of \p device, if each of
/// the former takes \p slots. The register file delivers one even and one odd
/// register a clock. Where a sub-core issues an FFMA every two clocks only,
/// that is enough, and most other instructions go between.
IssueShare ffmaShare(double ffmas, double slots, double others,
                     const DeviceModel &device);

/// Predicted time of \p kernel on \p problem:
///   launch + ramp + waves * (fill + kIters * max(mma, shared, L2, DRAM)
///     + epilogue) + reduction
/// The largest of the four and the exposed latency name the bound. Waves of
/// tiles that are split have fewer steps of k.
Estimate estimateTile(const GemmProblem &problem, const TileKernel &kernel,
                      const DeviceModel &device);

/// The same with its derivation: walls, waves and terms are added to \p steps.
Prediction<Figure> explainTile(const GemmProblem &problem,
                               const TileKernel &kernel,
                               const DeviceModel &device, Derivation &steps);

} // namespace kiln
