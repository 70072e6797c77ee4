//===- TuningSession.h - the tuning of one problem ------------------------===//
//
// Private to the tuner. A session is begun, which asks the record or ranks the
// space and requests the first kernels, and is finished later, so that the
// kernels of many problems compile while one is measured.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Tune/TuningCandidate.h"

#include <llvm/ADT/DenseMap.h>

#include <chrono>
#include <memory>
#include <optional>

namespace kiln {

/// How often cancel flags and compilations are looked at.
inline constexpr std::chrono::milliseconds kPollInterval{1};

/// What all sessions of a tuner share.
struct TuningContext {
  const DeviceModel &device;
  ArtifactStore &artifacts;
  RecordStore &records;
  TrialRunner *runner; ///< null: nothing is measured
  std::string deviceClass;
};

class TuningSession {
public:
  using Clock = TuningOptions::Clock;

  /// All that is given must outlive the session.
  TuningSession(const TuningContext &context, const KernelFamily &family,
                const Problem &problem, const TuningOptions &options)
      : context(context), family(family), problem(problem), options(options) {}

  /// Finds what there is to do, and requests the artifacts of the record's
  /// winner, or of the first choice, with \p priority. Waits for nothing.
  void begin(int64_t priority);
  /// Whether finish() has something to measure.
  bool needsTrials() const;
  /// Of the first choice; 0 where nothing is to be measured.
  double predictedNs() const;
  /// Waits for what the first \p count entries requested, until \p until at
  /// most.
  void awaitFirst(size_t count, Clock::time_point until);
  /// Requests what the next trials need, the first of all entries with
  /// \p priority and each further one after it, some priorities() of them.
  void compileAhead(int64_t priority);
  int64_t priorities() const { return static_cast<int64_t>(entries.size()); }

  /// Measures until \p deadline, chooses, and stores the record. \p progress is
  /// what is known of the other problems. Errors: those of Tuner::tune.
  llvm::Error finish(Clock::time_point deadline, TuningProgress progress);
  /// The result; after an error, what was tried.
  TuningResult takeResult() { return std::move(result); }

private:
  using EntryList = std::vector<TuningCandidate *>;

  // Finding what there is to do: TuningSession.cpp.
  void findWork(int64_t priority);
  bool takeRecord();
  llvm::Error explore();
  void addEntry(Candidate candidate, int rank, bool isReserve = false);
  void addRelatives();
  void requestEntry(TuningCandidate &entry, int64_t priority);
  bool awaitEntry(TuningCandidate &entry, Clock::time_point until);
  bool awaitEntry(TuningCandidate &entry);
  bool answerFromRecord();
  bool mayFallBack() const;
  llvm::Error conclude(Clock::time_point deadline);
  void summarizeTrials();
  bool isCancelled() const { return options.cancel && *options.cancel; }
  bool measures() const { return context.runner && options.maxTrials > 0; }

  // Trials: TuningTrials.cpp.
  llvm::Error runTrials(Clock::time_point deadline);
  llvm::Expected<TuningCandidate *> tryReserves(Clock::time_point deadline);
  EntryList openEntries() const;
  bool isBeyondBound(const TuningCandidate &entry) const;
  std::optional<StopReason> stopReason(const EntryList &open,
                                       Clock::time_point deadline) const;
  EntryList nextBatch(const EntryList &open, Clock::time_point deadline);
  llvm::Error runBatch(const EntryList &batch, Clock::time_point deadline);
  EntryList carriedEntries() const;
  double repeatCarried(const EntryList &carried,
                       llvm::ArrayRef<TrialResult> trials);
  void takeTrial(TuningCandidate &entry, TrialResult trial, double scale);
  llvm::Expected<TrialStatus> validate(TuningCandidate &entry,
                                       Clock::time_point deadline);
  llvm::Expected<std::vector<TrialResult>>
  runRequest(const EntryList &batch, const TrialOptions &trialOptions,
             size_t kept = 0);
  llvm::Error checkDevice(llvm::ArrayRef<TrialResult> results);
  std::chrono::milliseconds proofTime(Clock::time_point deadline) const;
  void weighTrials();
  void noteRatio(const TuningCandidate &entry);
  void noteBest(const TuningCandidate &entry);

  // Choosing and recording: TuningChoice.cpp.
  EntryList measuredEntries() const;
  llvm::Expected<TuningCandidate *> chooseProven(Clock::time_point deadline);
  EntryList chooseFinalists(TuningCandidate &winner) const;
  EntryList takePlayoff(const EntryList &finalists,
                        llvm::MutableArrayRef<TrialResult> trials);
  llvm::Expected<TuningCandidate *> playOff(TuningCandidate &winner,
                                            Clock::time_point deadline);
  llvm::Error proveContenders(const TuningCandidate &winner,
                              Clock::time_point deadline);
  void storeRecord(const TuningCandidate *winner);
  RecordPoint makePoint(const TuningCandidate *winner) const;
  void adopt(const Measurement &stored);
  llvm::Error chooseUnproven();
  TuningCandidate *firstObtainable();
  bool hasFoundWrong() const;
  bool needsProof() const { return match.foundNoneRight || hasFoundWrong(); }
  bool isKnownHopeless();
  bool isTruncated() const;
  llvm::Error noChoice() const;

  const TuningContext &context;
  const KernelFamily &family;
  const Problem &problem;
  const TuningOptions &options;

  bool isEmpty = false;
  ErrorSummary beginError;
  RecordMatch match;
  int64_t generation = 0; ///< of the point that storeRecord() makes
  std::unique_ptr<TuningCandidate> recorded; ///< the record's answer
  bool tunesOn = false; ///< from an answer of a truncated session
  /// What a record knows, the top of the ranking, the reserves, and relatives
  /// of what was the best. They are tried in this order, but see openEntries().
  std::vector<std::unique_ptr<TuningCandidate>> entries;
  int64_t firstPriority = 0; ///< of compileAhead()

  EntryList tried; ///< in the order in which they first ran
  /// Gives the scale of each batch; null: none yet.
  TuningCandidate *reference = nullptr;
  const TuningCandidate *best = nullptr; ///< of what is proven
  const TuningCandidate *kin = nullptr;  ///< whose relatives were added last
  double bestNs = 0;                     ///< its time; 0: none
  double noise = kTieBand;               ///< of bestNs, relative
  /// Of measured to predicted times: of all, and of each template, whose
  /// estimates are wrong in ways of their own.
  struct Ratios {
    unsigned count = 0;
    double least = 0, sum = 0, squares = 0;

    void add(double ratio);
    double optimistic() const;
  };
  Ratios ratios;
  llvm::SmallDenseMap<const Template *, Ratios> ratiosOf;
  bool runnerFailed = false; ///< cannot do trials of this problem
  TuningProgress progress;
  TuningResult result;
};

} // namespace kiln
