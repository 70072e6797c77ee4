//===- InProcessTrials.h - trials in this process -------------------------===//
//
// Trials are fast but not isolated: a kernel that faults kills the context.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Driver/Driver.h"
#include "Support/ByteGauge.h"
#include "Trial/TrialPace.h"
#include "Trial/TrialRunner.h"

#include <memory>

namespace kiln {

class KernelLoader;
struct TrialContext;

struct InProcessTrialsOptions {
  /// The device memory that trials may take, and no more than half of the
  /// memory that is free when trials of a problem begin. 0: a 16th of the
  /// device's, at least 2 GiB.
  uint64_t scratchBytes = 0;
  /// The time that one launch, or one round of samples, may take before trials
  /// of the problem are given up.
  std::chrono::milliseconds hangLimit{20000};
  /// Cuts the work into pieces and decides when each may begin; the stream then
  /// has the least priority, which is that of ordinary streams. Null: all work
  /// runs at once. Must outlive the trials.
  TrialPace *pace = nullptr;
  /// Loads and keeps the code of candidates, so that nothing is unloaded, which
  /// would wait for the device. Null: code goes with its last user. Must
  /// outlive the trials.
  KernelLoader *loader = nullptr;
  /// Count the scratch memory, and the code that trials load by themselves. May
  /// be null.
  ByteGaugePtr scratch = nullptr;
  ByteGaugePtr modules = nullptr;
};

/// Keeps \p code until the process ends, because its context hangs or is dead,
/// so that its owners can neither unload nor leak it. Thread-safe.
void keepForever(std::shared_ptr<const void> code);

/// Runs trials on the context that is current at create(), which must be
/// current to every caller of run() and to the destructor, and must outlive it.
/// Owns a stream and its scratch memory, and touches no other memory knowingly.
/// Scratch, inputs and reference stay for as long as requests are about one
/// problem.
///
/// Trials and other threads of the process do not disturb each other: no stream
/// is captured and no work is in the default stream. A launch that does not end
/// within the hang limit is late, not dead: it may be waiting for kernels of
/// other threads. Its memory stays as it is, and run() returns InProgress until
/// it has ended.
class InProcessTrials final : public TrialRunner {
public:
  /// \p artifacts and \p driver must outlive it. Compiles nothing yet. Errors:
  /// those of stream creation.
  static llvm::Expected<std::unique_ptr<InProcessTrials>>
  create(const Driver &driver, const DeviceModel &device,
         ArtifactStore &artifacts, InProcessTrialsOptions options = {});
  ~InProcessTrials() override;

  llvm::Expected<std::vector<TrialResult>>
  run(const TrialRequest &request,
      const std::atomic<bool> *cancel = nullptr) override;
  bool hasRoom(const KernelFamily &family, const Problem &problem) override;
  bool isAlive() const override;

  /// Whether a launch that was given up still runs; frees its memory and code
  /// once it does not. The destructor of busy trials leaves both to the
  /// context: freeing them would wait for it, as would freeing any other memory
  /// of the device. False if the launch killed the context: see isAlive().
  bool isBusy();

  /// Gives the scratch memory back, except memory that a given-up launch may
  /// still use; the next run() takes it again.
  void releaseScratch();

  /// Counts the memory no more, and never frees it: its context is destroyed.
  /// Calls no driver.
  void leakScratch();

private:
  explicit InProcessTrials(std::unique_ptr<TrialContext> context);
  std::unique_ptr<TrialContext> context;
};

} // namespace kiln
