//===- Error.cpp ----------------------------------------------------------===//
#include "Support/Error.h"

#include <llvm/Support/raw_ostream.h>

#include <cassert>
#include <cstring>

namespace kiln {

char KilnError::ID = 0;

llvm::StringRef nameOf(ErrorCode code) {
  switch (code) {
  case ErrorCode::Success:
    return "success";
  case ErrorCode::InvalidArgument:
    return "invalid-argument";
  case ErrorCode::Unsupported:
    return "unsupported";
  case ErrorCode::NotPrepared:
    return "not-prepared";
  case ErrorCode::Missing:
    return "missing";
  case ErrorCode::InProgress:
    return "in-progress";
  case ErrorCode::Cancelled:
    return "cancelled";
  case ErrorCode::DriverMissing:
    return "driver-missing";
  case ErrorCode::DriverTooOld:
    return "driver-too-old";
  case ErrorCode::CompilerMissing:
    return "compiler-missing";
  case ErrorCode::CompileFailed:
    return "compile-failed";
  case ErrorCode::OutOfMemory:
    return "out-of-memory";
  case ErrorCode::DeviceOutOfMemory:
    return "device-out-of-memory";
  case ErrorCode::NoCandidate:
    return "no-candidate";
  case ErrorCode::DriverError:
    return "driver-error";
  case ErrorCode::ContextDead:
    return "context-dead";
  case ErrorCode::Io:
    return "io";
  case ErrorCode::Internal:
    return "internal";
  }
  return "unknown";
}

void KilnError::log(llvm::raw_ostream &os) const { os << message; }

std::error_code KilnError::convertToErrorCode() const {
  return llvm::inconvertibleErrorCode();
}

llvm::Error addContext(llvm::Error error, const llvm::Twine &context) {
  if (!error)
    return error;
  // An error with a richer payload, such as a compile log, keeps it.
  if (error.isA<KilnError>())
    return llvm::handleErrors(
        std::move(error), [&](std::unique_ptr<KilnError> e) -> llvm::Error {
          e->message = (context + ": " + e->message).str();
          return llvm::Error(std::move(e));
        });
  ErrorSummary summary = summarize(std::move(error));
  summary.message = (context + ": " + summary.message).str();
  return errorOf(summary);
}

ErrorSummary summarize(llvm::Error error) {
  ErrorSummary summary;
  // Several joined errors keep the first code; messages are joined by "; ".
  auto add = [&](ErrorCode code, std::string message, int64_t driverCode) {
    if (summary.code == ErrorCode::Success) {
      summary.code = code;
      summary.driverCode = driverCode;
    }
    if (!summary.message.empty())
      summary.message += "; ";
    summary.message += message;
  };
  llvm::handleAllErrors(
      std::move(error),
      [&](const KilnError &e) { add(e.code, e.message, e.driverCode); },
      [&](const llvm::ErrorInfoBase &e) {
        add(ErrorCode::Internal, e.message(), 0);
      });
  return summary;
}

llvm::Error errorOf(const ErrorSummary &summary) {
  assert(summary.code != ErrorCode::Success && "no error to make");
  return llvm::make_error<KilnError>(summary.code, summary.message,
                                     summary.driverCode);
}

llvm::Error makeErrnoError(int errnoValue, const llvm::Twine &what) {
  return makeError(ErrorCode::Io, "{}: {}", what.str(),
                   std::strerror(errnoValue));
}

} // namespace kiln
