//===- Estimate.h - a predicted time with its terms -----------------------===//
#pragma once

#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/JSON.h>

#include <string>
#include <vector>

namespace kiln {

/// One named part of an estimate. Terms whose unit is "ns" add up, in the way
/// the family documents; the rest are what they were computed from.
struct EstimateTerm {
  llvm::StringRef name; ///< a literal
  double value = 0;
  llvm::StringRef unit; ///< a literal: "ns", "B", "", ...
};

/// How much of an estimate is wanted: ranking a space needs the time alone.
enum class Detail { Time, Terms };

/// A predicted time and, unless only the time was asked for, its terms.
struct Estimate {
  Estimate() = default;
  explicit Estimate(Detail detail) : detail(detail) {}

  double totalNs = 0;
  /// What limits the kernel: "tensor", "simd", "shared", "l2", "dram",
  /// "latency". A literal.
  llvm::StringRef bound;
  /// None inline: a space has a thousand estimates, and few are looked into.
  llvm::SmallVector<EstimateTerm, 0> terms;
  Detail detail = Detail::Terms;

  /// Appends a term; does nothing where only the time is wanted.
  void add(llvm::StringRef name, double value, llvm::StringRef unit = "ns") {
    if (detail == Detail::Terms)
      terms.push_back({name, value, unit});
  }
  /// Value of the term called \p name, 0 if there is none.
  double term(llvm::StringRef name) const;
  llvm::json::Object toJson() const;
};

/// Why a config cannot run, or cannot be good: the hard limits of the pruner.
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
  Dominated, ///< never better than another config that stays
};
llvm::StringRef nameOf(PruneReason reason);

/// A named reason with the figure that broke the limit. Cheap: pruning a space
/// makes thousands.
struct Rejection {
  PruneReason reason = PruneReason::Dominated;
  double value = 0, limit = 0;
  llvm::StringRef unit = {}; ///< a literal

  /// "shared-memory: 245760 B, limit 232448 B".
  std::string text() const;
};

/// One step of a derivation, for `kiln explain`.
struct DerivationStep {
  std::string title;   ///< "register wall"
  std::string formula; ///< "128 * 256 / 256 threads = 128 accumulators"
  std::string verdict; ///< what follows
  llvm::json::Object values;
};

/// How one config's estimate comes about, for one problem on one device.
using Derivation = std::vector<DerivationStep>;

} // namespace kiln
