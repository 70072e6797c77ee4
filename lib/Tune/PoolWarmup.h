//===- PoolWarmup.h - compile the pool of a signature, without a GPU ------===//
#pragma once

#include "Store/ArtifactStore.h"
#include "Store/PoolStore.h"
#include "Tune/PoolCover.h"

#include <set>
#include <string>

namespace kiln {

struct PoolWarmupOptions {
  PoolOptions cover; ///< its flag cancels the whole warm-up
  /// Kernels and pool are stored on disk; without a cache, nothing can be kept.
  bool store = true;
  /// Called from the calling thread; kernels are counted.
  ArtifactStore::ProgressCallback progress;
};

struct PoolWarmupResult {
  /// The chosen kernels; without those that did not compile.
  PoolCover cover;
  size_t configs = 0;         ///< of all kernels
  size_t distinctKernels = 0; ///< with further steps of plans
  size_t compiled = 0, fromCache = 0;
  /// Kernels that the compiler refused or spoiled; the pool is stored without
  /// them.
  size_t refused = 0;
  bool isStored = false; ///< the pool is on disk
  bool wasThere = false; ///< an equal pool was on disk
  /// Kernels that should be on disk and are not, and the reasons.
  size_t unstoredKernels = 0;
  std::set<std::string> unstoredReasons;
  double coverMs = 0, elapsedMs = 0;
  /// Success if all kernels of the pool are compiled and, if they should be, on
  /// disk.
  ErrorSummary error;
};

/// Chooses the pool of \p subject for \p device, compiles its kernels in
/// parallel, and stores it once all of them are there. A cancellation stores no
/// pool; compiled kernels stay. As thread-safe as its arguments. Takes as long
/// as coverSignature() and some 800 compilations: minutes.
PoolWarmupResult warmPool(const PoolSubject &subject, const DeviceModel &device,
                          ArtifactStore &artifacts, PoolStore &pools,
                          const PoolWarmupOptions &options);

} // namespace kiln
