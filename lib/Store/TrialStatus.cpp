//===- TrialStatus.cpp - the outcome of a trial ---------------------------===//
#include "Store/TrialStatus.h"

#include "Support/EnumName.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln {

llvm::StringRef nameOf(TrialStatus status) {
  using enum TrialStatus;
  static constexpr EnumName<TrialStatus> kNames[] = {
      {Ok, "ok"},
      {Wrong, "wrong"},
      {OutOfBounds, "out-of-bounds"},
      {NotWritten, "not-written"},
      {LaunchFailed, "launch-failed"},
      {NotTried, "not-tried"},
      {OutOfMemory, "out-of-memory"},
      {Timeout, "timeout"},
      {Late, "late"},
      {ContextDead, "context-dead"}};
  return nameIn(kNames, status);
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
