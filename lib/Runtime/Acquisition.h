//===- Acquisition.h - the work of finding one plan -----------------------===//
//
// Takes the steps of the engine's mode (ChoiceOrder.h) one after the other
// until a config that one of them offers is loaded. If a config cannot be had,
// the next one is tried. An error that no other config would change ends the
// work.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Choice/Chooser.h"
#include "Runtime/Engine.h"

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

namespace kiln {

struct MemberCode;
class Portfolio;
struct PortfolioOptions;
struct PortfolioOutcome;
struct PortfolioResult;
struct TuningChoice;
struct TuningOptions;
struct TuningOutcome;
struct TuningResult;
struct TuningTrial;

/// Finds the plan of one request, once, on one thread and with the context
/// current. All arguments must outlive it.
class Acquisition {
public:
  /// \p state receives the progress for other threads; may be null.
  Acquisition(Engine &engine, ContextState &context, const PlanRequest &request,
              const AcquireOptions &options, std::atomic<kiln_state> *state);

  /// Takes all steps. May compile and tune. For a range, all members of its
  /// portfolio are loaded and the plan of its typical problem is returned; the
  /// context keeps the others.
  llvm::Expected<ChosenPlan> run();
  /// Like run(), but without trials and turns, for a thread that must not wait
  /// for them. Errors: NoCandidate where a launch needs a trial first.
  llvm::Expected<ChosenPlan> runWithoutTrials();
  /// Returns the plan that run() would take if it is loaded, else none.
  llvm::Expected<ChosenPlan> findLoaded();
  /// Returns the best plan that is loaded for the signature
  /// (Chooser::standIns()), or none. Waits for no other thread and loads
  /// nothing; takes some 100 us, also beside a capture.
  ChosenPlan findStandIn();
  /// For a range: returns the prepared range that serves all of it, once run()
  /// has found a plan.
  std::shared_ptr<const PreparedRange> takeServing() {
    return std::move(serving);
  }
  /// Whether run() was not cut short, so that a second run would find no more.
  /// For requests with trials and for ranges.
  bool isComplete() const { return complete; }
  /// For a range: whether its measurements are stored. A second run goes on
  /// from them unless it retunes.
  bool hasStored() const { return stored; }
  /// ContextState::portfolioVersion at the time of the choice.
  uint64_t versionOfChoice() const { return portfolioVersion; }
  /// Loads a generic kernel of the signature, compiled if need be.
  llvm::Error loadGeneric(Effort effort = Effort::Compiled);

private:
  using Clock = std::chrono::steady_clock;

  // The steps.
  void takeSteps(bool onlyStored = false);
  void take(ChoiceStep step);
  void takeMeasured();
  void takeFromRanges();
  void refuseLost();
  void loadFrom(ChoiceStep step, const Choice &choice);
  llvm::Error offer(ChoiceStep step, Chooser::Take take);
  bool awaitsLayer(const Choice &choice);
  bool isOver() const { return found || fatal.code != ErrorCode::Success; }

  // One config.
  bool isLoaded(const Choice &choice) const;
  void load(const Choice &choice, Effort effort);
  void loadNew(const Problem &target, Plan plan, const Choice &choice,
               Effort effort);
  void loadCompiled(const Problem &target, const Choice &choice,
                    CompiledPlan compiled);
  void requestLater(const Choice &choice);
  void takeArrived();
  void loadResident(const Problem &target, Plan plan, const Choice &choice);
  void choose(const Choice &choice,
              const std::shared_ptr<const LoadedPlan> &loaded);
  llvm::Expected<std::optional<CompiledPlan>>
  getArtifacts(Plan plan, const Choice &choice, Effort effort);
  void fail(llvm::Error error);

