//===- Waiting.h - a wait that need not last ------------------------------===//
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace kiln {

/// Waits on \p changed, with \p lock held, until \p isOver. False if it is not
/// by \p deadline, or when \p cancel, which may be null, became true. \p cancel
/// comes without a notification, so it is polled every few milliseconds.
template <class IsOver>
bool waitUntil(std::condition_variable &changed,
               std::unique_lock<std::mutex> &lock,
               std::chrono::steady_clock::time_point deadline,
               const std::atomic<bool> *cancel, const IsOver &isOver) {
  constexpr std::chrono::milliseconds kPollInterval{5};
  while (!isOver()) {
    auto now = std::chrono::steady_clock::now();
    if (now >= deadline || (cancel && *cancel))
      return false;
    changed.wait_until(lock, cancel ? std::min(deadline, now + kPollInterval)
                                    : deadline);
  }
  return true;
}

} // namespace kiln
