//===- InProcessTrials.h - trials in this process -------------------------===//
//
// Fast and trusting: a kernel that faults takes the context with it. For
// templates whose campaign of random configs passed.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Driver/Driver.h"
#include "Kernel/Registry.h"
#include "Tune/TrialRunner.h"

#include <memory>

namespace kiln {

struct InProcessTrialsOptions {
  /// Device memory that trials may take; the rest of the device is the
  /// caller's. 0 takes half of what is free at the first trial, at most
  /// 16 GiB.
  uint64_t scratchBytes = 0;
  /// How long one launch, or one round of samples, may take before the device
  /// counts as hung.
  std::chrono::milliseconds hangLimit{20000};
};

/// Runs trials on the context that is current at create(), which must be
/// current to every caller of run() and to the destructor, and must outlive
/// it. Owns a stream and its scratch memory; never touches memory of others
/// knowingly. Scratch, inputs and reference stay for as long as requests are
/// about one problem.
class InProcessTrials final : public TrialRunner {
public:
  /// \p registry, \p artifacts and \p driver must outlive it. Compiles nothing
  /// yet. Errors: those of stream creation.
  static llvm::Expected<std::unique_ptr<InProcessTrials>>
  create(const Driver &driver, const Registry &registry,
         const DeviceModel &device, ArtifactStore &artifacts,
         InProcessTrialsOptions options = {});
  ~InProcessTrials() override;

  llvm::Expected<std::vector<TrialResult>>
  run(const TrialRequest &request) override;
  bool isAlive() const override;

  /// Gives the scratch memory back; the next run() takes it anew.
  void releaseScratch();

private:
  struct Impl;
  class Session;
  explicit InProcessTrials(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace kiln
