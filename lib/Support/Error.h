//===- Error.h - Kiln's one error type ------------------------------------===//
//
// Faults of the world (input, environment, device) travel as llvm::Error
// holding a KilnError: a code that says what the caller does next, a message,
// and the driver's own code where there is one. Bugs are asserts.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Support/Format.h"

#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <utility>

namespace kiln {

/// Classes of faults, told apart by the caller's next step. The values equal
/// the KILN_* codes in kiln.h (Runtime asserts it) and never change.
enum class ErrorCode : int32_t {
  Success = 0,
  InvalidArgument = 10, ///< fix the argument
  Unsupported = 20,     ///< choose another problem, or upgrade Kiln
  NotPrepared = 30,     ///< call prepare outside of the capture, then retry
  Missing = 40,         ///< strict mode: warm the cache up with the key
  InProgress = 50,      ///< poll again
  Cancelled = 60,       ///< the caller cancelled it
  DriverMissing = 70, ///< install the NVIDIA driver, or plan for a catalog GPU
  DriverTooOld = 80,  ///< upgrade the driver, or compile with an older NVRTC
  CompilerMissing = 90,    ///< install NVRTC, or point KILN_NVRTC at it
  CompileFailed = 100,     ///< read the log that comes with the error
  OutOfMemory = 110,       ///< free host memory, retry
  DeviceOutOfMemory = 120, ///< free device memory, retry
  NoCandidate = 130,       ///< no kernel computes this problem correctly here
  DriverError = 140,       ///< ask for the driver's own code
  ContextDead = 150,       ///< destroy the context, start the process again
  Io = 160,                ///< look at the path in the message
  Internal = 170,          ///< report a bug
};

/// Returns the name of \p code as messages print it, e.g. "invalid-argument".
llvm::StringRef nameOf(ErrorCode code);

/// The payload of every llvm::Error in Kiln.
class KilnError : public llvm::ErrorInfo<KilnError> {
public:
  static char ID;

  KilnError(ErrorCode code, std::string message, int64_t driverCode = 0)
      : code(code), message(std::move(message)), driverCode(driverCode) {}

  void log(llvm::raw_ostream &os) const override;
  std::error_code convertToErrorCode() const override;

  ErrorCode code;
  std::string message;
  /// CUresult or nvrtcResult of the call that failed, 0 if none did.
  int64_t driverCode;
};

/// Makes an error from an fmt format string. Messages are lower case, carry
/// the offending value, and end without a full stop.
template <class... Args>
llvm::Error makeError(ErrorCode code, fmt::format_string<Args...> format,
                      Args &&...args) {
  return llvm::make_error<KilnError>(
      code, fmt::format(format, std::forward<Args>(args)...));
}

/// Prefixes \p error with "context: ", keeping its code, driver code and, for a
/// class derived from KilnError, the rest. An error of another class becomes a
/// KilnError with ErrorCode::Internal. Success stays.
llvm::Error addContext(llvm::Error error, const llvm::Twine &context);

/// Takes an error apart into plain data; consumes the error.
struct ErrorSummary {
  ErrorCode code = ErrorCode::Success;
  std::string message;
  int64_t driverCode = 0;
};
ErrorSummary summarize(llvm::Error error);

/// The error that \p summary describes; \p summary must be that of a failure.
llvm::Error errorOf(const ErrorSummary &summary);

} // namespace kiln
