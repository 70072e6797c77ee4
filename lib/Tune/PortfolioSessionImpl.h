//===- PortfolioSessionImpl.h - the state of a session --------------------===//
#pragma once

#include "Tune/BarredConfigs.h"
#include "Tune/PortfolioSession.h"
#include "Tune/RangeTrials.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/Error.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace kiln {

struct PortfolioSession::Impl {
  using Clock = PortfolioOptions::Clock;
  /// The number of times that lost members are replaced.
  static constexpr int kMostCovers = 3;

  Impl(const PortfolioContext &context, ProblemRange given,
       const PortfolioOptions &options)
      : range(std::move(given)), task{context, options, Portfolio(range),
                                      {},      {},      {}},
        trials(task), barred(range, context.device) {}

  std::optional<Portfolio> findStored();
  void findParts();
  void findBarred();
  std::optional<Portfolio>
  renewKnown(const std::vector<PortfolioMember> &kept) const;
  llvm::Error coverWith(const std::vector<PortfolioMember> &kept);
  MemberWork makeWork(const PortfolioMember &member) const;
  void makeAllWork();
  void requestAll();
  bool completeLost();
  bool replaceRefused(Clock::time_point deadline);
  void awaitRest();
  std::vector<ExtentPoint> findDoubted();
  bool mayGrow(Clock::time_point deadline) const;
  std::vector<ExtentPoint>
  withNewKernels(llvm::ArrayRef<ExtentPoint> points) const;
  llvm::Error awaitOne();
  void awaitAll(Clock::time_point deadline);
  llvm::Error awaitMembers(Clock::time_point deadline);
  llvm::Error measureAnchors(size_t &next, Clock::time_point deadline);
  llvm::Error measure(Clock::time_point deadline);
  bool isOver(Clock::time_point deadline) const {
    return !trials.mayRun() || task.isCancelled() || Clock::now() >= deadline;
  }
  bool findLost();
  void countCompiled();
  void dropLost();
  llvm::Error settle();
  const Verdicts &verdicts() const { return task.context.records.verdicts(); }
  bool isWrong(llvm::StringRef kernel) const {
    return verdicts().isWrong(task.context.deviceClass, kernel);
  }
  PortfolioSources sources() const {
    return {task.context.portfolios,     task.context.records,
            task.context.device,         task.context.deviceClass,
            task.options.workspaceBytes, task.options.mode};
  }
  bool dropWrong(Portfolio &portfolio) const;
  void replacePortfolio(Portfolio cover);
  llvm::Error nothingRight() const;
  void storeFacts();
  void takeFacts();
  void store();

  ProblemRange range;
  RangeTask task;
  RangeTrials trials;
  BarredConfigs barred;
  std::vector<Anchor> anchors;
  std::vector<PortfolioMember> ofParts; ///< measured in parts of the range
  std::vector<ExtentPoint> doubted;     ///< points of findDoubted() that are
                                        ///< added
  ErrorSummary beginError;
  int64_t firstPriority = 0;
  int covers = 0;
  bool isChosen = false;   ///< by choose()
  bool isAnswered = false; ///< by the stored portfolio
  bool hasDropped = false; ///< some member of it cannot be used here
  bool lacksFacts = false; ///< some of its times are in no record any more
  /// Trials found no correct kernel, and some of the kernels that they tried
  /// are today's.
  bool isHopeless = false;
  bool isComplete = true; ///< all anchors were measured
  bool lacksRoom = false; ///< there is no memory for trials, at any value
  std::chrono::steady_clock::duration spent{0};
};

/// Whether the compiler refuses a kernel of \p member, for good.
bool isRefused(const MemberWork &member);

} // namespace kiln
