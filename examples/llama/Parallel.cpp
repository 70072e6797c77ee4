//===- Parallel.cpp -------------------------------------------------------===//
#include "Parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace llama {

void inParallel(int64_t count, int64_t piece,
                const std::function<void(int64_t first, int64_t last)> &work) {
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto run = [&] {
    try {
      for (int64_t first = 0; (first = next.fetch_add(piece)) < count;)
        work(first, std::min(first + piece, count));
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex);
      if (!failure)
        failure = std::current_exception();
      next = count;
    }
  };
  const int64_t pieces = (count + piece - 1) / piece;
  const auto cores =
      static_cast<int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::thread> threads;
  for (int64_t i = 1; i < std::min(cores, pieces); ++i)
    threads.emplace_back(run);
  run();
  for (std::thread &thread : threads)
    thread.join();
  if (failure)
    std::rethrow_exception(failure);
}

} // namespace llama
