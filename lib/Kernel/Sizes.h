//===- Sizes.h - fields that are sizes ------------------------------------===//
#pragma once

#include "Kernel/Values.h"

namespace kiln {

/// Whether \p field is a size: an extent, or a size that kernels are compiled
/// for, as a head dim is. Integers with few values are switches.
inline bool isSize(const Field &field) {
  constexpr int64_t kMostSwitches = 16;
  return field.kind == FieldKind::Integer && field.maximum > kMostSwitches &&
         (field.role == FieldRole::Signature ||
          field.role == FieldRole::Extent || field.mayVary());
}

} // namespace kiln
