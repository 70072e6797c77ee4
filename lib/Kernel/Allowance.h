//===- Allowance.h - what a kernel may take of its caller's ---------------===//
#pragma once

#include "Kernel/Problem.h"

#include <cstdint>
#include <limits>

namespace kiln {

/// Limits that the caller sets for a plan, beside those of the device and of
/// the templates. Default: none.
struct Allowance {
  static constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

  /// Of the workspace of a plan.
  uint64_t workspaceBytes = kUnlimited;
  /// The largest problem that the plan is to serve, which differs from the one
  /// at hand in its extents; null: it serves that one alone. Must outlive this.
  const Problem *largest = nullptr;

  bool isLimited() const { return workspaceBytes != kUnlimited || largest; }
};

} // namespace kiln
