//===- KeyLock.cpp --------------------------------------------------------===//
#include "Cache/KeyLock.h"

#include "Cache/Tier.h"
#include "Support/AtomicFile.h"

#include <algorithm>
#include <cassert>
#include <fcntl.h>
#include <thread>

namespace kiln::cache {

/// Two bytes a key. Keys that share them wait for each other, which is only
/// slow.
static off_t offsetOf(llvm::StringRef name, LockUse use) {
  // 60 bits and the use stay below the largest offset.
  uint64_t digits = 0;
  [[maybe_unused]] bool bad = name.take_front(15).getAsInteger(16, digits);
  assert(!bad && "an entry's name is made of hexadecimal digits");
  return static_cast<off_t>(2 * digits + (use == LockUse::Commit));
}

/// The state of the lock that an error of a system call means.
KeyLock::State KeyLock::refuse() {
  switch (errno) {
  case EMFILE:
  case ENFILE:
  case ENOMEM:
  case ENOSPC:
  case EDQUOT:
    failure = errno; // a failure of now: others may hold it
    return State::Refused;
  default:
    return State::None; // the file system, or the path, has no locks
  }
}

/// The caller that has waited longest asks most often, so that newcomers rarely
/// get in front.
KeyLock::State KeyLock::poll(Clock::time_point deadline) {
  std::chrono::microseconds pause(5000);
  for (bool isFirst = true;; isFirst = false) {
    if (ops.tryLock(file.get(), offset) == 0)
      return State::Held;
    if (errno != EAGAIN && errno != EACCES && errno != EINTR)
      return refuse();
    auto left = deadline - Clock::now();
    if (left <= Clock::duration::zero())
      return State::Refused;
    // Most commits end within this.
    constexpr std::chrono::microseconds kShort(100);
    std::this_thread::sleep_for(
        std::min<Clock::duration>(isFirst ? kShort : pause, left));
    pause = std::max(pause * 19 / 20, 2 * kShort);
  }
}

KeyLock::KeyLock(FileOps &ops, int folder, llvm::StringRef name, LockUse use,
                 Clock::time_point deadline)
    : ops(ops), offset(offsetOf(name, use)) {
  const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
  // Again if the cache was removed and made again while we waited: then the
  // others hold another file.
  for (int attempt = 0; attempt < 4; ++attempt) {
    file = ScopedFd(ops, retryInterrupted([&] {
                      return ops.open(folder, kLockName, flags, 0600);
                    }));
    state = file ? poll(deadline) : refuse();
    if (!held() || isCurrent(folder))
      return;
    ops.unlock(file.get(), offset);
    state = State::None;
  }
}

bool KeyLock::isCurrent(int folder) const {
  struct stat mine = {}, named = {};
  return ops.status(file.get(), mine) == 0 &&
         ops.statusAt(folder, kLockName, named) == 0 &&
         mine.st_dev == named.st_dev && mine.st_ino == named.st_ino;
}

KeyLock::~KeyLock() {
  // A child that was forked meanwhile shares the lock: closing would leave it
  // held.
  if (held())
    ops.unlock(file.get(), offset);
}

} // namespace kiln::cache
