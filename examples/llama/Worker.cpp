//===- Worker.cpp ---------------------------------------------------------===//
#include "Worker.h"

#include <utility>

namespace llama {

Worker::Worker() : thread([this] { work(); }) {}

Worker::~Worker() {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    tasks.emplace_back();
  }
  given.notify_one();
  thread.join();
}

std::future<void> Worker::run(std::function<void()> work) {
  std::packaged_task<void()> task(std::move(work));
  std::future<void> done = task.get_future();
  {
    const std::lock_guard<std::mutex> lock(mutex);
    tasks.push_back(std::move(task));
  }
  given.notify_one();
  return done;
}

void Worker::work() {
  for (;;) {
    std::unique_lock<std::mutex> lock(mutex);
    given.wait(lock, [this] { return !tasks.empty(); });
    std::packaged_task<void()> task = std::move(tasks.front());
    tasks.pop_front();
    lock.unlock();
    if (!task.valid())
      return;
    task();
  }
}

} // namespace llama
