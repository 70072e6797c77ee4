//===- UpdateLock.h - one updater at a time, where that is possible -------===//
//
// An OFD lock on a file of its own: the kernel drops it when its holder dies,
// closing another descriptor of the file does not, and the file is never
// deleted, so its existence says nothing. Polled up to a deadline: a holder
// that is stopped, slow or on another host must not stop anybody for good.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Support/FileOps.h"

#include <chrono>

namespace kiln::cache {

/// Held from construction to destruction if held() says so.
class UpdateLock {
public:
  /// Takes the lock file of \p folder, a descriptor; waits no longer than until
  /// \p deadline.
  UpdateLock(FileOps &ops, int folder,
             std::chrono::steady_clock::time_point deadline);
  ~UpdateLock();
  UpdateLock(const UpdateLock &) = delete;
  UpdateLock &operator=(const UpdateLock &) = delete;

  bool held() const { return isHeld; }

private:
  bool isCurrent(int folder) const;

  FileOps &ops;
  ScopedFd file;
  bool isHeld = false;
};

} // namespace kiln::cache
