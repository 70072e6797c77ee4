//===- Artifact.h - a cubin and its compiler's report on it ---------------===//
#pragma once

#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kiln {

/// A numbered remark of ptxas, such as C7510: wgmma is serialised.
struct Advisory {
  std::string code; ///< e.g. "C7510"
  std::string text; ///< the rest of its line

  friend bool operator==(const Advisory &, const Advisory &) = default;
};

/// The resources that ptxas reports for the entry function. Zero where its log
/// says nothing; dynamic shared memory is never part of them.
struct ResourceUsage {
  int64_t registersPerThread = 0;
  int64_t spillLoadBytes = 0;
  int64_t spillStoreBytes = 0;
  int64_t stackBytes = 0;        ///< per thread
  int64_t staticSharedBytes = 0; ///< per block
  int64_t constantBytes = 0;     ///< all banks, kernel parameters included

  friend bool operator==(const ResourceUsage &,
                         const ResourceUsage &) = default;
};

/// Wall-clock times of one compilation in ms. A phase the compiler did not
/// report is 0; the total is always measured.
struct PhaseTimes {
  double frontEndMs = 0;
  double nvvmMs = 0;
  double ptxasMs = 0;
  double totalMs = 0;

  friend bool operator==(const PhaseTimes &, const PhaseTimes &) = default;
};

/// A compiled kernel. A plain value.
struct Artifact {
  std::string cubin; ///< the bytes
  std::string arch;  ///< e.g. "sm_90a"
  std::string entry; ///< name of the kernel in the cubin
  ResourceUsage usage;
  std::vector<Advisory> advisories;
  std::string toolchain; ///< Nvrtc::identity(), for an alternate build too
  PhaseTimes phases;
  std::string log; ///< at most 64 KiB, without NULs

  bool hasSpills() const {
    return usage.spillLoadBytes > 0 || usage.spillStoreBytes > 0;
  }
  /// Why a config with this artifact is rejected, e.g. "ptxas serialised the
  /// kernel (C7510)" or "ptxas spilled 24 bytes"; empty: it is not. \p maySpill
  /// is the translation unit's.
  std::string rejection(bool maySpill) const;

  /// True when ptxas ignored setmaxnreg or serialised wgmma, which costs a
  /// multiple of the kernel's time: such a config is rejected.
  bool hasSerialisationAdvisory() const;

  /// Everything but the cubin, as JSON.
  llvm::json::Object attributes() const;

  /// The inverse of attributes(), with \p cubin for the bytes. Unknown keys are
  /// ignored. Errors: InvalidArgument naming the missing or mistyped key.
  static llvm::Expected<Artifact> fromAttributes(const llvm::json::Value &value,
                                                 std::string cubin);
};

} // namespace kiln
