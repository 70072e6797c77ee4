//===- CapiErrors.cpp - errors, versions and reserved functions -----------===//
#include "Runtime/Capi.h"

#include "Call/StructAccess.h"
#include "Support/EnumName.h"

#include <algorithm>
#include <cstring>

using namespace kiln;

static_assert(KILN_SUCCESS == int(ErrorCode::Success) &&
              KILN_INVALID_ARGUMENT == int(ErrorCode::InvalidArgument) &&
              KILN_UNSUPPORTED == int(ErrorCode::Unsupported) &&
              KILN_NOT_PREPARED == int(ErrorCode::NotPrepared) &&
              KILN_MISSING == int(ErrorCode::Missing) &&
              KILN_IN_PROGRESS == int(ErrorCode::InProgress) &&
              KILN_CANCELLED == int(ErrorCode::Cancelled) &&
              KILN_DRIVER_MISSING == int(ErrorCode::DriverMissing) &&
              KILN_DRIVER_TOO_OLD == int(ErrorCode::DriverTooOld) &&
              KILN_COMPILER_MISSING == int(ErrorCode::CompilerMissing) &&
              KILN_COMPILE_FAILED == int(ErrorCode::CompileFailed) &&
              KILN_OUT_OF_MEMORY == int(ErrorCode::OutOfMemory) &&
              KILN_DEVICE_OUT_OF_MEMORY == int(ErrorCode::DeviceOutOfMemory) &&
              KILN_NO_CANDIDATE == int(ErrorCode::NoCandidate) &&
              KILN_DRIVER_ERROR == int(ErrorCode::DriverError) &&
              KILN_CONTEXT_DEAD == int(ErrorCode::ContextDead) &&
              KILN_IO == int(ErrorCode::Io) &&
              KILN_INTERNAL == int(ErrorCode::Internal));
static_assert(KILN_LOG_DEBUG == int(LogLevel::Debug) &&
              KILN_LOG_INFO == int(LogLevel::Info) &&
              KILN_LOG_WARNING == int(LogLevel::Warning) &&
              KILN_LOG_ERROR == int(LogLevel::Error));

namespace {
/// The last error of this thread.
struct LastError {
  std::string message;
  const char *fallback = ""; ///< where memory for the message is short
  bool useFallback = true;
  int64_t driverCode = 0;
  uint64_t serial = 0; ///< of this one
};
} // namespace

static thread_local LastError lastError;

kiln_status kiln::report(kiln_status status, const char *message) noexcept {
  lastError.fallback = message;
  lastError.useFallback = true;
  lastError.driverCode = 0;
  ++lastError.serial;
  return status;
}

kiln_status kiln::report(llvm::Error error) noexcept {
  try {
    ErrorSummary summary = summarize(std::move(error));
    lastError.message = std::move(summary.message);
    lastError.useFallback = false;
    lastError.driverCode = summary.driverCode;
    ++lastError.serial;
    return static_cast<kiln_status>(summary.code);
  } catch (...) {
    return report(KILN_OUT_OF_MEMORY, "out of host memory");
  }
}

uint64_t kiln::reportsOfThread() noexcept { return lastError.serial; }

llvm::Error kiln::nullArgument(const char *name) {
  return makeError(ErrorCode::InvalidArgument, "{} is null", name);
}

llvm::Error kiln::writeText(const std::string &text, char *buffer,
                            size_t capacity, size_t *length) {
  if (!buffer && capacity)
    return makeError(ErrorCode::InvalidArgument,
                     "buffer is null, with a capacity of {}", capacity);
  if (capacity) {
    size_t copied = std::min(text.size(), capacity - 1);
    std::memcpy(buffer, text.data(), copied);
    buffer[copied] = '\0';
  }
  if (length)
    *length = text.size();
  return llvm::Error::success();
}

llvm::Error kiln::copyText(const std::string &text, char *field, size_t room) {
  if (text.size() >= room)
    return makeError(ErrorCode::Internal,
                     "'{}' has {} bytes, its field has room for {}", text,
                     text.size(), room - 1);
  std::memcpy(field, text.c_str(), text.size() + 1);
  return llvm::Error::success();
}

/// The answer of a reserved function once its pointers are good.
static llvm::Error unbuilt(const char *name) {
  return makeError(ErrorCode::Unsupported, "{} is not available yet", name);
}

extern "C" {

const char *kiln_last_error_message(void) KILN_NOEXCEPT {
  return lastError.useFallback ? lastError.fallback : lastError.message.c_str();
}

int64_t kiln_last_driver_error(void) KILN_NOEXCEPT {
  return lastError.driverCode;
}

const char *kiln_status_name(kiln_status status) KILN_NOEXCEPT {
  // The names are literals, so they end with a null.
  return nameOf(static_cast<ErrorCode>(status)).data();
}

static constexpr EnumName<kiln_state> kStateNames[] = {
    {KILN_STATE_MISSING, "missing"}, {KILN_STATE_COMPILING, "compiling"},
    {KILN_STATE_TUNING, "tuning"},   {KILN_STATE_FALLBACK, "fallback"},
    {KILN_STATE_READY, "ready"},
};

static constexpr EnumName<kiln_source> kSourceNames[] = {
    {KILN_SOURCE_NONE, "none"},         {KILN_SOURCE_RECORD, "record"},
    {KILN_SOURCE_DECISION, "decision"}, {KILN_SOURCE_ESTIMATE, "estimate"},
    {KILN_SOURCE_GENERIC, "generic"},   {KILN_SOURCE_STAND_IN, "stand-in"},
};

// The names are literals, so they end with a null.
const char *kiln_state_name(kiln_state state) KILN_NOEXCEPT {
  return nameIn(kStateNames, state, "unknown").data();
}

const char *kiln_source_name(kiln_source source) KILN_NOEXCEPT {
  return nameIn(kSourceNames, source, "unknown").data();
}

uint32_t kiln_abi_version(void) KILN_NOEXCEPT { return KILN_ABI_VERSION; }

const char *kiln_version_string(void) KILN_NOEXCEPT { return KILN_VERSION; }

kiln_status kiln_pack_import(kiln_engine *engine, const char *path,
                             const kiln_pack_options *) KILN_NOEXCEPT {
  return guarded([&]() -> llvm::Error {
    if (!engine || !path)
      return nullArgument(engine ? "path" : "engine");
    return unbuilt("kiln_pack_import");
  });
}

kiln_status kiln_pack_export(kiln_engine *engine, const char *path,
                             const kiln_problem *, size_t,
                             const kiln_pack_options *) KILN_NOEXCEPT {
  return guarded([&]() -> llvm::Error {
    if (!engine || !path)
      return nullArgument(engine ? "path" : "engine");
    return unbuilt("kiln_pack_export");
  });
}

kiln_status kiln_register_template(kiln_engine *engine,
                                   const kiln_template *user) KILN_NOEXCEPT {
  return guarded([&]() -> llvm::Error {
    if (!engine || !user)
      return nullArgument(engine ? "user_template" : "engine");
    return unbuilt("kiln_register_template");
  });
}

} // extern "C"
