//===- PeriodicThread.cpp - a thread that works now and then --------------===//
#include "Runtime/PeriodicThread.h"

#include "Observe/Observe.h"
#include "Support/Signals.h"

#include <system_error>

namespace kiln {

bool PeriodicThread::start(const char *name, std::chrono::milliseconds interval,
                           std::function<void()> work) {
  const SignalsBlocked whileItStarts;
  try {
    thread = std::thread([this, name, interval, work = std::move(work)] {
      observe::nameThread(name);
      std::unique_lock<std::mutex> lock(mutex);
      while (!changed.wait_for(lock, interval, [&] { return isEnding; })) {
        lock.unlock();
        work();
        lock.lock();
      }
    });
  } catch (const std::system_error &) {
    return false;
  }
  return true;
}

void PeriodicThread::stop() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    isEnding = true;
  }
  changed.notify_all();
  if (thread.joinable())
    thread.join();
}

} // namespace kiln
