//===- gemm/RepackConfig.h - geometry and parameters of repack ------------===//
#pragma once

namespace kiln {

/// Any rows of elements of two bytes.
struct RepackSignature {
  friend constexpr bool operator==(const RepackSignature &,
                                   const RepackSignature &) = default;
};

/// repack is no choice of the tuner, so it has no fields.
struct RepackConfig {
  static constexpr int kPieceBytes = 2;

  constexpr int threads() const { return 256; }
  constexpr int sharedBytes(const RepackSignature &) const { return 0; }
  constexpr bool isValid(const RepackSignature &) const { return true; }

  /// Blocks of the one-dimensional grid for \p rows of \p pitch bytes; the
  /// kernel strides by its grid, so any number is right.
  constexpr long long blocks(long long rows, long long pitch) const {
    long long wanted = (rows * (pitch / 16) + threads() - 1) / threads();
    return wanted < kMaxBlocks ? wanted : kMaxBlocks;
  }

  friend constexpr bool operator==(const RepackConfig &,
                                   const RepackConfig &) = default;

  static constexpr long long kMaxBlocks = 1 << 16;
};

/// Rows of `rowBytes` bytes, `rowsPerBatch` in each of a batch; bytes
/// throughout. The target's rows are contiguous over all batches, aligned to 16
/// bytes, and end in zeros.
struct RepackParams {
  const void *source = nullptr;
  void *target = nullptr;
  long long rows = 0, rowsPerBatch = 1; ///< rows: of all batches
  long long rowBytes = 0;
  long long sourcePitch = 0, sourceStride = 0, targetPitch = 0;
};

} // namespace kiln
