//===- Estimate.h - a predicted time with its terms -----------------------===//
#pragma once

#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/JSON.h>

#include <string>

namespace kiln {

/// One named figure of an estimate: an addend, or a source of addends.
struct EstimateTerm {
  llvm::StringRef name; ///< a literal
  double value = 0;
  llvm::StringRef unit;  ///< a literal: "ns", "B", "", ...
  bool isAddend = false; ///< all addends, in ns, add up to the total
};

/// The wanted detail of an estimate: ranking a space needs only the time.
enum class Detail { Time, Terms };

/// A predicted time and, unless only the time was asked for, its terms.
struct Estimate {
  Estimate() = default;
  explicit Estimate(Detail detail) : detail(detail) {}

  double totalNs = 0;
  /// The limit of the kernel: "tensor", "simd", "shared", "l2", "dram",
  /// "latency". A literal.
  llvm::StringRef bound;
  /// No inline storage: a space has a thousand estimates, and few are read.
  llvm::SmallVector<EstimateTerm, 0> terms;
  Detail detail = Detail::Terms;

  /// Appends an addend of the total; does nothing if only the time is wanted.
  void add(llvm::StringRef name, double ns) {
    if (detail == Detail::Terms)
      terms.push_back({name, ns, "ns", /*isAddend=*/true});
  }
  /// Appends a figure that addends come from; does nothing if only the time is
  /// wanted.
  void note(llvm::StringRef name, double value, llvm::StringRef unit = "ns") {
    if (detail == Detail::Terms)
      terms.push_back({name, value, unit, /*isAddend=*/false});
  }
  /// Value of the term called \p name, 0 if there is none.
  double term(llvm::StringRef name) const;
  llvm::json::Object toJson() const;
};

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

  /// "register wall: 256 accumulators a thread, 192 allowed".
  std::string text() const;
  /// {reason, detail}, and the figures if there are any.
  llvm::json::Object toJson() const;
};

} // namespace kiln
