//===- Log.cpp ------------------------------------------------------------===//
#include "Support/Log.h"

namespace kiln {

void Log::emit(LogLevel level, const std::string &message) const {
  sink(level, message);
}

} // namespace kiln
