//===- TuningTask.h - the input of one tuning session ---------------------===//
//
// For the tuner, and for programs that run sessions of their own.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Store/Verdicts.h"
#include "Tune/Tuner.h"

#include <string>

namespace kiln {

/// The objects that all sessions of a tuner share.
struct TuningContext {
  const DeviceModel &device;
  ArtifactStore &artifacts;
  RecordStore &records;
  TrialRunner *runner; ///< null: nothing is measured
  std::string deviceClass;
};

/// The state that the parts of a session share.
struct TuningTask {
  const TuningContext &context;
  const KernelFamily &family;
  const Problem &problem;
  const TuningOptions &options;
  RecordMatch match; ///< the record's facts about the problem
  /// The record answers, but its session was truncated or left out configs that
  /// the caller allows: trials go on.
  bool tunesOn = false;
  /// The record's winner is right and up to date, but needs more than the
  /// caller allows: other callers may take it, so it stays.
  bool keepsWinner = false;

  /// Whether trials of any problem found \p kernel wrong.
  bool isWrong(llvm::StringRef kernel) const {
    return context.records.verdicts().isWrong(context.deviceClass, kernel);
  }
  /// Whether \p config needs no trial: its kernel is wrong, or it could not run
  /// at this extent. False while retuning.
  bool isBarred(llvm::StringRef config, llvm::StringRef kernel) const {
    return !options.retune &&
           (isWrong(kernel) || match.refuses(config, kernel));
  }
  /// Whether trials found no correct config here, and that still holds.
  bool foundNoneRight() const {
    return kiln::foundNoneRight(match, context.records.verdicts(),
                                context.deviceClass);
  }
  bool isCancelled() const { return options.cancel && *options.cancel; }
  bool measures() const { return context.runner && options.maxTrials > 0; }
};

} // namespace kiln
