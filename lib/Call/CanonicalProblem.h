//===- CanonicalProblem.h - the problem that is the key of a launch -------===//
#pragma once

#include "Kernel/Family.h"

#include <llvm/ADT/ArrayRef.h>

namespace kiln {

/// Replaces every scalar by its representative: choices depend only on whether
/// a scalar that defaults to 0 is 0 (then its operand is not read).
void normaliseScalars(const Schema &schema,
                      llvm::MutableArrayRef<int64_t> values);

/// Returns \p values, which need not be canonical, without incidental fields
/// (Field::isIncidental), as plans are made for them.
Values generalised(Values values);

/// Canonicalises \p values and normalises its scalars. Errors: those of
/// KernelFamily::canonicalise.
llvm::Expected<Problem> makeProblem(const KernelFamily &family, Values values);

} // namespace kiln
