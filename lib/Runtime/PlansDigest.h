//===- PlansDigest.h - one number for all that is prepared ----------------===//
#pragma once

#include "Runtime/Engine.h"

#include <string>

namespace kiln {

/// The digest of kiln_plans_digest for the context of \p state, in hexadecimal
/// digits.
std::string plansDigest(const Engine &engine, const ContextState &state);

} // namespace kiln
