//===- KernelUnit.h - the text that instantiates a kernel -----------------===//
#pragma once

#include "Compile/TranslationUnit.h"
#include "Device/DeviceModel.h"
#include "common/Types.h"

#include <llvm/ADT/StringRef.h>

#include <optional>
#include <string>

namespace kiln {

/// What a template's kernel is called, in kernel_src. Literals.
struct KernelEntry {
  llvm::StringRef header;        ///< "gemm/MmaGemm.cuh"
  llvm::StringRef signatureType; ///< "GemmSignature"
  llvm::StringRef configType;    ///< "MmaGemmConfig"
  llvm::StringRef paramsType;    ///< "GemmParams"
  llvm::StringRef function;      ///< "mmaGemm"
  /// The kernel needs an architecture-specific variant ("sm_90a"), whose cubin
  /// runs on no other architecture.
  bool archSpecific = false;
};

/// What one instance of it is made of.
struct KernelInstance {
  std::string unitName;  ///< "kiln_gemm_mma"
  std::string signature; ///< a designated initialiser
  std::string config;    ///< likewise
  int threads = 0;
  int minBlocks = 1; ///< blocks that an SM must have registers for
  /// Dynamic shared memory; without: the config has none, and chooses minBlocks
  /// by the signature.
  std::optional<int> sharedBytes = std::nullopt;
  bool maySpill = false; ///< UnitParts::maySpill
};

/// The translation unit of \p instance for \p device: includes, signature and
/// config as constants, static_asserts that host and device agree, one entry.
/// Microseconds.
TranslationUnit makeKernelUnit(const KernelEntry &entry,
                               const KernelInstance &instance,
                               const DeviceModel &device);

/// "BF16": the enumerator of \p type in kernel_src.
llvm::StringRef enumeratorOf(DType type);

} // namespace kiln
