//===- ServedValues.cpp - the values of the table that a range serves -----===//
#include "Runtime/ServedValues.h"

#include "Call/CanonicalProblem.h"
#include "Choice/RangeIndex.h"

namespace kiln {

/// The number of places that are looked at with the table's lock held.
static constexpr size_t kPlacesAtOnce = 256;

void forEachValue(const DispatchTable &plans, const KernelFamily &family,
                  uint64_t contextId, llvm::function_ref<void(Values)> take) {
  size_t place = 0;
  for (bool hasMore = true; hasMore;) {
    std::vector<DispatchTable::KeyValues> values;
    hasMore = plans.list(family, contextId, place, kPlacesAtOnce, values);
    for (const DispatchTable::KeyValues &one : values)
      take(Values(family.problemSchema(), one));
  }
}

void forEachServed(const DispatchTable &plans, const ProblemRange &range,
                   uint64_t contextId,
                   llvm::function_ref<void(const Problem &)> take) {
  forEachValue(plans, *range.family, contextId, [&](Values values) {
    if (!serves(range, values))
      return;
    auto problem = makeProblem(*range.family, std::move(values));
    if (problem)
      take(*problem);
    else
      llvm::consumeError(problem.takeError()); // it was launched
  });
}

} // namespace kiln