  // Trials: AcquisitionTrials.cpp.
  void takeTrials();
  void measureValue();
  void refuseUnproven();
  void takeRecordInstead();
  void keepWinner(TuningChoice &choice, bool isBusy);
  std::optional<TuningOutcome> measure(Clock::time_point deadline);
  TuningOptions tuningOptions();
  void takeTuned(const TuningChoice &tuned);
  void countTrials(size_t tried);
  void countTrial(const TuningTrial &trial) const;
  void countFailure(const TuningTrial &trial) const;
  void report(const TuningResult &result);
  void report(const TuningTrial &trial);
  void keepCode(std::shared_ptr<const LoadedPlan> &loaded, bool isBusy);
  std::unique_ptr<InProcessTrials> makeTrials();

  // Portfolios: AcquisitionRange.cpp.
  bool resumesLayer();
  bool mayMeasure(const ProblemRange &layer);
  void measureLayer(const ProblemRange &layer);
  static bool hasRoom(InProcessTrials &runner, const ProblemRange &layer);
  void keepUntried(const ProblemRange &layer, Clock::time_point deadline,
                   std::shared_ptr<const Portfolio> cover);
  void noteSession(const ProblemRange &layer, const PortfolioOutcome &made,
                   InProcessTrials &runner, Clock::time_point deadline);
  std::shared_ptr<const KnownPortfolio>
  makeForRange(std::vector<MemberCode> &code);
  void takeRange();
  std::chrono::milliseconds budgetForLayer(const ProblemRange &layer) const;
  std::optional<PortfolioOutcome>
  makePortfolio(const ProblemRange &range, std::chrono::milliseconds budget,
                bool needsTrials,
                std::shared_ptr<const Portfolio> *cover = nullptr);
  PortfolioOutcome runSession(const ProblemRange &range,
                              InProcessTrials *runner,
                              Clock::time_point deadline, bool retunes);
  PortfolioOutcome runSession(const ProblemRange &range,
                              InProcessTrials *runner,
                              Clock::time_point deadline,
                              const PortfolioOptions &made);
  PortfolioOptions portfolioOptions(const ProblemRange &range) const;
  void keepKernels(std::vector<MemberCode> &code, bool isBusy);
  void keepMeasured(const ProblemRange &range, PortfolioOutcome &made);
  void dropServed(const ProblemRange &range);
  void chooseAgain(const ProblemRange &layer);
  void chooseAgain(const KernelFamily &family, const Problem &problem);
  void report(const PortfolioResult &result);
  bool mayLoadAhead(const Plan &plan);
  std::vector<ActivePlanPtr> loadMembers(const KnownPortfolio &known,
                                         std::vector<MemberCode> code,
                                         std::vector<uint32_t> &leftOut);
  ActivePlanPtr loadMember(const KnownPortfolio &known, uint32_t member,
                           MemberCode code, bool *hasRoom);
  PreparedRange::ExactPlans exactPlans(const ProblemRange &range);
  ChosenPlan findExact();

  llvm::Expected<ChosenPlan> finish(Clock::time_point start);
  llvm::Error noPlan() const;
  EventInfo event(kiln_event_kind kind) const;
  static double msSince(Clock::time_point start);
  static uint64_t nsSince(Clock::time_point start);

  Engine &engine;
  Engine::Services &services;
  ContextState &context;
  const PlanRequest &request;
  const AcquireOptions &options;
  std::atomic<kiln_state> *state;
  Chooser chooser;
  const kiln_mode mode;
  const bool tunes; ///< the mode makes trials
  Effort most;      ///< for any config
  bool trialsAhead; ///< may yet be made
  bool isLastRound = false;
  uint64_t portfolioVersion;
  std::optional<bool> isLayerUnfinished; ///< see awaitsLayer()
  /// See resumesLayer(); not known yet: nullopt.
  std::optional<bool> resumes;
  bool complete = false, stored = false;
  size_t trialsCounted = 0; ///< of a single value
  /// The generic kernel of the signature, which compiles beside the first.
  std::vector<PendingArtifact> genericAhead;

  ChosenPlan found;
  std::shared_ptr<const PreparedRange> serving; ///< of a range
  ErrorSummary fatal;                           ///< ends the work
  ErrorSummary firstError; ///< why the first config that failed did
};

} // namespace kiln
