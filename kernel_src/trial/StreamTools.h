//===- trial/StreamTools.h - parameters of the copy baseline --------------===//
//
// Memory-bound kernels are measured against a copy baseline: it reads and
// writes as many bytes in the same proportion, and computes nothing. Compiled
// by the host compiler and by NVRTC.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Types.h"

namespace kiln {

/// Bytes of each access.
constexpr int kStreamChunk = 16;
/// The most threads of a block.
constexpr int kStreamThreads = 1024;

/// The accesses that a step reads and writes; each goes to a region of the
/// buffer of its own. If there are no writes, the few bytes to write follow the
/// reads.
struct StreamMix {
  static constexpr int kMost = 4;
  int reads = 1, writes = 1;

  constexpr bool isValid() const {
    return reads >= 1 && reads <= kMost && writes >= 0 && writes <= kMost;
  }
  friend constexpr bool operator==(const StreamMix &,
                                   const StreamMix &) = default;
};

/// The mix whose proportion is nearest to that of \p readBytes to
/// \p writtenBytes; among equals, the one with the fewest accesses.
constexpr StreamMix mixOf(double readBytes, double writtenBytes) {
  // Beyond this ratio writes do not show beside reads.
  constexpr double kFewWrites = 16;
  if (writtenBytes * kFewWrites < readBytes)
    return {1, 0};
  StreamMix best;
  double bestOff = 0;
  for (int reads = 1; reads <= StreamMix::kMost; ++reads)
    for (int writes = 1; writes <= StreamMix::kMost; ++writes) {
      double a = reads * writtenBytes, b = writes * readBytes;
      // The ratio of the greater to the smaller, at least 1.
      double off = a > b ? (b > 0 ? a / b : a) : b / a;
      if (bestOff == 0 || off < bestOff ||
          (off == bestOff && reads + writes < best.reads + best.writes)) {
        bestOff = off;
        best = {reads, writes};
      }
    }
  return best;
}

/// One kernel, fixed at compile time.
struct StreamConfig {
  StreamMix mix;
  int unroll = 1; ///< steps of a thread whose loads are in flight at once
  CacheHint hint = CacheHint::Plain;

  /// Loads of a thread that are in flight at once: 32 registers' worth.
  static constexpr int kMostLoads = 8;
  constexpr bool isValid() const {
    return mix.isValid() && unroll >= 1 && mix.reads * unroll <= kMostLoads;
  }
};

/// Parameters of every kernel of the copy baseline, on a one-dimensional grid
/// of any number of blocks of any number of threads up to kStreamThreads. Sizes
/// are in accesses. Region r of a buffer begins r pitches from its start; the
/// last one may be shorter. Both buffers are aligned to 16 bytes, and `write`
/// has room for one access even where writeChunks is 0.
struct StreamParams {
  const void *read = nullptr;
  void *write = nullptr;
  long long readChunks = 0, writeChunks = 0;
  long long readPitch = 0, writePitch = 0;
  long long steps = 0;      ///< of the longest region
  long long wholeSteps = 0; ///< steps whose accesses all lie inside
};

/// Divides \p readChunks and \p writeChunks into the regions of \p mix.
constexpr StreamParams streamParams(StreamMix mix, long long readChunks,
                                    long long writeChunks) {
  auto least = [](long long a, long long b) { return a < b ? a : b; };
  StreamParams params;
  params.readChunks = readChunks;
  params.writeChunks = writeChunks;
  params.readPitch = (readChunks + mix.reads - 1) / mix.reads;
  params.steps = params.readPitch;
  params.wholeSteps = readChunks - (mix.reads - 1) * params.readPitch;
  if (mix.writes > 0) {
    params.writePitch = (writeChunks + mix.writes - 1) / mix.writes;
    if (params.writePitch > params.steps)
      params.steps = params.writePitch;
    params.wholeSteps = least(
        params.wholeSteps, writeChunks - (mix.writes - 1) * params.writePitch);
  }
  if (params.wholeSteps < 0)
    params.wholeSteps = 0;
  return params;
}

} // namespace kiln
