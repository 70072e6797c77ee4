//===- ProfileRange.cpp - ranges of the engine that embeds Kiln -----------===//
#include "Observe/ProfileRange.h"

#include "Observe/Nvtx.h"
#include "Observe/Trace.h"
#include "Observe/Watch.h"

#include <string>
#include <vector>

namespace kiln::observe {

namespace {
/// A range that was watched when it was opened.
struct OpenRange {
  size_t depth; ///< of the thread's ranges when it was opened
  Phase phase;
  bool isTraced, isTold;
  uint64_t startNs;
  std::string name;
};

/// The ranges of a thread. Watching may begin and end while they are open.
struct ThreadRanges {
  std::vector<Phase> open;
  size_t lost = 0; ///< further ones, for which there was no memory
  std::vector<OpenRange> watched;
};
thread_local ThreadRanges ranges;
} // namespace

void beginRange(Phase phase, const char *name) noexcept {
  try {
    if (ranges.lost == 0)
      ranges.open.push_back(phase);
    else
      ++ranges.lost;
  } catch (...) {
    ++ranges.lost;
  }
  const uint32_t watched = watching() & (kNvtx | kTrace);
  if (!watched || ranges.lost) [[likely]]
    return;
  seeWatched();
  try {
    ranges.watched.push_back({ranges.open.size(), phase,
                              (watched & kTrace) != 0, (watched & kNvtx) != 0,
                              0, name});
  } catch (...) { // no memory: it is not told
    return;
  }
  if (watched & kNvtx)
    nvtxPush(phase, name);
  ranges.watched.back().startNs = monotonicNs();
}

std::optional<Phase> endRange() noexcept {
  if (ranges.lost > 0) {
    --ranges.lost;
    return Phase::Range;
  }
  if (ranges.open.empty())
    return std::nullopt;
  const size_t depth = ranges.open.size();
  const Phase phase = ranges.open.back();
  ranges.open.pop_back();
  if (ranges.watched.empty() || ranges.watched.back().depth != depth)
    return phase;
  const OpenRange &range = ranges.watched.back();
  if (range.isTold)
    nvtxPop();
  if (range.isTraced) {
    TracedInterval interval;
    interval.phase = range.phase;
    interval.name = range.name;
    interval.startNs = range.startNs;
    interval.endNs = monotonicNs();
    traceInterval(interval);
  }
  ranges.watched.pop_back();
  return phase;
}

} // namespace kiln::observe
