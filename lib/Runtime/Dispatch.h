//===- Dispatch.h - from a problem in a context to its plan ---------------===//
#pragma once

#include "Kernel/Family.h"
#include "Runtime/PublishedTable.h"
#include "Tune/LoadedPlan.h"
#include "kiln/kiln.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/SmallVector.h>

#include <cstdint>
#include <memory>

namespace kiln {

/// A loaded plan with what is known about the choice. Immutable, shared.
struct ActivePlan {
  std::shared_ptr<const LoadedPlan> loaded;
  kiln_source source = KILN_SOURCE_NONE;
  double predictedNs = 0, measuredNs = 0; ///< 0: not known
  /// Something better may be found: a generic kernel, or one that the mode
  /// would have measured.
  bool isFallback = false;
};
using ActivePlanPtr = std::shared_ptr<const ActivePlan>;

/// What a launch is looked up by: all that a choice depends on. `values` are
/// those of the canonical problem record, scalars normalised (see
/// normaliseScalars), the dynamic extents included.
struct DispatchKey {
  const KernelFamily *family = nullptr;
  uint64_t contextId = 0;
  llvm::ArrayRef<int64_t> values;

  /// Some 20 ns.
  uint64_t hash() const noexcept;
};

struct DispatchEntry {
  uint64_t hash = 0;
  const KernelFamily *family = nullptr;
  uint64_t contextId = 0;
  llvm::SmallVector<int64_t, 24> values;
  ActivePlanPtr plan;

  bool matches(const DispatchKey &key) const noexcept;
};

/// The plans that launches hit. See PublishedTable.
class DispatchTable {
public:
  const DispatchEntry *find(const DispatchKey &key) const noexcept {
    return table.find(key.hash(), [&](const DispatchEntry &entry) {
      return entry.matches(key);
    });
  }
  void publish(const DispatchKey &key, ActivePlanPtr plan);
  /// Publishes \p now for every key that has \p old.
  void replace(const ActivePlan *old, const ActivePlanPtr &now);

  /// Distinct plans that launches can hit.
  size_t planCount() const;

private:
  PublishedTable<DispatchEntry> table;
};

/// Gives every scalar its representative: no choice depends on more of it than
/// whether one that defaults to 0 is 0 (then its operand is not read).
void normaliseScalars(const RecordSchema &schema,
                      llvm::MutableArrayRef<int64_t> values);

} // namespace kiln
