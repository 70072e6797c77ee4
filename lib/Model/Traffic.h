//===- Traffic.h - bytes that a tiled GEMM moves --------------------------===//
//
// L2 serves every tile of A and B that a block asks for, less the tiles that a
// cluster multicasts: A is read once for each column of tiles, B once for each
// row.
//
// DRAM serves the rest that L2 does not keep. Blocks run in raster order: a
// group of groupTiles rows of tiles walks along n, then the next group. A
// group's strip of A is kept as long as it fits into L2 beside the B of one
// wave; B is kept from one group to the next as far as it fits beside the
// strip, else each group reads it again. Groups that run in the same wave share
// it. A strip that fits in part is kept in that part, because L2 does not
// replace in strict order. This is the reuse-distance argument with two working
// sets, as in blocked matrix products on a CPU; it does not model that blocks
// of a wave drift apart along k.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Model/Figure.h"

#include <algorithm>
#include <cstdint>

namespace kiln {

/// Share of L2 that keeps its full rate for reuse: an H200 of 60 MB serves up
/// to about 40 MB at 9.7-10.5 TB/s, 48 MB at 7.5 (te42kyfo/gpu-benches).
inline constexpr double kUsableL2Share = 2.0 / 3;

/// A tiled contraction D[m, n] = A[m, k] B[k, n] and its order of tiles.
struct TrafficInput {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  int64_t bitsA = 0, bitsB = 0, bitsD = 0; ///< of one element
  int64_t blockM = 0, blockN = 0;
  int64_t splitK = 1;
  int64_t bitsPartial = 32; ///< of a split's partial sums
  int64_t groupTiles = 1;   ///< tiles along m (n) that walk together
  bool groupAlongN = false; ///< groups of columns that walk along m instead
  int64_t slots = 1;        ///< blocks in flight at once
  int64_t clusterM = 1;     ///< blocks along m that share a tile of B
  int64_t clusterN = 1;     ///< blocks along n that share a tile of A
};

/// Bytes moved by one run.
struct Traffic {
  TrafficInput input;
  int64_t asksOfA = 0, asksOfB = 0;  ///< times that blocks ask L2 for them
  double readsOfA = 0, readsOfB = 0; ///< times that DRAM serves them
  double storeBytes = 0;      ///< D, or splitK partial sums of it and then D
  double reduceReadBytes = 0; ///< partial sums read back, 0 without splits
};

/// The bytes of A, \p timesA times, and of B.
template <Number N>
N bytesOfTimes(const TrafficInput &input, double timesA, double timesB,
               llvm::StringLiteral timesName, llvm::StringLiteral name) {
  const double k = double(input.k) / 8;
  auto operand = [&](int64_t rows, int64_t bits, llvm::StringLiteral name) {
    return given<N>(double(rows) * k * double(bits), name, "B");
  };
  return named(
      given<N>(double(input.batch), "batch") *
          (operand(input.m, input.bitsA, "A") * given<N>(timesA, timesName) +
           operand(input.n, input.bitsB, "B") * given<N>(timesB, timesName)),
      name, "B");
}

/// The bytes of A and B that L2 is asked for, the bytes of these that DRAM
/// serves, and the share that they are.
template <Number N = double> N l2ReadBytes(const Traffic &traffic) {
  return bytesOfTimes<N>(traffic.input, double(traffic.asksOfA),
                         double(traffic.asksOfB), "times asked",
                         "bytes from L2");
}
template <Number N = double> N dramReadBytes(const Traffic &traffic) {
  return bytesOfTimes<N>(traffic.input, traffic.readsOfA, traffic.readsOfB,
                         "times read", "bytes from DRAM");
}
template <Number N = double>
N missShare(const Traffic &traffic, const N &dramBytes) {
  return named(least({N(1), dramBytes / l2ReadBytes<N>(traffic)}),
               "share that L2 misses", "");
}

/// Computes the traffic. All sizes must be positive; with splits the blocks of
/// one tile are next to each other in raster order. Pure, constant time.
Traffic traffic(const DeviceModel &device, const TrafficInput &input);

} // namespace kiln
