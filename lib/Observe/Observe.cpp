//===- Observe.cpp - what the environment asks to be watched --------------===//
#include "Observe/Observe.h"

#include "Observe/Nvtx.h"
#include "Observe/Trace.h"
#include "Observe/Watch.h"
#include "Support/Error.h"

#include <pthread.h>

#include <mutex>
#include <utility>

namespace kiln::observe {

/// Held while watching begins, and over a fork, so that a child gets it free.
static std::mutex mutex;
/// Whether the trace that the environment names was started, or cannot be.
static bool hasAskedTrace = false;

/// A child has its parent's words and none of its threads. Its own engines may
/// attach the tool and start a trace again.
static void forgetInChild() {
  detail::watches.store(0);
  hasAskedTrace = false;
  forgetTrace();
  mutex.unlock();
}

/// The messages for the log, which is not called with a lock held.
struct Outcome {
  std::string started, failures;

  void fail(llvm::StringRef what, llvm::Error error) {
    failures += fmt::format("{}{}: {}", failures.empty() ? "" : "; ", what,
                            summarize(std::move(error)).message);
  }
};

static Outcome watchLocked(const Environment &environment) {
  std::lock_guard<std::mutex> lock(mutex);
  static const int isForkWatched = ::pthread_atfork(
      [] { mutex.lock(); }, [] { mutex.unlock(); }, forgetInChild);
  (void)isForkWatched;
  Outcome outcome;
  if (environment.kilnTrace && !std::exchange(hasAskedTrace, true)) {
    auto started = startTrace(*environment.kilnTrace);
    if (started)
      outcome.started = *started;
    else
      outcome.fail("KILN_TRACE", started.takeError());
  }
  if (environment.kilnLaunchRanges.value_or("0") != "0")
    watch(kLaunchRanges);
  if (environment.kilnWaits == "hits")
    watch(kHitWaits);
  return outcome;
}

void watchAsAsked(const Environment &environment, const Log &log) {
  Outcome outcome = watchLocked(environment);
  // The tool's code runs without a lock: it may fork, or make an engine.
  if (environment.nvtxInjection && environment.kilnNvtx.value_or("1") != "0")
    if (llvm::Error error = attachNvtx(*environment.nvtxInjection))
      outcome.fail("NVTX_INJECTION64_PATH", std::move(error));
  if (!outcome.started.empty())
    log.info("KILN_TRACE: writing {}", outcome.started);
  if (!outcome.failures.empty())
    log.warning("{}", outcome.failures);
}

void nameThread(const char *name) noexcept {
  ::pthread_setname_np(::pthread_self(), name);
}

} // namespace kiln::observe
