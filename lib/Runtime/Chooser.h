//===- Chooser.h - the configs to try, best first -------------------------===//
//
// Measured record, stored decision, the estimator's ranking: each as a list of
// configs that may run here. Whether kernels are compiled, and when trials
// begin, is the engine's to say. Pure except for reads of the cache.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Device/DeviceModel.h"
#include "Kernel/Space.h"
#include "Runtime/PlanPool.h"
#include "Store/ArtifactStore.h"
#include "Store/Decisions.h"
#include "Store/Records.h"
#include "kiln/kiln.h"

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// A config that may be loaded.
struct Choice {
  const Template *tmpl = nullptr;
  Record config;
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
  /// The session that measured this extent was truncated: another may find
  /// something better.
  bool isIncomplete = false;
  /// Trials at this extent found wrong results and none that are right, so that
  /// nothing may be launched without a trial.
  bool foundNoneRight = false;
};

/// Chooses in one context. Thread-safe as the stores are.
class Chooser {
public:
  Chooser(const DeviceModel &device, const std::string &deviceClass,
          PlanPool &pool, ArtifactStore &artifacts, const RecordStore &records,
          const DecisionStore &decisions, Allowance allowance)
      : device(device), deviceClass(deviceClass), pool(pool),
        artifacts(artifacts), records(records), decisions(decisions),
        allowance(allowance) {}

  /// Measured configs: at the problem's extent by time, at another one by the
  /// time there, scaled by what the estimator says of both. Some 10 us.
  RecordedChoices fromRecord(const KernelFamily &family,
                             const Problem &problem) const;

  /// The estimator's stored choices, if their kernels are today's and the
  /// record does not say that they are wrong. Reads a small file.
  std::vector<Choice> fromDecision(const KernelFamily &family,
                                   const Problem &problem) const;

  /// The whole ranking, without what the record says is wrong. Errors:
  /// NoCandidate.
  llvm::Expected<std::vector<Candidate>> rank(const KernelFamily &family,
                                              const Problem &problem) const;

  /// Those of \p entries that may run, as rank() would order them.
  std::vector<Choice>
  rankShortlist(const KernelFamily &family, const Problem &problem,
                llvm::ArrayRef<ShortlistEntry> entries) const;

  /// The kernels that the estimator's choice takes, if they are to be compiled
  /// because neither record, decision nor a kernel that is there will serve.
  llvm::SmallVector<TranslationUnit, 2>
  unitsToCompile(const KernelFamily &family, const Problem &problem) const;

  /// Estimates within this factor of the best may stand in for it, where they
  /// save a compilation.
  static constexpr double kClose = 1.1;
  /// The first of \p ranked that may stand in for its best, if its kernels are
  /// there; past the last if there is none.
  size_t firstCloseAndThere(const Problem &problem,
                            const std::vector<Candidate> &ranked) const;

  /// The choice of a config that the estimator ranks at \p rank.
  static Choice makeChoice(const Template &tmpl, const Record &config,
                           double predictedNs, size_t rank);

  /// The plan of \p config for \p problem; nullopt where a limit forbids it.
  std::optional<Plan> plan(const Problem &problem, const Template &tmpl,
                           const Record &config) const;

  /// Whether all kernels of \p plan are in memory or on disk.
  bool hasArtifacts(const Plan &plan) const;

private:
  bool isRejected(const RecordMatch &match, const Problem &problem,
                  const Template &tmpl, const Record &config) const;

  const DeviceModel &device;
  const std::string &deviceClass;
  PlanPool &pool;
  ArtifactStore &artifacts;
  const RecordStore &records;
  const DecisionStore &decisions;
  Allowance allowance;
};

} // namespace kiln
