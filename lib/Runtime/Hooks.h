//===- Hooks.h - the caller's log and event hooks -------------------------===//
#pragma once

#include "Support/Error.h"
#include "Support/Log.h"
#include "kiln/kiln.h"

#include <memory>
#include <string>

namespace kiln {

/// One event in C++ terms; empty strings become null.
struct EventInfo {
  kiln_event_kind kind = 0;
  ErrorCode status = ErrorCode::Success;
  kiln_source source = KILN_SOURCE_NONE;
  std::string problem, config, key, message;
  double elapsedMs = 0, predictedNs = 0, measuredNs = 0;
};

/// The log and event hooks of an engine. A copyable value whose copies share
/// the queue of messages. No hook is called with a lock held.
class Hooks {
public:
  Hooks();
  explicit Hooks(const kiln_engine_options &options);

  const Log &log() const { return theLog; }
  /// The log for the cache, whose warnings are events as well. Threads of the
  /// compile pool, and threads that others wait for, use the cache but must not
  /// call hooks. So messages wait until deliver().
  Log cacheLog() const;
  /// Calls the hooks with the messages of the cache.
  void deliver() const;

  bool hasEvents() const { return eventHook != nullptr; }
  void emit(const EventInfo &event) const;

private:
  struct Queue;

  std::shared_ptr<Queue> queue;
  Log theLog;
  kiln_event_fn eventHook = nullptr;
  void *eventUser = nullptr;
};

} // namespace kiln
