//===- Hooks.cpp - what the caller gave us to call ------------------------===//
#include "Runtime/Hooks.h"

namespace kiln {

static LogLevel thresholdOf(kiln_log_level level) {
  return level == KILN_LOG_DEFAULT ? LogLevel::Info
                                   : static_cast<LogLevel>(level);
}

Hooks::Hooks(const kiln_engine_options &options)
    : eventHook(options.event), eventUser(options.event_user) {
  if (kiln_log_fn hook = options.log)
    theLog = Log(
        [hook, user = options.log_user](LogLevel level, llvm::StringRef text) {
          hook(user, static_cast<kiln_log_level>(level), text.str().c_str());
        },
        thresholdOf(options.log_level));
}

Log Hooks::cacheLog() const {
  if (!eventHook)
    return theLog;
  return Log(
      [hooks = *this](LogLevel level, llvm::StringRef text) {
        if (hooks.theLog.enabled(level)) {
          if (level == LogLevel::Warning)
            hooks.theLog.warning("{}", text);
          else
            hooks.theLog.info("{}", text);
        }
        if (level < LogLevel::Warning)
          return;
        EventInfo event;
        event.kind = KILN_EVENT_CACHE_FAULT;
        event.status = ErrorCode::Io;
        event.message = text.str();
        hooks.emit(event);
      },
      LogLevel::Info);
}

void Hooks::emit(const EventInfo &event) const {
  if (!eventHook)
    return;
  auto orNull = [](const std::string &text) {
    return text.empty() ? nullptr : text.c_str();
  };
  kiln_event raw = KILN_INIT(kiln_event);
  raw.kind = event.kind;
  raw.status = static_cast<kiln_status>(event.status);
  raw.source = event.source;
  raw.problem = orNull(event.problem);
  raw.config = orNull(event.config);
  raw.key = orNull(event.key);
  raw.message = orNull(event.message);
  raw.elapsed_ms = event.elapsedMs;
  raw.predicted_us = event.predictedNs * 1e-3;
  raw.measured_us = event.measuredNs * 1e-3;
  eventHook(eventUser, &raw);
}

} // namespace kiln
