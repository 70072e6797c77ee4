//===- KernelUnit.h - the text that instantiates a kernel -----------------===//
#pragma once

#include "Compile/TranslationUnit.h"
#include "Device/DeviceModel.h"
#include "common/Types.h"

#include <llvm/ADT/StringRef.h>

#include <string>

namespace kiln {

/// What a template's kernel is called, in kernel_src. Literals.
struct KernelEntry {
  llvm::StringRef header;        ///< "gemm/MmaGemm.cuh"
  llvm::StringRef signatureType; ///< "GemmSignature"
  llvm::StringRef configType;    ///< "MmaGemmConfig"
  llvm::StringRef paramsType;    ///< "GemmParams"
  llvm::StringRef function;      ///< "mmaGemm"
};

/// What one instance of it is made of.
struct KernelInstance {
  std::string unitName;  ///< "kiln_gemm_mma"
  std::string signature; ///< a designated initialiser
  std::string config;    ///< likewise
  int threads = 0, minBlocks = 1;
  /// What host and device must agree about besides the threads:
  /// "kConfig.sharedBytes(kSignature) == 65536".
  std::string check;
};

/// The translation unit of \p instance for \p device: includes, signature and
/// config as constants, static_asserts that host and device agree, one entry.
/// \p archSpecific: its cubin runs on no other architecture ("sm_90a").
TranslationUnit makeKernelUnit(const KernelEntry &entry,
                               const KernelInstance &instance,
                               const DeviceModel &device,
                               bool archSpecific = false);

/// "BF16": the enumerator of \p type in kernel_src.
llvm::StringRef enumeratorOf(DType type);

} // namespace kiln
