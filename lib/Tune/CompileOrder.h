//===- CompileOrder.h - which kernels of a ranking are compiled -----------===//
//
// The compiler may refuse or spoil a kernel. Then another one is compiled, by
// the rule that is here, whoever looks for a choice: an engine or a warm-up.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Space.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/STLFunctionalExtras.h>

#include <cstddef>
#include <optional>

namespace kiln {

/// So many kernels of a ranking are compiled to find one that can be used, then
/// only generic ones, which always compile. Where generic kernels are far
/// slower, more of the others are compiled first: each call would lose what
/// seconds of the first one save.
inline constexpr size_t kCompileAttempts = 4, kMostCompileAttempts = 12;

/// Whether two configs differ in run-time knobs at most: what the compiler
/// makes of one, it makes of the other.
bool sharesKernel(const Candidate &a, const Candidate &b);

/// The rank to compile next in \p ranked, where all of \p tried were refused:
/// one with another kernel that \p mayTry. Nothing: there is none.
std::optional<size_t>
nextToCompile(llvm::ArrayRef<Candidate> ranked, llvm::ArrayRef<size_t> tried,
              llvm::function_ref<bool(size_t rank)> mayTry);

} // namespace kiln
