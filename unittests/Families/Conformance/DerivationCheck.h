//===- DerivationCheck.h - a derivation, computed again -------------------===//
#pragma once

#include "Kernel/Derivation.h"
#include "Kernel/Estimate.h"

#include <optional>
#include <string>

namespace kiln::conformance {

/// The fault of \p derivation of \p estimate; empty for no fault. Results have
/// to follow from their parts, and from the printed formulas within 0.1 %; no
/// printed floor is above the total, no sentence contradicts the bound, and the
/// total is the estimate's.
std::string faultOf(const Derivation &derivation, const Estimate &estimate);

/// The value of the formula that \p text prints, in the result's unit, nullopt
/// if it cannot be read; and the result that it prints.
struct PrintedFormula {
  std::optional<double> computed;
  double printed = 0;
  double slack = 0; ///< that rounded operands may put it off
};
PrintedFormula readFormula(llvm::StringRef text);

/// Changes each value that the total of \p derivation comes from, one at a
/// time. Returns the fault of the first that changes neither the total nor a
/// part of it that something larger hides, or whose change the text does not
/// show; empty for none.
std::string faultOfMutations(const Derivation &derivation);

} // namespace kiln::conformance
