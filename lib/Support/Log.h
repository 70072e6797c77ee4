//===- Log.h - messages of a library that never prints --------------------===//
#pragma once

#include "Support/Format.h"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace kiln {

enum class LogLevel : int32_t {
  Debug = 10,
  Info = 20,
  Warning = 30,
  Error = 40
};

/// A sink for messages. Copyable and cheap; the callback is called from any
/// thread, never with a lock of Kiln's held. An empty log drops everything.
class Log {
public:
  using Sink = std::function<void(LogLevel, llvm::StringRef)>;

  Log() = default;
  explicit Log(Sink sink, LogLevel threshold = LogLevel::Info)
      : sink(std::move(sink)), threshold(threshold) {}

  bool enabled(LogLevel level) const { return sink && level >= threshold; }

  template <class... Args>
  void debug(fmt::format_string<Args...> format, Args &&...args) const {
    write(LogLevel::Debug, format, std::forward<Args>(args)...);
  }
  template <class... Args>
  void info(fmt::format_string<Args...> format, Args &&...args) const {
    write(LogLevel::Info, format, std::forward<Args>(args)...);
  }
  template <class... Args>
  void warning(fmt::format_string<Args...> format, Args &&...args) const {
    write(LogLevel::Warning, format, std::forward<Args>(args)...);
  }

private:
  template <class... Args>
  void write(LogLevel level, fmt::format_string<Args...> format,
             Args &&...args) const {
    if (enabled(level))
      emit(level, fmt::format(format, std::forward<Args>(args)...));
  }
  void emit(LogLevel level, const std::string &message) const;

  Sink sink;
  LogLevel threshold = LogLevel::Info;
};

} // namespace kiln
