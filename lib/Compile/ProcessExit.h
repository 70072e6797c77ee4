//===- ProcessExit.h - compilations when the process ends -----------------===//
//
// A process ends when main() returns, or any thread calls exit(), and no engine
// need be destroyed by then. exit() runs the destructors of libraries while the
// other threads go on, and NVRTC's would pull its state from under a thread
// that compiles. So a handler of exit(), which runs before those destructors,
// lets no compilation begin any more and waits for those in progress. (NVRTC
// can be asked to end them; its destructors do not always survive that.)
//
// Handlers run in the opposite order of their registration. NVRTC registers
// some destructors when it is loaded, so ours is registered before it is
// loaded, all the time meanwhile, and again after that. Others it would
// register in the midst of its first compilation: they are kept from it, see
// NvrtcDestructors.cpp.
//
// A forked child has none of the threads, and waits for none.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Support/Log.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

namespace kiln {

/// Registers the handler of exit(), behind all that is registered already. It
/// may be registered many times, at 32 bytes each. Thread-safe.
void watchProcessExit();

/// While it lives, a thread registers the handler behind what a library
/// registers in the midst of its loading: some thousand destructors in a few
/// milliseconds (NVRTC 13.0), which exit() would run while its constructors go
/// on. Those of the last 0.1 ms still run early.
class LoadingWatch {
public:
  LoadingWatch();
  ~LoadingWatch();
  LoadingWatch(const LoadingWatch &) = delete;
  LoadingWatch &operator=(const LoadingWatch &) = delete;

private:
  std::atomic<bool> isOver{false};
  std::thread thread;
};

/// Whether the process is ending: nothing may be compiled any more.
bool isProcessEnding();

/// Whether hooks of the caller may be called: not from other threads than the
/// one that ends the process. What the hooks are of, an interpreter for one,
/// may be gone.
bool mayCallHooks();

/// A stay of the calling thread in NVRTC, or in its loading, that the handler
/// waits for. A thread may have several. Thread-safe.
class CompilerStay {
public:
  CompilerStay();
  ~CompilerStay();
  CompilerStay(const CompilerStay &) = delete;
  CompilerStay &operator=(const CompilerStay &) = delete;

  /// False: the process is ending, and NVRTC must not be called.
  bool isGranted() const { return granted; }

private:
  bool granted = false;
};

/// While it lives, \p log is told when the end of the process has to wait long
/// for compilations. Not called when the destructor has returned.
class ExitNotice {
public:
  explicit ExitNotice(Log log);
  ~ExitNotice();
  ExitNotice(const ExitNotice &) = delete;
  ExitNotice &operator=(const ExitNotice &) = delete;

private:
  friend struct ExitState;
  struct Shared;
  std::shared_ptr<Shared> shared;
};

/// The longest that the handler waits, and when it says that it does.
inline constexpr std::chrono::milliseconds kExitLimit{10000},
    kExitNoticeAfter{3000};

} // namespace kiln
