//===- CanonicalProblem.h - the problem that a launch is looked up by -----===//
#pragma once

#include "Kernel/Family.h"

#include <llvm/ADT/ArrayRef.h>

namespace kiln {

/// Gives every scalar its representative: no choice depends on more of it than
/// whether one that defaults to 0 is 0 (then its operand is not read).
void normaliseScalars(const Schema &schema,
                      llvm::MutableArrayRef<int64_t> values);

/// \p record as if it said nothing of one launch alone (Field::isIncidental):
/// what plans are made for. It need not be canonical.
Values generalised(Values values);

/// Canonicalises \p record and normalises its scalars. Errors: those of
/// KernelFamily::canonicalise.
llvm::Expected<Problem> makeProblem(const KernelFamily &family, Values values);

} // namespace kiln
