//===- ServedValues.h - the values of the table that a range serves -------===//
#pragma once

#include "Call/ProblemRange.h"
#include "Runtime/Dispatch.h"

namespace kiln {

/// Calls \p take with the values of each problem of \p family that the table \p
/// plans has in the context called \p contextId. See forEachServed().
void forEachValue(const DispatchTable &plans, const KernelFamily &family,
                  uint64_t contextId, llvm::function_ref<void(Values)> take);

/// Calls \p take with each problem of the table \p plans that \p range serves
/// in the context called \p contextId. The table's lock is held over 256 places
/// at a time, and never while \p take runs. So launches that meet a value for
/// the first time do not wait, and \p take may change the table.
void forEachServed(const DispatchTable &plans, const ProblemRange &range,
                   uint64_t contextId,
                   llvm::function_ref<void(const Problem &)> take);

} // namespace kiln
