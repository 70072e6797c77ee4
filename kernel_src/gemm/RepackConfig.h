//===- gemm/RepackConfig.h - geometry and parameters of repack ------------===//
#pragma once

namespace kiln {

/// Rows of elements of `elementBytes` bytes.
struct RepackSignature {
  int elementBytes = 2; ///< 1, 2 or 4

  friend constexpr bool operator==(const RepackSignature &,
                                   const RepackSignature &) = default;
};

/// The tuner does not choose repack, so it has no fields.
struct RepackConfig {
  /// Rows and columns of a tile that is transposed.
  static constexpr int tile(const RepackSignature &signature) {
    return signature.elementBytes == 1 ? 128 : 64;
  }

  constexpr int threads() const { return 256; }
  constexpr int sharedBytes(const RepackSignature &) const { return 0; }
  constexpr bool isValid(const RepackSignature &signature) const {
    int bytes = signature.elementBytes;
    return bytes == 1 || bytes == 2 || bytes == 4;
  }

  /// Blocks of the one-dimensional grid for \p rows of \p pitch bytes; the
  /// kernels stride by their grid, so any number works.
  constexpr long long blocks(long long rows, long long pitch) const {
    return bounded((rows * (pitch / 16) + threads() - 1) / threads());
  }
  /// Blocks for \p batch matrices of \p rows x \p cols that are transposed.
  constexpr long long blocksOfTiles(const RepackSignature &signature,
                                    long long rows, long long cols,
                                    long long batch) const {
    return bounded(tiles(signature, rows) * tiles(signature, cols) * batch);
  }
  static constexpr long long tiles(const RepackSignature &signature,
                                   long long extent) {
    return (extent + tile(signature) - 1) / tile(signature);
  }

  friend constexpr bool operator==(const RepackConfig &,
                                   const RepackConfig &) = default;

  static constexpr long long kMaxBlocks = 1 << 16;

private:
  static constexpr long long bounded(long long wanted) {
    return wanted < kMaxBlocks ? wanted : kMaxBlocks;
  }
};

/// Rows of `rowBytes` bytes, `rowsPerBatch` in each matrix of a batch; all
/// sizes are in bytes. The target's rows are contiguous over all batches and
/// aligned to 16 bytes. Copies end in zeros; in a transposed copy the target's
/// rows are the source's columns.
struct RepackParams {
  const void *source = nullptr;
  void *target = nullptr;
  long long rows = 0, rowsPerBatch = 1; ///< rows: over all batches
  long long rowBytes = 0;
  long long sourcePitch = 0, sourceStride = 0, targetPitch = 0;
};

} // namespace kiln
