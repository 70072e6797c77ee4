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
// thousands of destructors when it is loaded, so ours is registered before Kiln
// loads it and again after that. It would register others in the midst of its
// first compilation; NvrtcDestructors.cpp prevents that. Another library may
// have loaded NVRTC long before Kiln compiles, as PyTorch does: the destructors
// would run first, and a compilation could begin after them. So the handler is
// also registered where a compilation is foreseen, and where a thread that
// foresaw one ends. There exit() waits for Kiln's own loading, too.
//
// A forked child has none of the threads, and waits for none.
//
// Limits, as long as Kiln itself has not loaded NVRTC. Some destructors run
// before the handler:
//  - of libraries that were loaded since a compilation was last foreseen, where
//    exit() is called by a thread that never foresaw one;
//  - of a library that was being loaded when one was last foreseen: the loader
//    counts it before it registers its destructors;
//  - those registered without a loading, unless the main thread calls exit().
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Support/Log.h"

#include <chrono>
#include <memory>

namespace kiln {

/// Registers the handler of exit(), behind all handlers that are registered
/// already. It may be registered many times, at 32 bytes each. Thread-safe.
void watchProcessExit();

/// Whether the process is ending: nothing may be compiled any more.
bool isProcessEnding();

/// Whether hooks of the caller may be called. At the end of the process only
/// the thread that ends it may call them, because their owner, such as an
/// interpreter, may be gone.
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

/// A loading of the compiler, during which destructors are registered.
class CompilerLoading {
public:
  CompilerLoading();
  ~CompilerLoading();
  CompilerLoading(const CompilerLoading &) = delete;
  CompilerLoading &operator=(const CompilerLoading &) = delete;
};

/// To be called by a thread whose work may end in a compilation, on this or on
/// another thread: exit() will run the handler before the destructors of all
/// libraries that are loaded by now. Where this thread calls exit(), the same
/// holds of libraries that are loaded later, and a loading of the compiler by
/// Kiln ends before any destructor runs. A call may wait for libraries that are
/// being loaded (measured: 4 of the 15 ms of NVRTC's); otherwise it takes below
/// a microsecond. So launches that have a plan or a stand-in do not call it.
void foreseeCompilation();

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
