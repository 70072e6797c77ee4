//===- Parallel.cpp -------------------------------------------------------===//
#include "Support/Parallel.h"

#include "Support/Signals.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace kiln {

void forEachInParallel(size_t count, unsigned threads,
                       llvm::function_ref<void(size_t)> body,
                       const std::atomic<bool> *cancel) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure; // guarded by mutex
  auto work = [&]() noexcept {
    try {
      for (size_t index; (index = next++) < count;) {
        if (cancel && cancel->load(std::memory_order_relaxed))
          return;
        body(index);
      }
    } catch (...) {
      next = count;
      std::lock_guard lock(mutex);
      failure = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  const size_t wanted = std::min<size_t>(count, std::max(1U, threads));
  {
    SignalsBlocked whileTheyStart;
    try {
      while (others.size() + 1 < wanted)
        others.emplace_back(work);
    } catch (const std::exception &) {
      // Fewer threads do the same work. (A thread or memory is not to be had.)
    }
  }
  work();
  for (std::thread &other : others)
    other.join();
  if (failure)
    std::rethrow_exception(failure);
}

} // namespace kiln
