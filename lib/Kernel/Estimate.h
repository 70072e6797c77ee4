//===- Estimate.h - a predicted time, and limits ------------------------===//
#pragma once

#include "Model/Figure.h"

#include <llvm/ADT/StringRef.h>
#include <llvm/Support/JSON.h>

#include <string>

namespace kiln {

/// A predicted time and the limit of the kernel.
template <Number N> struct Prediction {
  N totalNs = 0;
  /// "tensor", "simd", "shared", "l2", "dram", "latency". A literal.
  llvm::StringRef bound;
};

/// The prediction of a model over doubles: ranking a space asks for thousands.
/// Over figures it is the end of a Derivation.
using Estimate = Prediction<double>;

/// Estimates within this factor of the best of a set are one answer.
inline constexpr double kEstimateTie = 1.02;

/// The hard limits of the pruner: why a config cannot run, or cannot be good.
enum class PruneReason {
  Threads,
  Registers,
  SharedMemory,
  Alignment,
  InstructionShape,
  Cluster,
  Grid,
  Architecture,
  Type,
  Workspace,
  Dominated, ///< never better than another config, which stays
};
llvm::StringRef nameOf(PruneReason reason);

/// A named reason with the figure that broke the limit. Cheap: pruning a space
/// makes thousands.
struct Rejection {
  PruneReason reason = PruneReason::Dominated;
  double value = 0, limit = 0;
  llvm::StringRef unit = {}; ///< a literal
  /// The allowed values if they are not a single number, e.g. "64 or 128"; a
  /// literal. Then `limit` is not used.
  llvm::StringRef allowed = {};

  bool hasFigures() const { return value != 0 || limit != 0; }

  /// "register wall: 256 accumulators a thread, 192 allowed".
  std::string text() const;
  /// {reason, detail}, and the figures if there are any.
  llvm::json::Object toJson() const;
};

} // namespace kiln
