//===- CompilePool.h - compilations in parallel ---------------------------===//
//
// A thread inside ptxas cannot be cancelled, and a compilation may hang. So the
// threads are detached from the start and share ownership of all that they
// touch with the pool: a compilation over its limit is abandoned and counted,
// its thread is replaced and never joined.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Compile/Artifact.h"
#include "Compile/Compiler.h"
#include "Compile/TranslationUnit.h"

#include <llvm/ADT/FunctionExtras.h>
#include <llvm/Support/Error.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>

namespace kiln {

/// Memory that one running compilation is taken to need: 110 MB were measured
/// for a GEMM kernel, large kernels take a multiple.
inline constexpr uint64_t kBytesPerCompile = 350ull << 20;

/// How many compilations run at once: as many as CPUs and memory allow, at most
/// \p cap unless that is 0, at least 1. Reads a few small files.
unsigned compileConcurrency(unsigned cap = 0);

struct CompilePoolOptions {
  unsigned threads = 0; ///< cap; 0 leaves it to compileConcurrency()
  /// abandonOverdue() gives up on a compilation that ran this long, waiting in
  /// the queue not counted.
  std::chrono::milliseconds compileLimit{120000};
  /// How long stop() and cancelled waits leave to running compilations.
  std::chrono::milliseconds shutdownGrace{2000};
  /// Niceness of its threads, as in nice(1); 0: that of the thread that starts
  /// them.
  int niceness = 0;
};

/// A bounded pool of compiling threads. Thread-safe. Threads start when there
/// is work for them and end with the pool.
class CompilePool {
public:
  using Clock = std::chrono::steady_clock;
  using Result = llvm::Expected<Artifact>;
  using Callback = llvm::unique_function<void(Result)>;
  /// Names a submitted unit; 0: no unit.
  using Ticket = uint64_t;
  /// A gate's answer for the unit whose turn it is: Later puts it behind all
  /// queued units, Drop cancels it.
  enum class Admission { Compile, Later, Drop };
  using Gate = llvm::unique_function<Admission()>;

  explicit CompilePool(std::shared_ptr<Compiler> compiler,
                       CompilePoolOptions options = {});

  /// As stop().
  ~CompilePool();

  CompilePool(const CompilePool &) = delete;
  CompilePool &operator=(const CompilePool &) = delete;

  /// Queues \p unit; lower \p priority runs first, equals in the order they
  /// came. \p callback must not throw; it is called exactly once, without a
  /// lock, from a pool thread, or with an error of code Cancelled (cancelled,
  /// pool destroyed) or CompileFailed (abandoned) from the thread that ends it.
  /// \p gate, if given, is asked on a pool thread, without a lock, whenever the
  /// unit is about to compile; its time is not counted. It takes milliseconds
  /// at most, since the destructor waits for it, and may use objects that the
  /// callback owns.
  Ticket submit(TranslationUnit unit, int64_t priority, Callback callback,
                Gate gate = nullptr);

  /// As above, with a future for the result.
  std::future<Result> submit(TranslationUnit unit, int64_t priority = 0);

  /// Takes back a unit that has not started: its callback gets Cancelled before
  /// this returns true. False when it runs, has ended, or never was.
  bool cancel(Ticket ticket);

  /// Takes back all units that have not started; returns how many.
  size_t cancelAll();

  /// Gives up on one running compilation, now: its callback gets Cancelled
  /// before this returns true. False when it does not run.
  bool abandon(Ticket ticket);

  /// Cancels units that have not started, waits shutdownGrace for the rest, and
  /// abandons those that still run then. Callbacks have returned when it
  /// returns; units submitted from here on are cancelled. Not to be called from
  /// a callback.
  void stop();

  /// Gives up on every compilation that has run longer than compileLimit;
  /// returns how many. Threads that wait for a compilation call this.
  size_t abandonOverdue();

  /// How many compilations run at once.
  unsigned width() const;

  /// Compilations of this process that were abandoned and still run. A process
  /// that has some must not run exit handlers: one waits for the loader's lock,
  /// which such a compilation may hold, and others pull its code away.
  static size_t lostInProcess();

private:
  struct State;
  std::shared_ptr<State> state;
};

} // namespace kiln
