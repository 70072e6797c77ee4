//===- Blame.h - which part of an estimate chose wrongly ------------------===//
//
// Where the first choice of a space is not its best config, the two are
// compared. Their estimates are sums, and the best config's sum is the larger
// one, or nearly so. Blamed is the addend by which the best config exceeds the
// first choice most. That is a lead and no proof: a measured time says how
// wrong a total is, but not how wrong an addend is.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Space.h"

#include <llvm/ADT/STLFunctionalExtras.h>

#include <string>
#include <vector>

namespace kiln::cli {

struct ReplayedSpace;

/// A part of a predicted time.
struct CostAddend {
  std::string name;
  double ns = 0;
};

/// The addends of the estimate of \p candidate; they add up to its total. No
/// other function of this folder knows how estimates keep them.
std::vector<CostAddend> addendsOf(const Candidate &candidate,
                                  const Problem &problem,
                                  const DeviceModel &device);

/// One of the two configs.
struct BlamedConfig {
  std::string config, tmpl, bound; ///< bound: its limit, by the estimate
  double predictedNs = 0, measuredNs = 0;
  std::vector<CostAddend> addends = {};

  /// 0 for an addend that it does not have.
  double addend(llvm::StringRef name) const;
  /// Predicted over measured, minus 1.
  double error() const { return predictedNs / measuredNs - 1; }
};

/// The kind of cause of a wrong first choice.
enum class BlameKind {
  Term,  ///< an addend
  Bound, ///< no addend differs, but the bounds do
  Tie,   ///< the estimate tells the two hardly apart
};

/// A first choice that is not the best, beside the best.
struct Blame {
  BlamedConfig chosen, best;
  double regret = 0;
  BlameKind kind = BlameKind::Tie;
  std::string term;      ///< the addend's name; empty: it is no addend
  double inFavourNs = 0; ///< the best config's addend minus the first choice's

  /// "all waves", "bound: dram, not issue", "a tie".
  std::string cause() const;
  /// "tiled > line": the template chosen, and that of the best config.
  std::string templatePair() const;
};

/// Compares the first choice with the best. An addend is blamed if it differs,
/// in favour of \p chosen, by at least a hundredth of what was predicted for
/// that one.
Blame blame(BlamedConfig chosen, BlamedConfig best);

/// Regrets that have one cause.
struct BlameSum {
  std::string key;
  size_t count = 0;
  double regret = 0; ///< the sum
};

/// The blames of \p spaces by key, the largest sum first. Spaces whose first
/// choice is the best are left out.
std::vector<BlameSum>
sumBlames(llvm::ArrayRef<ReplayedSpace> spaces,
          llvm::function_ref<std::string(const ReplayedSpace &)> keyOf);

} // namespace kiln::cli
