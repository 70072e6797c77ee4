//===- KernelName.h - names of kernels in profiles ------------------------===//
//
// The one rule for the names of the kernels that families compile, and its
// inverse. A name is
//
//   kiln_<family>_<template>_<knobs>_sig<4 hex digits>   a candidate
//   kiln_<family>_reference[_<variant>]_sig...           a reference
//   kiln_<family>_step_<step>_sig...                     a plan's other kernel
//
// e.g. kiln_gemm_sm90_bm128_bn256_bk64_st4_wg2_cm1_cn1_sig1f55. Template and
// knobs are the config's text with '_' for '.', without run-time knobs, which
// are not compiled in. The tag at the end is the same for equal signatures. A
// knob cannot be taken for it: it is always there, and always last.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Registry.h"

#include <string>

namespace kiln {

/// The most characters of a name; all are letters, digits and '_'.
inline constexpr size_t kMaxKernelName = 120;

/// The prefix of every kernel name.
inline constexpr llvm::StringLiteral kKernelPrefix = "kiln_";

/// The name of the kernel of \p config, and the names of further kernels of a
/// family, without the tag. \p problems is the schema of the family's problems.
std::string kernelName(const Schema &problems, const Values &config);
std::string referenceName(const Schema &problems, llvm::StringRef variant = "");
std::string stepName(const Schema &problems, llvm::StringRef step);

/// \p name with the tag of \p signature, its initialiser's text.
std::string tagged(std::string name, llvm::StringRef signature);

/// The parts of a kernel name.
struct KernelName {
  const KernelFamily *family = nullptr;
  /// The template of a candidate, else null.
  const Template *tmpl = nullptr;
  Values config; ///< run-time knobs are at their defaults
  /// The role of other kernels: "reference", "reference quantized", "step
  /// gather".
  std::string role;
  std::string tag; ///< "1f0a"

  /// "gemm sm90.bm128.bn256.bk64.st4", "gemm step gather".
  std::string text() const;
};

/// The inverse of the functions above, for the families of \p registry. Errors:
/// InvalidArgument, with the fault of \p name. Takes microseconds.
llvm::Expected<KernelName> parseKernelName(const Registry &registry,
                                           llvm::StringRef name);

} // namespace kiln
