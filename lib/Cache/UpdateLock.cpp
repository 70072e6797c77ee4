//===- UpdateLock.cpp -----------------------------------------------------===//
#include "Cache/UpdateLock.h"

#include "Cache/Layer.h"
#include "Support/AtomicFile.h"

#include <algorithm>
#include <fcntl.h>
#include <thread>

namespace kiln::cache {

using Clock = std::chrono::steady_clock;

/// Polls for the lock on \p fd. False: over the deadline, or no lock support.
static bool poll(FileOps &ops, int fd, Clock::time_point deadline) {
  std::chrono::microseconds pause(100);
  for (;;) {
    if (ops.tryLock(fd) == 0)
      return true;
    if (errno != EAGAIN && errno != EACCES && errno != EINTR)
      return false;
    auto left = deadline - Clock::now();
    if (left <= Clock::duration::zero())
      return false;
    std::this_thread::sleep_for(std::min<Clock::duration>(pause, left));
    pause = std::min(pause * 3 / 2, std::chrono::microseconds(5000));
  }
}

UpdateLock::UpdateLock(FileOps &ops, int folder, Clock::time_point deadline)
    : ops(ops) {
  const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
  // Anew if the cache was removed and made again while we waited: then the
  // others hold another file.
  for (int attempt = 0; attempt < 4 && !isHeld; ++attempt) {
    file = ScopedFd(ops, retryInterrupted([&] {
                      return ops.open(folder, kLockName, flags, 0600);
                    }));
    if (!file || !poll(ops, file.get(), deadline))
      return;
    isHeld = isCurrent(folder);
  }
}

bool UpdateLock::isCurrent(int folder) const {
  struct stat mine = {}, named = {};
  return ops.status(file.get(), mine) == 0 &&
         ops.statusAt(folder, kLockName, named) == 0 &&
         mine.st_dev == named.st_dev && mine.st_ino == named.st_ino;
}

UpdateLock::~UpdateLock() {
  // A child that was forked meanwhile shares the lock: closing would leave it
  // held.
  if (isHeld)
    ops.unlock(file.get());
}

} // namespace kiln::cache
