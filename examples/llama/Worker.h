//===- Worker.h - a thread that does what it is given ---------------------===//
#ifndef KILN_EXAMPLES_LLAMA_WORKER_H
#define KILN_EXAMPLES_LLAMA_WORKER_H

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

namespace llama {

/// A GPU is current to one thread, so all of its engine's work is done there.
class Worker {
public:
  Worker();
  /// Waits for all that was given.
  ~Worker();
  Worker(const Worker &) = delete;
  Worker &operator=(const Worker &) = delete;

  /// Does \p work behind what was given before. The future throws what it
  /// throws.
  std::future<void> run(std::function<void()> work);

private:
  void work();

  std::mutex mutex; ///< guards what follows
  std::condition_variable given;
  std::deque<std::packaged_task<void()>> tasks; ///< invalid: the end
  std::thread thread;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_WORKER_H
