//===- Chooser.h - the configs that each step offers ----------------------===//
//
// One problem's measured record, portfolio, stored decision and ranking: each
// as a sequence of configs that may run here. Whether kernels are compiled, and
// when trials are made, the engine decides. Pure except for reads of the cache,
// and for the portfolios that are kept from it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Choice/ChoiceOrder.h"
#include "Choice/PlanPool.h"
#include "Choice/PlanRequest.h"
#include "Choice/PortfolioPool.h"
#include "Kernel/Space.h"
#include "Store/ArtifactStore.h"
#include "Store/PoolStore.h"
#include "Store/Records.h"
#include "Store/Verdicts.h"

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

struct TuningChoice;

/// A config that may be loaded.
struct Choice {
  const Template *tmpl = nullptr;
  Values config;
  kiln_source source = KILN_SOURCE_NONE;
  double predictedNs = 0, measuredNs = 0;
  bool isFallback = false;
  /// Measured at this very value, or stored for it alone: it is compiled,
  /// unless the caller waits for nothing.
  bool isKnown = false;
  /// It is to be compiled, although its step mostly takes what exists.
  bool mayCompile = false;
  /// It is better than the choice behind it and has no kernels yet: they are to
  /// be requested, and not waited for.
  bool isForLater = false;
  /// Predictions do not tell it from the estimator's first choice.
  bool isFirstAnswer = false;
  /// What trials of just now have of it; null: nothing.
  const TuningChoice *trialed = nullptr;
  /// The portfolio that it is a member of, if any, and its place there.
  std::shared_ptr<const KnownPortfolio> portfolio;
  uint32_t member = 0;
};

/// What the caller of a chooser means to do about trials, in modes with some.
struct TrialIntent {
  bool areAhead = false;     ///< may yet be made
  bool areRepeated = false;  ///< nothing that is stored stands in for them
  bool arePreferred = false; ///< nothing but a record of the value does
  /// Whether those of the layer were cut short; null: they were not. Asked
  /// where nothing was measured at the value itself.
  llvm::function_ref<bool()> isLayerDue = nullptr;
};

/// Where a chooser looks.
struct ChoiceSources {
  kiln_mode mode;
  const DeviceModel &device;
  const std::string &deviceClass; ///< deviceClassKey() of the device
  PlanPool &plans;                ///< of the context
  PortfolioPool &portfolios;      ///< of the context
  ArtifactStore &artifacts;
  const RecordStore &records;
  const PortfolioStore &portfolioStore;
  uint64_t workspaceLimit;          ///< bytes that a plan may need
  const PoolStore *pools = nullptr; ///< null: there are none

  PortfolioSources ofPortfolios() const {
    return {portfolioStore, records, device, deviceClass, workspaceLimit};
  }
};

/// Chooses for one request, on one thread. All that is given must outlive it.
class Chooser {
public:
  /// Returns whether no further choice is wanted.
  using Take = llvm::function_ref<bool(const Choice &)>;

  Chooser(const ChoiceSources &sources, const PlanRequest &request);

  /// Gives \p take what \p step offers, best first; \p trials matters to what
  /// is stored. Cost: some 10 us for what is stored, a millisecond for a first
  /// ranking. Errors: those of exploreSpace().
  llvm::Error offer(ChoiceStep step, Take take,
                    const TrialIntent &trials = TrialIntent());
  /// The step Stored. While trials are ahead, a choice is left out if trials
  /// are to be repeated or the record is incomplete for this request. Where
  /// trials found nothing right, the estimator's is left out: it was not tried.
  void offerStored(const TrialIntent &trials, Take take);
  /// Of that, what was measured at this very value.
  void offerMeasured(Take take);

  /// What trials found about the problem, as it was known the first time.
  const RecordMatch &record();
  /// The same as it is now: what other processes stored counts.
  const RecordMatch &recordNow();
  /// Whether trials at this very value found nothing that is right.
  bool foundNoneRight();

  /// From now on a plan may be for the value that is asked for and no other. By
  /// default only what was measured at it gets one: else plans and arenas would
  /// be as many as values. False if there is no other value to serve.
  bool serveAlone();

  /// The problems that the plan of \p choice may be made for, the first that it
  /// can be made for: those of the request, or where it runs for none of them,
  /// the furthest that it runs for.
  llvm::ArrayRef<Problem> targetsOf(const Choice &choice) const;
  /// The plan of \p choice for \p target; nullopt where a limit forbids it.
  std::optional<Plan> plan(const Problem &target, const Choice &choice) const;
  /// What a config may take that is chosen for the request.
  Allowance allowance() const;
  /// Whether all kernels of \p plan are in memory or on disk.
  bool hasArtifacts(const Plan &plan) const;

  /// The portfolio that serves the request: of this process, or of the cache;
  /// null: there is none. Milliseconds the first time that the cache has one.
  std::shared_ptr<const KnownPortfolio> portfolio() const;
  /// What to make a portfolio for that serves the request, see layerOf();
  /// nullopt: there is none.
  std::optional<ProblemRange> layer() const;

  /// What may stand in for a choice at once: configs that may run the request
  /// and whose kernels are loaded for its signature, the best estimate first.
  /// Ranks nothing, and reads no more of the cache than what trials found
  /// wrong. Cost: some 100 us at most.
  std::vector<Choice> standIns();

  /// Gives \p take the generic configs of the ranking, best first. Errors: as
  /// of offer().
  llvm::Error offerGeneric(Take take);
  /// The kernels of the first of them; none if they are there.
  llvm::SmallVector<TranslationUnit, 2> genericUnits();

  /// The kernels of the first choice, if they are to be compiled: nothing that
  /// steps before that offer will serve.
  llvm::SmallVector<TranslationUnit, 2> unitsToCompile();

private:
  std::vector<Choice> recorded();
  std::vector<Choice> decided();
  std::vector<Choice> membersOfPortfolio();
  Choice memberOf(const std::shared_ptr<const KnownPortfolio> &known,
                  const PortfolioChoice &pick) const;
  std::vector<Choice>
  spaceByExpectation(const std::shared_ptr<const KnownPortfolio> &known,
                     llvm::ArrayRef<PortfolioChoice> members);
  std::vector<Choice> contendersBeside(const KnownPortfolio &known) const;
  bool isFirstAnswer(const Template &tmpl, const Values &config,
                     double predictedNs) const;
  void preferExisting(std::vector<Choice> &choices, size_t leads) const;
  std::vector<Choice> pooled();
  llvm::Error rank();
  Choice choiceAt(size_t rank) const;
  bool isWithin(const Choice &choice, Effort effort) const;
  bool isIncomplete();
  bool mayOfferMeasured(const TrialIntent &trials);
  bool mayOfferDecided(const TrialIntent &trials);
  ProblemRange valueAsRange() const;
  bool isRejected(const Template &tmpl, const Values &config);
  std::string digestOf(const Template &tmpl, const Values &config);
  void offerLoaded(Take take) const;
  void offerClosest(Take take) const;
  void offerToCompile(Take take) const;

  const ChoiceSources from;
  const PlanRequest &request;
  const kiln_mode mode;
  const DeviceModel &device;
  const Verdicts &verdicts;
  const PlanTargets targets;
  /// The furthest targets of configs that have one, by their texts.
  mutable llvm::StringMap<llvm::SmallVector<Problem, 1>> furthest;
  bool isAlone = false;
  std::optional<RecordMatch> match;
  bool isRanked = false;
  std::vector<Candidate> ranked;
  /// A limit forbids what is estimated to be faster than all of the ranking.
  bool isSecondBest = false;
};

} // namespace kiln
