//===- Allowance.h - the caller's limits for a plan -----------------------===//
#pragma once

#include "Kernel/Problem.h"

#include <cstdint>
#include <limits>

namespace kiln {

/// Limits that the caller sets for a plan, in addition to those of the device
/// and of the templates. By default there are none.
struct Allowance {
  static constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

  /// The limit of a plan's workspace.
  uint64_t workspaceBytes = kUnlimited;
  /// The largest problem that the plan has to serve, which differs from the
  /// current one in its extents; null: it serves the current one alone. Must
  /// outlive this.
  const Problem *largest = nullptr;

  bool isLimited() const { return workspaceBytes != kUnlimited || largest; }
};

} // namespace kiln
