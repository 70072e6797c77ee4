//===- TuningTask.h - what is tuned, and with what ------------------------===//
//
// Private to the tuner.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Store/Verdicts.h"
#include "Tune/Tuner.h"

#include <string>

namespace kiln {

/// What all sessions of a tuner share.
struct TuningContext {
  const DeviceModel &device;
  ArtifactStore &artifacts;
  RecordStore &records;
  TrialRunner *runner; ///< null: nothing is measured
  std::string deviceClass;
};

/// What the parts of a session share.
struct TuningTask {
  const TuningContext &context;
  const KernelFamily &family;
  const Problem &problem;
  const TuningOptions &options;
  RecordMatch match; ///< what is known of the problem
  /// The record answers, but its session was truncated or left out what the
  /// caller allows: trials go on.
  bool tunesOn = false;
  /// The record's winner is right, of today, and needs more than the caller
  /// allows: others may take it, so it stays.
  bool keepsWinner = false;

  /// Whether trials found \p kernel wrong, for whatever problem.
  bool isWrong(llvm::StringRef kernel) const {
    return context.records.verdicts().isWrong(context.deviceClass, kernel);
  }
  /// The same, where nothing is to be found again, or a refusal at this extent.
  bool isBarred(llvm::StringRef config, llvm::StringRef kernel) const {
    return !options.retune &&
           (isWrong(kernel) || match.refuses(config, kernel));
  }
  /// Whether trials found nothing right here, and that stands.
  bool foundNoneRight() const {
    return kiln::foundNoneRight(match, context.records.verdicts(),
                                context.deviceClass);
  }
  bool isCancelled() const { return options.cancel && *options.cancel; }
  bool measures() const { return context.runner && options.maxTrials > 0; }
};

} // namespace kiln
