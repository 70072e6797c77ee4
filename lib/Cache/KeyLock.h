//===- KeyLock.h - one process at a time, where that is possible ----------===//
//
// OFD locks on bytes of a file that each shard has for this alone: the kernel
// drops them when their holder dies, closing another descriptor of the file
// does not, and the file is never deleted, so its existence says nothing. Each
// key has two bytes. Its turn is held for long, while an entry is being made,
// and only saves work. Its commit is held while a file is compared and
// replaced, for microseconds and a sync, and updates rely on it. Locks are
// polled up to a deadline: a holder that is stopped, slow or on another host
// must not stop other processes for good.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Support/FileOps.h"

#include <llvm/ADT/StringRef.h>

#include <chrono>

namespace kiln::cache {

/// Which of a key's locks.
enum class LockUse { Turn, Commit };

/// Held from construction to destruction if held() says so.
class KeyLock {
public:
  using Clock = std::chrono::steady_clock;

  /// Locks the entry called \p name (64 hexadecimal digits) in \p folder, the
  /// descriptor of its shard; waits no longer than until \p deadline.
  KeyLock(FileOps &ops, int folder, llvm::StringRef name, LockUse use,
          Clock::time_point deadline);
  ~KeyLock();
  KeyLock(const KeyLock &) = delete;
  KeyLock &operator=(const KeyLock &) = delete;

  bool held() const { return state == State::Held; }
  /// Another holder had it to the end, or may have it, because it could not be
  /// asked for. Neither held nor this: there are no locks here.
  bool isRefused() const { return state == State::Refused; }
  /// Why it could not be asked for; 0: another holder had it.
  int errnoValue() const { return failure; }

private:
  enum class State { None, Held, Refused };
  State poll(Clock::time_point deadline);
  State refuse();
  bool isCurrent(int folder) const;

  FileOps &ops;
  off_t offset;
  ScopedFd file;
  State state = State::None;
  int failure = 0;
};

} // namespace kiln::cache
