//===- Problem.h - a problem in canonical form ----------------------------===//
#pragma once

#include "Kernel/Values.h"

#include <string>

namespace kiln {

/// One value for each of a few extents, in the order of their fields.
using ExtentPoint = llvm::SmallVector<int64_t, 4>;

/// A problem together with its signature.
struct Problem {
  Values values;    ///< of the family's problem schema, all fields
  Values signature; ///< the fields that are fixed at compile time

  std::string text() const { return values.text(); }
};

} // namespace kiln
