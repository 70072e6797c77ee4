//===- DerivationCheck.h - a derivation, computed again -------------------===//
#pragma once

#include "Kernel/Derivation.h"
#include "Kernel/Estimate.h"

#include <string>

namespace kiln::conformance {

/// The fault of \p derivation of \p estimate; empty for no fault. Results have
/// to follow from their terms, terms from steps, sentences have to agree with
/// the bound, and the total has to be the estimate's.
std::string faultOf(const Derivation &derivation, const Estimate &estimate);

} // namespace kiln::conformance
