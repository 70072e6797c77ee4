//===- WaitLedger.h - calls that waited, and what for ---------------------===//
#pragma once

#include "Observe/Phase.h"

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace kiln::observe {

/// A call that waited.
struct WaitEntry {
  const char *call = "";     ///< the function; static storage
  std::string problem;       ///< empty: none, or not known yet
  Phase phase = Phase::Call; ///< in which it spent the most time
  const char *reason = "";   ///< of that phase; static storage
  uint64_t startUnixNs = 0, elapsedNs = 0;
  /// By phase, the time that no nested phase had.
  std::array<uint64_t, kPhaseCount> phaseNs{};
  int64_t thread = 0;
};

/// The latest calls of an engine that waited, and totals over all of them.
/// Thread-safe.
class WaitLedger {
public:
  /// A call waited if it took longer.
  static constexpr uint64_t kThresholdNs = 1'000'000;
  /// So many entries are kept, the latest.
  static constexpr size_t kMostEntries = 1024;

  struct Totals {
    uint64_t count = 0, ns = 0, longestNs = 0;
  };

  /// \p listener, which may be empty, is told of each entry, without a lock.
  /// Entries of calls that it makes itself are not told.
  explicit WaitLedger(std::function<void(const WaitEntry &)> listener = {})
      : listener(std::move(listener)) {}

  void add(WaitEntry entry);
  /// The entries from number \p position on, at most \p most (0: from the
  /// oldest that is kept). Moves \p position behind them.
  std::vector<WaitEntry> entries(uint64_t &position,
                                 size_t most = kMostEntries) const;
  Totals totals() const;

private:
  const std::function<void(const WaitEntry &)> listener;
  mutable std::mutex mutex;    ///< guards what follows
  std::vector<WaitEntry> ring; ///< entry n is at n % kMostEntries
  Totals sum;
};

} // namespace kiln::observe
