//===- TrialStatus.cpp - the outcome of a trial ---------------------------===//
#include "Store/TrialStatus.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/Support/ErrorHandling.h>

namespace kiln {

llvm::StringRef nameOf(TrialStatus status) {
  switch (status) {
  case TrialStatus::Ok:
    return "ok";
  case TrialStatus::Wrong:
    return "wrong";
  case TrialStatus::OutOfBounds:
    return "out-of-bounds";
  case TrialStatus::NotWritten:
    return "not-written";
  case TrialStatus::LaunchFailed:
    return "launch-failed";
  case TrialStatus::NotTried:
    return "not-tried";
  case TrialStatus::OutOfMemory:
    return "out-of-memory";
  case TrialStatus::Timeout:
    return "timeout";
  case TrialStatus::Late:
    return "late";
  case TrialStatus::ContextDead:
    return "context-dead";
  }
  llvm_unreachable("unknown trial status");
}

bool isWrongResult(TrialStatus status) {
  return llvm::is_contained(kWrongResults, status);
}

bool isWrongResult(llvm::StringRef reason) {
  return llvm::any_of(kWrongResults, [&](TrialStatus status) {
    return reason.starts_with(nameOf(status));
  });
}

bool isConfigFault(TrialStatus status) {
  return isWrongResult(status) || status == TrialStatus::LaunchFailed;
}

} // namespace kiln
