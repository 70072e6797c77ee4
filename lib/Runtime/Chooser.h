//===- Chooser.h - the order of choice, without its last resort -----------===//
//
// Measured record, stored decision, the estimator's ranking: each as a list of
// configs that may run here, best first. Whether kernels are compiled, and when
// trials begin, is the engine's to say. Pure but for reads of the cache.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Device/DeviceModel.h"
#include "Kernel/Space.h"
#include "Tune/ArtifactStore.h"
#include "Tune/Decisions.h"
#include "Tune/Records.h"
#include "kiln/kiln.h"

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kiln {

/// A config that may be loaded.
struct Choice {
  const Template *tmpl = nullptr;
  Record config;
  Plan plan;
  kiln_source source = KILN_SOURCE_NONE;
  double predictedNs = 0, measuredNs = 0;
  bool isFallback = false;
};

/// What trials found about a problem.
struct RecordedChoices {
  std::vector<Choice> choices; ///< best first
  /// Measured at this extent, or at one of its bucket, with today's kernels:
  /// no trial is due.
  bool isFinal = false;
};

/// Chooses for one device. Thread-safe as the stores are.
class Chooser {
public:
  Chooser(const DeviceModel &device, const std::string &deviceClass,
          ArtifactStore &artifacts, const RecordStore &records,
          const DecisionStore &decisions, uint64_t workspaceLimit)
      : device(device), deviceClass(deviceClass), artifacts(artifacts),
        records(records), decisions(decisions), workspaceLimit(workspaceLimit) {
  }

  /// Measured configs: at the problem's extent by time, at another one by the
  /// time there, scaled by what the estimator says of both.
  RecordedChoices fromRecord(const KernelFamily &family,
                             const Problem &problem) const;

  /// The estimator's stored choices, if their kernels are today's.
  std::vector<Choice> fromDecision(const KernelFamily &family,
                                   const Problem &problem) const;

  /// The whole ranking; plans are made on demand. Errors: NoCandidate.
  llvm::Expected<std::vector<Candidate>> rank(const KernelFamily &family,
                                              const Problem &problem) const;

  /// The kernels that the estimator's choice takes, if they are to be compiled
  /// because neither record, decision nor a kernel that is there will serve.
  llvm::SmallVector<TranslationUnit, 2>
  unitsToCompile(const KernelFamily &family, const Problem &problem) const;

  /// The first of \p ranked that may stand in for its best, if its kernels are
  /// there; past the last if there is none. They cost next to nothing more than
  /// the best and save a compilation.
  size_t firstCloseAndThere(const Problem &problem,
                            const std::vector<Candidate> &ranked) const;

  /// The choice of a ranked candidate; false if its workspace is too large.
  /// \p rank is its place.
  bool makeChoice(const Problem &problem, const Candidate &candidate,
                  size_t rank, Choice &choice) const;

  /// Whether all kernels of \p plan are in memory or on disk.
  bool hasArtifacts(const Plan &plan) const;

private:
  bool completes(const Problem &problem, Choice &choice) const;

  const DeviceModel &device;
  const std::string &deviceClass;
  ArtifactStore &artifacts;
  const RecordStore &records;
  const DecisionStore &decisions;
  uint64_t workspaceLimit;
};

} // namespace kiln
