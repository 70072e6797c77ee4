//===- Phase.h - the kinds of work that are told apart --------------------===//
#pragma once

#include <llvm/ADT/StringRef.h>

#include <cstddef>
#include <cstdint>

namespace kiln::observe {

/// The kind of work that a thread does during an interval. The first is the
/// work of a call that no other phase describes.
enum class Phase : uint8_t {
  Call,         ///< a function of kiln.h
  Canonicalise, ///< from the caller's struct to the problem
  Lookup,       ///< the search for a plan
  Plan,         ///< spaces, estimates, rankings, portfolios
  Cache,        ///< files of the cache
  Compile,      ///< a compilation, or the wait for one
  Load,         ///< code that the driver loads
  Trial,        ///< trials
  Wait,         ///< the wait for another thread's work
  Arena,        ///< memory for a stream's workspace
  Launch,       ///< the enqueueing of kernels
  Background,   ///< a job of the mode background
  Step,         ///< of the engine that embeds Kiln, as are the following two
  Layer,
  Range,
};
inline constexpr size_t kPhaseCount = 15;

/// The word for it, in lower case: "compile". Static storage, ended by a null.
llvm::StringRef nameOf(Phase phase);

} // namespace kiln::observe
