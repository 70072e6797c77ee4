//===- TransposeTesting.h - helpers for tests of transpositions -----------===//
#pragma once

#include "Families/FamilyTesting.h"
#include "Families/Transpose/TransposeProblem.h"
#include "Kernel/ConfigSchema.h"
#include "Kernel/Space.h"

#include <string>

namespace kiln::testing {

inline const KernelFamily &transpose() {
  return *registry().find("transpose2d");
}

/// The reason why \p config may not run, or "none".
inline std::string reason(llvm::StringRef problem, llvm::StringRef config) {
  return reason(transpose(), problem, config);
}

/// Name of the template that comes first for \p text.
inline std::string firstOf(llvm::StringRef text) {
  auto space = exploreSpace(transpose(), parse(transpose(), text), h200());
  REQUIRE(bool(space));
  return space->ranked.front().tmpl->name().str();
}

} // namespace kiln::testing
