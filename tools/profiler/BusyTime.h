//===- BusyTime.h - how long at least one of many intervals lasted --------===//
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>

namespace kiln::profiler {

/// The length of a union of intervals that come roughly in order. Intervals
/// that are far behind the latest are summed up and forgotten, so memory is
/// bounded: one that comes later by more than kKept others is cut.
class BusyTime {
public:
  static constexpr size_t kKept = 4096;

  /// Adds the interval from \p start to \p end, both in ns.
  void add(uint64_t start, uint64_t end) {
    start = std::max(start, settled);
    if (end <= start)
      return;
    auto at = open.upper_bound(start);
    if (at != open.begin() && std::prev(at)->second >= start)
      --at;
    while (at != open.end() && at->first <= end) {
      start = std::min(start, at->first);
      end = std::max(end, at->second);
      at = open.erase(at);
    }
    open.emplace(start, end);
    if (open.size() > kKept)
      while (open.size() > kKept / 2)
        settleFirst();
  }

  /// The sum so far, in ns.
  uint64_t total() const {
    uint64_t sum = settledSum;
    for (const auto &[start, end] : open)
      sum += end - start;
    return sum;
  }

private:
  void settleFirst() {
    settledSum += open.begin()->second - open.begin()->first;
    settled = open.begin()->second;
    open.erase(open.begin());
  }

  std::map<uint64_t, uint64_t> open; ///< start -> end, disjoint
  uint64_t settled = 0, settledSum = 0;
};

} // namespace kiln::profiler
