//===- Watch.h - the watchers of the process ------------------------------===//
//
// Watching is a matter of the process: a tool is attached to it, and a trace
// holds all of its threads. A launch that hits reads one word, relaxed, and
// takes one branch for everything that may watch it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <atomic>
#include <cstdint>

namespace kiln::observe {

enum Watch : uint32_t {
  kNvtx = 1,           ///< a tool receives NVTX ranges
  kTrace = 2,          ///< a trace is written
  kLaunchRanges = 4,   ///< launches that hit are told to both
  kHitWaits = 8,       ///< launches that hit are timed for the ledger of waits
  kProfilerWindow = 16 ///< launches or steps are counted for profilers
};
/// Any of these is of interest to a launch that hits.
inline constexpr uint32_t kOnLaunch =
    kLaunchRanges | kHitWaits | kProfilerWindow;

namespace detail {
inline constinit std::atomic<uint32_t> watches{0};
} // namespace detail

/// The bits of Watch that are set.
inline uint32_t watching() noexcept {
  return detail::watches.load(std::memory_order_relaxed);
}

/// Sets or clears bits of Watch. Whatever was written before is seen by a
/// thread that finds the bit set and then calls seeWatched().
inline void watch(uint32_t bits) noexcept {
  detail::watches.fetch_or(bits, std::memory_order_release);
}
inline void unwatch(uint32_t bits) noexcept {
  detail::watches.fetch_and(~bits, std::memory_order_release);
}
inline void seeWatched() noexcept {
  (void)detail::watches.load(std::memory_order_acquire);
}

} // namespace kiln::observe
