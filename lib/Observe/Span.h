//===- Span.h - an interval of a thread's work ----------------------------===//
//
// Work off the path of hits is enclosed in spans. Each is told to the process's
// watchers (Watch.h): the NVTX tool gets a range, the trace an interval. Within
// a call (CallScope.h) a span also adds its time to the phases of the call, for
// the ledger of waits. Without watchers and outside of calls a span costs two
// loads and a branch.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Observe/Nvtx.h"
#include "Observe/Phase.h"
#include "Observe/Watch.h"

#include <llvm/ADT/STLFunctionalExtras.h>

#include <atomic>
#include <concepts>
#include <cstdint>
#include <memory>
#include <string>

namespace kiln::observe {

class CallFrame;

/// A text that many spans show. It is made, and registered with the tool, by
/// the first span that is watched. Thread-safe.
class SharedName {
public:
  SharedName() = default;
  SharedName(const SharedName &) = delete;
  SharedName &operator=(const SharedName &) = delete;
  ~SharedName() { delete made.load(); }

  struct Made {
    std::string text;
    NvtxName name = nullptr;
  };
  /// Null if there is no memory for it.
  const Made *get(llvm::function_ref<std::string()> text) noexcept;

private:
  std::atomic<const Made *> made{nullptr};
};

/// An interval of the calling thread's work. Spans of a thread nest.
class Span {
public:
  /// \p reason, in static storage, says why a caller waits in this phase.
  explicit Span(Phase phase, const char *reason = nullptr) noexcept
      : Span(phase, nullptr, reason, nullptr) {}
  /// \p what tells, if it is asked to, what the work is about; it is called
  /// before the constructor returns.
  template <std::invocable What>
  Span(Phase phase, const What &what, const char *reason = nullptr) noexcept
      : Span(phase, &what, reason, [](const void *from) -> std::string {
          return (*static_cast<const What *>(from))();
        }) {}
  ~Span() {
    if (frame || isRange || isTraced)
      end();
  }
  Span(const Span &) = delete;
  Span &operator=(const Span &) = delete;

private:
  using Tell = std::string (*)(const void *what);
  Span(Phase phase, const void *what, const char *reason, Tell tell) noexcept;
  void end() noexcept;

  const Phase phase;
  bool isRange = false, isTraced = false;
  Phase outer = Phase::Call; ///< the phase of the frame before
  CallFrame *frame = nullptr;
  uint64_t startNs = 0;
  const char *reason = nullptr;
  std::string text;
};

/// A launch that is watched, for its lifetime: a span with a shared name, which
/// is lighter, because launches take a fraction of a microsecond. It adds
/// nothing to the phases of a call.
class LaunchSpan {
public:
  /// \p name, which may be null, must outlive the span.
  explicit LaunchSpan(const SharedName::Made *name) noexcept;
  ~LaunchSpan() {
    if (isRange)
      nvtxPop();
    if (startNs)
      traceEnd();
  }
  LaunchSpan(const LaunchSpan &) = delete;
  LaunchSpan &operator=(const LaunchSpan &) = delete;

private:
  void traceEnd() noexcept;

  const SharedName::Made *name;
  bool isRange = false;
  uint64_t startNs = 0; ///< 0: there is no trace
};

} // namespace kiln::observe
