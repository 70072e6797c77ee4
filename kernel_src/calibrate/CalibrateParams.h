//===- calibrate/CalibrateParams.h - parameters of the micro-benchmarks ---===//
//
// Compiled by the host compiler and by NVRTC. Each kernel takes one of these
// structs. A block leaves the time of each of its warps, or of the warp that
// counts, in `spans`.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Types.h"

namespace kiln::calibrate {

/// The begin and end of some work, by the SM's own clock and by the device's.
struct Span {
  long long beginClock = 0, endClock = 0;
  long long beginNs = 0, endNs = 0;
};

/// Bytes of an access, and accesses of a thread in flight at once.
constexpr int kChunkBytes = 16, kChunksInFlight = 4;
/// The most threads of a block that moves memory.
constexpr int kStreamThreads = 1024;

/// Reads, writes or copies `chunks` accesses `passes` times, on any grid.
/// `chunks` is a multiple of a block's accesses in flight. In each pass another
/// block has an access, so that no L1 cache serves it.
struct PassParams {
  const void *from = nullptr;
  void *to = nullptr;
  long long chunks = 0;
  int passes = 1;
  Span *spans = nullptr; ///< of each block
};

/// A pointer chase visits nodes of so many bytes in an order that looks random
/// and comes to all of them.
constexpr int kNodeBytes = 128;

/// Writes the chain of `count` nodes, a power of two of at least 8.
struct ChainParams {
  void *nodes = nullptr;
  long long count = 0;
};

/// Block 0 goes `steps` nodes along the chain from `*place`, where it leaves
/// the node that it came to. All other blocks read `load` until it has ended.
struct ChaseParams {
  unsigned long long *place = nullptr;
  long long steps = 0;
  const void *load = nullptr;
  long long loadChunks = 0; ///< as PassParams::chunks
  unsigned *done = nullptr; ///< 0 before the launch
  Span *spans = nullptr;    ///< one
};

/// Warps of a block that run plain instructions, and mma.sync.
constexpr int kLaneWarps = 16, kMmaWarps = 8;
/// Instructions of a thread in a round, and independent values among them.
constexpr int kLaneUnroll = 256, kLaneValues = 8;
/// Reads of shared memory of a thread in a round.
constexpr int kSharedUnroll = 16;
/// Products of a warp in a round, and independent sums among them.
constexpr int kMmaUnroll = 32, kMmaChains = 4;
/// Products of a warpgroup in a round, and warpgroups of a block.
constexpr int kWgmmaUnroll = 8, kWgmmaGroups = 2;

/// Instructions that one or more blocks run `rounds` times.
struct RateParams {
  int rounds = 0;
  Span *spans = nullptr;    ///< of each warp of each block
  unsigned *sink = nullptr; ///< a word, which is never written
};

/// Blocks load an access a thread from a place among `chunks` that differs from
/// launch to launch, wait for each other's threads, and run `rounds` of
/// multiply-adds.
struct StartParams {
  const void *from = nullptr;
  long long chunks = 0;
  int rounds = 0;
  unsigned *sink = nullptr; ///< a word, which is never written
};
/// Threads of such a block.
constexpr int kStartThreads = 256;

/// Bytes of shared memory of a block that multiplies tiles of 64 rows and
/// \p columns columns, 128 bytes along k.
constexpr int wgmmaSharedBytes(int columns) {
  return (columns + 64 * kWgmmaGroups) * 128 + 1024;
}

} // namespace kiln::calibrate
