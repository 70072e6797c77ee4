//===- Observe.cpp - what the environment asks to be watched --------------===//
#include "Observe/Observe.h"

#include "Observe/Nvtx.h"
#include "Observe/Trace.h"
#include "Observe/Watch.h"
#include "Support/Error.h"

#include <pthread.h>
#include <stdlib.h>

#include <mutex>
#include <utility>

namespace kiln::observe {

/// Whether the trace that the environment names was started, or cannot be.
static bool hasAskedTrace = false;

/// A child has its parent's words and none of its threads. Its own engines may
/// attach the tool and start a trace again.
static void forgetInChild() {
  detail::watches.store(0);
  hasAskedTrace = false;
  forgetTrace();
}

static void startAsked(const std::string &path, const Log &log) {
  auto started = startTrace(path);
  if (!started)
    return log.warning("KILN_TRACE: {}",
                       summarize(started.takeError()).message);
  log.info("KILN_TRACE: writing {}", *started);
  // Else the end of the buffer would be lost.
  ::atexit([] { stopTrace(); });
}

void watchAsAsked(const Environment &environment, const Log &log) {
  static std::mutex mutex;
  static bool isForkWatched = false;
  std::lock_guard<std::mutex> lock(mutex);
  if (!std::exchange(isForkWatched, true))
    ::pthread_atfork(nullptr, nullptr, forgetInChild);
  if (environment.nvtxInjection && environment.kilnNvtx.value_or("1") != "0")
    if (llvm::Error error = attachNvtx(*environment.nvtxInjection))
      log.warning("{}", summarize(std::move(error)).message);
  if (environment.kilnTrace && !std::exchange(hasAskedTrace, true))
    startAsked(*environment.kilnTrace, log);
  if (environment.kilnLaunchRanges.value_or("0") != "0")
    watch(kLaunchRanges);
  if (environment.kilnWaits == "hits")
    watch(kHitWaits);
}

void nameThread(const char *name) noexcept {
  ::pthread_setname_np(::pthread_self(), name);
}

} // namespace kiln::observe
