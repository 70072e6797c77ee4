//===- Chooser.h - the configs that each step offers ----------------------===//
//
// Offers one problem's measured record, portfolio, stored decision and ranking,
// each as a sequence of configs that may run here. The engine decides whether
// kernels are compiled, and when trials are made. Pure except for reads of the
// cache, and for the portfolios that are kept from it.
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
  /// It was measured at this very value, or stored for it alone: it is
  /// compiled, unless the caller does not wait.
  bool isKnown = false;
  /// It may be compiled, although its step mostly takes existing kernels.
  bool mayCompile = false;
  /// It is better than the choice behind it and has no kernels yet: they are
  /// requested, and not waited for.
  bool isForLater = false;
  /// Predictions do not distinguish it from the estimator's first choice.
  bool isFirstAnswer = false;
  /// Its result in the trials that were just made; null if there is none.
  const TuningChoice *trialed = nullptr;
  /// The portfolio that it is a member of, if any, and its index there.
  std::shared_ptr<const KnownPortfolio> portfolio;
  uint32_t member = 0;
};

/// The plans of a chooser's caller for trials, in modes that make them.
struct TrialIntent {
  bool areAhead = false;     ///< trials may yet be made
  bool areRepeated = false;  ///< no stored choice replaces them
  bool arePreferred = false; ///< only a record of the value replaces them
  /// Whether trials of the layer were cut short; null: they were not. Called if
  /// there are no measurements at the value itself.
  llvm::function_ref<bool()> isLayerDue = nullptr;
};

/// The sources of a chooser.
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

/// Chooses for one request, on one thread. All arguments must outlive it.
class Chooser {
public:
  /// Takes a choice; returns true if no further one is wanted.
  using Take = llvm::function_ref<bool(const Choice &)>;

  Chooser(const ChoiceSources &sources, const PlanRequest &request);

  /// Gives \p take the choices that \p step offers, best first; \p trials
  /// matters for stored choices. Takes some 10 us for stored choices, a
  /// millisecond for a first ranking. Errors: those of exploreSpace().
  llvm::Error offer(ChoiceStep step, Take take,
                    const TrialIntent &trials = TrialIntent());
  /// The step Stored. While trials are ahead, a choice is left out if trials
  /// are to be repeated or the record is incomplete for this request. If trials
  /// found no correct kernel, the estimator's choice is left out, because it
  /// was not tried.
  void offerStored(const TrialIntent &trials, Take take);
  /// Gives \p take only the stored choices that were measured at this very
  /// value.
  void offerMeasured(Take take);

  /// The facts of trials about the problem, as of the first call.
  const RecordMatch &record();
  /// The current facts, with those that other processes stored.
  const RecordMatch &recordNow();
  /// Whether trials at this very value found no correct kernel.
  bool foundNoneRight();

  /// Allows plans for the requested value alone from now on. By default only a
  /// config that was measured at the value gets such a plan, because otherwise
  /// there would be as many plans and arenas as values. False if there is no
  /// other value to serve.
  bool serveAlone();

  /// The problems that the plan of \p choice may be made for; the first that
  /// allows a plan is taken. These are the request's or, if it runs for none of
  /// them, the furthest that it runs for.
  llvm::ArrayRef<Problem> targetsOf(const Choice &choice) const;
  /// The plan of \p choice for \p target; nullopt if a limit forbids it.
  std::optional<Plan> plan(const Problem &target, const Choice &choice) const;
  /// The allowance of a config that is chosen for the request.
  Allowance allowance() const;
  /// Whether all kernels of \p plan are in memory or on disk.
  bool hasArtifacts(const Plan &plan) const;

  /// The portfolio that serves the request, from this process or the cache;
  /// null if there is none. Takes milliseconds the first time that the cache
  /// has one.
  std::shared_ptr<const KnownPortfolio> portfolio() const;
  /// The range of a portfolio that would serve the request, see layerOf();
  /// nullopt if there is none.
  std::optional<ProblemRange> layer() const;

  /// The stand-ins for a choice: configs that may run the request and whose
  /// kernels are loaded for its signature, the best estimate first. Ranks
  /// nothing, and reads only verdicts from the cache. Takes some 100 us at
  /// most.
  std::vector<Choice> standIns();

  /// Gives \p take the generic configs of the ranking, best first. Errors:
  /// those of offer().
  llvm::Error offerGeneric(Take take);
  /// The kernels of the first generic config; none if they are there.
  llvm::SmallVector<TranslationUnit, 2> genericUnits();

  /// The kernels of the first choice if they will be compiled, because no
  /// earlier step offers a choice that serves.
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
  /// A limit forbids a config that is estimated to be faster than all of the
  /// ranking.
  bool isSecondBest = false;
};

} // namespace kiln
