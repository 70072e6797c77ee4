//===- Problem.h - what to compute, as its family canonicalised it --------===//
#pragma once

#include "Kernel/Record.h"

#include <string>

namespace kiln {

/// One value for each of a few extents, in the order of their fields.
using ExtentPoint = llvm::SmallVector<int64_t, 4>;

/// A problem together with its signature.
struct Problem {
  Record record;    ///< of the family's problem schema, all fields
  Record signature; ///< what is fixed at compile time

  std::string text() const { return record.text(); }
};

} // namespace kiln
