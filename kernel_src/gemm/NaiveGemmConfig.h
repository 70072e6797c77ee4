//===- gemm/NaiveGemmConfig.h - knobs of the naive GEMM -------------------===//
#pragma once

#include "gemm/GemmSignature.h"

namespace kiln {

/// One thread for each output element, fp64 accumulation: the reference of the
/// family. Any type, layout, alignment, extent and batch.
struct NaiveGemmConfig {
  int blockThreads = 256;

  static constexpr const char *kName = "naive";
  // These are for GemmTemplate.h.
  static constexpr bool kTakesPacked = true, kTakesGroups = true,
                        kGathersItself = true;

  template <class F> static constexpr void forEachField(F &&f) {
    f("bt", "blockThreads", &NaiveGemmConfig::blockThreads, 256);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&) {}

  constexpr int threads() const { return blockThreads; }
  constexpr int minBlocks() const { return 1; }
  constexpr int sharedBytes(const GemmSignature &) const { return 0; }

  constexpr bool isValid(const GemmSignature &signature) const {
    return signature.isWellFormed() && blockThreads >= 32 &&
           blockThreads <= 1024 && blockThreads % 32 == 0;
  }

  /// Blocks of the one-dimensional grid. Fewer work too: the kernel strides
  /// over the elements by its grid.
  constexpr long long blocks(long long m, long long n, long long batch) const {
    long long wanted = (m * n * batch + blockThreads - 1) / blockThreads;
    return wanted < kMaxBlocks ? wanted : kMaxBlocks;
  }
  constexpr long long partialBytes(long long, long long, long long) const {
    return 0;
  }
  constexpr long long zeroedBytes(long long, long long, long long) const {
    return 0;
  }

  friend constexpr bool operator==(const NaiveGemmConfig &,
                                   const NaiveGemmConfig &) = default;

  static constexpr long long kMaxBlocks = 1ll << 30;
};

/// referenceGemm's fixed tile: a 64x64 piece of the slab for each block, 4x4
/// elements for each thread. The tuner does not choose it, so it has no fields.
struct ReferenceGemmConfig {
  static constexpr int kBlock = 64;
  static constexpr int kBlockK = 16;
  static constexpr int kMicro = 4;

  static constexpr const char *kName = "reference";

  constexpr int threads() const {
    return (kBlock / kMicro) * (kBlock / kMicro);
  }
  constexpr int sharedBytes(const GemmSignature &) const { return 0; }
  constexpr bool isValid(const GemmSignature &signature) const {
    return signature.isWellFormed();
  }
  /// Blocks of the one-dimensional grid for \p rows of the slab.
  constexpr long long blocks(long long rows, long long n) const {
    return ((rows + kBlock - 1) / kBlock) * ((n + kBlock - 1) / kBlock);
  }

  friend constexpr bool operator==(const ReferenceGemmConfig &,
                                   const ReferenceGemmConfig &) = default;
};

} // namespace kiln
