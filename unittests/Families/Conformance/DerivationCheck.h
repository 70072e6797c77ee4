//===- DerivationCheck.h - a derivation, reckoned once more ---------------===//
#pragma once

#include "Kernel/Derivation.h"
#include "Kernel/Estimate.h"

#include <string>

namespace kiln::conformance {

/// What is wrong with \p derivation of \p estimate, empty for nothing: results
/// that are not those of their terms, terms that no step gave, sentences that
/// contradict the bound, a total that is not the estimate's.
std::string faultOf(const Derivation &derivation, const Estimate &estimate);

} // namespace kiln::conformance
