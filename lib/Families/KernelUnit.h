//===- KernelUnit.h - the text that instantiates a kernel -----------------===//
#pragma once

#include "Compile/TranslationUnit.h"
#include "Device/DeviceModel.h"
#include "Kernel/ConfigSchema.h"
#include "Kernel/KernelName.h"
#include "common/Types.h"

#include <llvm/ADT/StringRef.h>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace kiln {

/// The names of a template's kernel in kernel_src; literals.
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

/// The parts of one instance of a kernel.
struct KernelInstance {
  /// By KernelName.h, without the signature's tag: "kiln_gemm_mma_bm64_...".
  std::string name;
  std::string signature; ///< a designated initialiser
  std::string config;    ///< likewise
  int threads = 0;
  int minBlocks = 1; ///< blocks for which an SM must have registers
  /// Dynamic shared memory. Without it the config has none, and chooses
  /// minBlocks by the signature.
  std::optional<int> sharedBytes = std::nullopt;
  bool maySpill = false; ///< UnitParts::maySpill
};

/// The instance of \p signature and \p config: both as text, and the config's
/// threads, blocks and shared memory. \p name is the instance's name.
template <class Signature, class Config>
KernelInstance instanceOf(std::string name, const Signature &signature,
                          const Config &config, bool maySpill) {
  KernelInstance instance;
  instance.name = std::move(name);
  instance.signature = initializerText(signature);
  if constexpr (std::is_empty_v<Config>)
    instance.config = "{}";
  else
    instance.config = initializerText(config);
  instance.threads = config.threads();
  if constexpr (requires { config.minBlocks(signature); })
    instance.minBlocks = config.minBlocks(signature);
  else if constexpr (requires { config.minBlocks(); })
    instance.minBlocks = config.minBlocks();
  if constexpr (requires { config.sharedBytes(signature); })
    instance.sharedBytes = config.sharedBytes(signature);
  instance.maySpill = maySpill;
  return instance;
}

/// The kernel that solves \p problem with \p config, which is the typed form of
/// \p values.
template <class Signature, class Config>
KernelInstance candidateOf(const Problem &problem, const Values &values,
                           const Signature &signature, const Config &config,
                           bool maySpill) {
  return instanceOf(kernelName(problem.values.schema(), values), signature,
                    config, maySpill);
}

/// The naive kernel with which problems of \p problems are compared.
template <class Signature, class Config>
KernelInstance referenceOf(const Schema &problems, const Signature &signature,
                           const Config &config) {
  return instanceOf(referenceName(problems), signature, config,
                    /*maySpill=*/true);
}

/// The translation unit of \p instance for \p device: includes, signature and
/// config as constants, static_asserts that host and device agree, one entry.
/// Unit and entry have the instance's name, with the signature's tag.
/// Microseconds.
TranslationUnit makeKernelUnit(const KernelEntry &entry,
                               const KernelInstance &instance,
                               const DeviceModel &device);

/// The enumerator of \p type in kernel_src, such as "BF16".
llvm::StringRef enumeratorOf(DType type);

/// The enumerator of \p kind in kernel_src, such as "Block1x128".
llvm::StringRef enumeratorOf(ScaleKind kind);

} // namespace kiln
