//===- WaitLedger.cpp - calls that waited, and what for -------------------===//
#include "Observe/WaitLedger.h"

#include <algorithm>

namespace kiln::observe {

void WaitLedger::add(WaitEntry entry) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    const size_t place = sum.count % kMostEntries;
    if (place < ring.size())
      ring[place] = entry;
    else
      ring.push_back(entry);
    ++sum.count;
    sum.ns += entry.elapsedNs;
    sum.longestNs = std::max(sum.longestNs, entry.elapsedNs);
  }
  // The calls of a listener may wait as well, and it would be told of itself.
  static constinit thread_local bool isTelling = false;
  if (!listener || isTelling)
    return;
  isTelling = true;
  try {
    listener(entry);
  } catch (...) { // a hook
  }
  isTelling = false;
}

std::vector<WaitEntry> WaitLedger::entries(uint64_t &position,
                                           size_t most) const {
  std::lock_guard<std::mutex> lock(mutex);
  std::vector<WaitEntry> found;
  uint64_t n = std::max(position, sum.count - ring.size());
  for (; n < sum.count && found.size() < most; ++n)
    found.push_back(ring[n % kMostEntries]);
  position = std::min(n, sum.count);
  return found;
}

WaitLedger::Totals WaitLedger::totals() const {
  std::lock_guard<std::mutex> lock(mutex);
  return sum;
}

} // namespace kiln::observe
