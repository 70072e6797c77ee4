//===- Problem.h - what to compute, as its family canonicalised it --------===//
#pragma once

#include "Kernel/Values.h"

#include <string>

namespace kiln {

/// One value for each of a few extents, in the order of their fields.
using ExtentPoint = llvm::SmallVector<int64_t, 4>;

/// A problem together with its signature.
struct Problem {
  Values values;    ///< of the family's problem schema, all fields
  Values signature; ///< what is fixed at compile time

  std::string text() const { return values.text(); }
};

} // namespace kiln
