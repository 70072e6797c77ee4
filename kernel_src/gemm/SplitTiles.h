//===- gemm/SplitTiles.h - grids of tiles, shared by splits of k ----------===//
#pragma once

namespace kiln {

/// A grid in which every tile of D is the work of one block, or of splitK
/// blocks that exchange partial sums (SplitK.cuh). Extents are those of a
/// batched product.
struct SplitTiles {
  int tileM, tileN;
  int splitK = 1;

  constexpr long long tiles(long long m, long long n, long long batch) const {
    return ((m + tileM - 1) / tileM) * ((n + tileN - 1) / tileN) * batch;
  }
  /// Blocks of the one-dimensional grid; must stay below 2^31.
  constexpr long long blocks(long long m, long long n, long long batch) const {
    return tiles(m, n, batch) * splitK;
  }
  /// Bytes of GemmParams::partials.
  constexpr long long partialBytes(long long m, long long n,
                                   long long batch) const {
    return splitK == 1 ? 0 : blocks(m, n, batch) * tileM * tileN * 4;
  }
  /// Bytes of GemmParams::counters.
  constexpr long long zeroedBytes(long long m, long long n,
                                  long long batch) const {
    return splitK == 1 ? 0 : tiles(m, n, batch) * 4;
  }
};

} // namespace kiln
