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
  if (listener)
    listener(entry);
}

std::vector<WaitEntry> WaitLedger::entries(uint64_t first,
                                           uint64_t &next) const {
  std::lock_guard<std::mutex> lock(mutex);
  next = sum.count;
  std::vector<WaitEntry> found;
  for (uint64_t n = std::max(first, sum.count - ring.size()); n < next; ++n)
    found.push_back(ring[n % kMostEntries]);
  return found;
}

WaitLedger::Totals WaitLedger::totals() const {
  std::lock_guard<std::mutex> lock(mutex);
  return sum;
}

} // namespace kiln::observe
