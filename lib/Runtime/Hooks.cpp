//===- Hooks.cpp - the caller's log and event hooks -----------------------===//
#include "Runtime/Hooks.h"

#include "Compile/ProcessExit.h"

#include <mutex>
#include <vector>

namespace kiln {

static LogLevel thresholdOf(kiln_log_level level) {
  return level == KILN_LOG_DEFAULT ? LogLevel::Info
                                   : static_cast<LogLevel>(level);
}

struct Hooks::Queue {
  struct Message {
    LogLevel level;
    std::string text;
  };
  std::mutex mutex; ///< guards messages
  std::vector<Message> messages;
};

Hooks::Hooks() : queue(std::make_shared<Queue>()) {}

Hooks::Hooks(const kiln_engine_options &options) : Hooks() {
  eventHook = options.event;
  eventUser = options.event_user;
  if (kiln_log_fn hook = options.log)
    theLog = Log(
        [hook, user = options.log_user](LogLevel level, llvm::StringRef text) {
          if (mayCallHooks())
            hook(user, static_cast<kiln_log_level>(level), text.str().c_str());
        },
        thresholdOf(options.log_level));
}

Log Hooks::cacheLog() const {
  bool isHeard = eventHook || theLog.enabled(LogLevel::Warning);
  if (!isHeard)
    return Log();
  return Log(
      [queue = queue](LogLevel level, llvm::StringRef text) {
        std::lock_guard<std::mutex> lock(queue->mutex);
        queue->messages.push_back({level, text.str()});
      },
      LogLevel::Info);
}

void Hooks::deliver() const {
  std::vector<Queue::Message> messages;
  {
    std::lock_guard<std::mutex> lock(queue->mutex);
    messages.swap(queue->messages);
  }
  for (const auto &[level, text] : messages) {
    if (level == LogLevel::Warning)
      theLog.warning("{}", text);
    else
      theLog.info("{}", text);
    if (level < LogLevel::Warning)
      continue;
    EventInfo event;
    event.kind = KILN_EVENT_CACHE_FAULT;
    event.status = ErrorCode::Io;
    event.message = text;
    emit(event);
  }
}

void Hooks::emit(const EventInfo &event) const {
  if (!eventHook || !mayCallHooks())
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
