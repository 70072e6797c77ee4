//===- Error.cpp ----------------------------------------------------------===//
#include "Support/Error.h"

#include "Support/EnumName.h"

#include <llvm/Support/raw_ostream.h>

#include <cassert>

namespace kiln {

char KilnError::ID = 0;

llvm::StringRef nameOf(ErrorCode code) {
  using enum ErrorCode;
  static constexpr EnumName<ErrorCode> kNames[] = {
      {Success, "success"},
      {InvalidArgument, "invalid-argument"},
      {Unsupported, "unsupported"},
      {NotPrepared, "not-prepared"},
      {Missing, "missing"},
      {InProgress, "in-progress"},
      {Cancelled, "cancelled"},
      {DriverMissing, "driver-missing"},
      {DriverTooOld, "driver-too-old"},
      {CompilerMissing, "compiler-missing"},
      {CompileFailed, "compile-failed"},
      {OutOfMemory, "out-of-memory"},
      {DeviceOutOfMemory, "device-out-of-memory"},
      {NoCandidate, "no-candidate"},
      {DriverError, "driver-error"},
      {ContextDead, "context-dead"},
      {Io, "io"},
      {Internal, "internal"}};
  return nameIn(kNames, code, "unknown");
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

} // namespace kiln
