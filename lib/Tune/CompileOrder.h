//===- CompileOrder.h - which kernels of a ranking are compiled -----------===//
//
// The compiler may refuse or spoil a kernel. Then another one is compiled by
// this rule, in an engine and in a warm-up alike.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Space.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/STLFunctionalExtras.h>

#include <cstddef>
#include <optional>

namespace kiln {

/// The kernels of a ranking that are compiled to find one that can be used;
/// then only generic ones follow, which always compile. If generic kernels are
/// far slower, up to kMostCompileAttempts are compiled first: otherwise each
/// call would lose the time that seconds of the first one save.
inline constexpr size_t kCompileAttempts = 4, kMostCompileAttempts = 12;

/// Whether two configs differ in run-time knobs at most, so that they compile
/// to the same kernel.
bool sharesKernel(const Candidate &a, const Candidate &b);

/// Returns the rank to compile next in \p ranked after all of \p tried were
/// refused: one with another kernel that \p mayTry accepts; nullopt if there is
/// none.
std::optional<size_t>
nextToCompile(llvm::ArrayRef<Candidate> ranked, llvm::ArrayRef<size_t> tried,
              llvm::function_ref<bool(size_t rank)> mayTry);

} // namespace kiln
