//===- gemm/SplitTiles.h - grids of tiles with split-K --------------------===//
#pragma once

namespace kiln {

/// A grid in which every tile of D belongs to one block, or to splitK blocks
/// that exchange partial sums (SplitK.cuh). Full waves of waveBlocks tiles are
/// not split. Only the rest is split, which makes the last wave shorter.
/// Extents are those of a batched product.
struct SplitTiles {
  int tileM, tileN;
  int splitK = 1;
  int waveBlocks = 0; ///< blocks that run at once; 0: all tiles are split

  constexpr long long tiles(long long m, long long n, long long batch) const {
    return ((m + tileM - 1) / tileM) * ((n + tileN - 1) / tileN) * batch;
  }
  /// Tiles with one block each; they are the first ones.
  constexpr long long wholeTiles(long long m, long long n,
                                 long long batch) const {
    long long all = tiles(m, n, batch);
    return splitK == 1      ? all
           : waveBlocks > 0 ? all / waveBlocks * waveBlocks
                            : 0;
  }
  /// Blocks of the one-dimensional grid; must stay below 2^31.
  constexpr long long blocks(long long m, long long n, long long batch) const {
    long long whole = wholeTiles(m, n, batch);
    return whole + (tiles(m, n, batch) - whole) * splitK;
  }
  /// Bytes of GemmParams::partials. Fewer rows never need more.
  constexpr long long partialBytes(long long m, long long n,
                                   long long batch) const {
    return splitTiles(m, n, batch) * splitK * tileM * tileN * 4;
  }
  /// Bytes of GemmParams::counters. Fewer rows never need more.
  constexpr long long zeroedBytes(long long m, long long n,
                                  long long batch) const {
    return splitTiles(m, n, batch) * 4;
  }

private:
  /// The most tiles that are split, for \p m rows or any fewer.
  constexpr long long splitTiles(long long m, long long n,
                                 long long batch) const {
    if (splitK == 1)
      return 0;
    if (waveBlocks == 0)
      return tiles(m, n, batch);
    // Tiles behind full waves; the rest repeats with the number of rows.
    long long rows = (m + tileM - 1) / tileM, each = tiles(1, n, batch);
    long long rest = 0, most = 0;
    for (long long row = 0; row < rows && row < waveBlocks; ++row) {
      rest = (rest + each) % waveBlocks;
      most = rest > most ? rest : most;
    }
    return most;
  }
};

} // namespace kiln
