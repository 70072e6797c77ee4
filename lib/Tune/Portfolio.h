//===- Portfolio.h - the kernels that serve a range -----------------------===//
//
// A few kernels of which, at any value of a range, one is nearly the best. At a
// new value the choice is the least calibrated estimate: the prediction times
// measured/predicted of the member where it was measured nearby. Nothing is
// compiled, measured or read for it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Call/ProblemRange.h"
#include "Kernel/Family.h"
#include "Store/PortfolioStore.h"
#include "Tune/RangeGrid.h"

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/SmallVector.h>

#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// What a member took where it was measured. Times are in ns.
struct MemberTime {
  ExtentPoint point;
  double measuredNs = 0;
  double predictedNs = 0; ///< by today's estimate

  double factor() const { return measuredNs / predictedNs; }
};

/// One config of a portfolio. Members that differ in run-time knobs alone share
/// a kernel.
struct PortfolioMember {
  const Template *tmpl = nullptr;
  Record config;
  std::string kernel; ///< kernelDigest() of its plan
  /// Where it may be the best. Its plan is made for the problem at `high`,
  /// which has the signature of the range, and serves all below.
  ExtentPoint low, high;
  bool validated = false; ///< compared with the reference, and right
  std::vector<MemberTime> times;

  /// Whether its interval holds \p point.
  bool holds(llvm::ArrayRef<int64_t> point) const;
  /// Whether a plan made for `high` serves \p point.
  bool serves(llvm::ArrayRef<int64_t> point) const;
};

/// What tells kernels of one template and signature apart: the values of all
/// knobs of \p config but run-time ones.
std::vector<int64_t> compiledKnobs(const Record &config);

/// So much slower may a member be that was compared with the reference and yet
/// go before one that was not: measuring a kernel must not put it in the place
/// of what the estimator would launch without any trial.
inline constexpr double kProofWorth = 1.03;

/// A member at one value.
struct PortfolioChoice {
  uint32_t member = 0; ///< its place
  double predictedNs = 0;
  double expectedNs = 0; ///< the prediction, calibrated
};

class Portfolio {
public:
  /// Best first: as many as are estimated at a value, at most.
  using Ranking = llvm::SmallVector<PortfolioChoice, 16>;
  /// Says whether a member may be chosen.
  using Filter = llvm::function_ref<bool(uint32_t)>;

  Portfolio() = default;
  /// Nothing is estimated until index().
  explicit Portfolio(ProblemRange range) : served(std::move(range)) {}

  const ProblemRange &range() const { return served; }
  const std::vector<PortfolioMember> &members() const { return list; }
  bool empty() const { return list.empty(); }
  /// Members that have times. None: the estimator alone chose it.
  size_t measuredMembers() const;
  /// Distinct kernels.
  size_t kernels() const;
  /// How far the best member is behind the best of the space, by the estimate,
  /// where that is furthest: 0.02 is 2 %.
  double regret = 0;
  /// Everything that was to be measured was.
  bool isComplete = false;
  int64_t measuredAtMs = 0; ///< Unix time
  /// Kernels that trials of the range found wrong.
  std::vector<StoredFault> faults;

  /// For those who make portfolios. index() has to follow.
  std::vector<PortfolioMember> &mutableMembers() { return list; }
  /// Adds what \p member took; another time at that point is replaced.
  void addTime(uint32_t member, MemberTime time);
  /// Finds again the factors of members without times, and who is proven.
  void calibrate();
  /// Moves the ends of intervals until every sample lies in that of a member
  /// that may be chosen, where \p device and \p workspaceBytes allow one. For
  /// portfolios that lost members.
  void closeGaps(const DeviceModel &device,
                 uint64_t workspaceBytes = Allowance::kUnlimited);
  /// Finds out which members are plausible where, by the calibrated estimate at
  /// samples. Thousands of estimates.
  void index(const DeviceModel &device);

  /// The members for \p problem, the range's at \p point, by calibrated
  /// estimate. Only members that \p mayTake (null: all) and that prune() allows
  /// there. A member that was not compared with the reference comes only where
  /// no other can be had, or before others that are expected to be slower by
  /// kProofWorth or more, and nowhere once trials of the range found wrong
  /// results. Where no interval holds the point, those whose plan serves it.
  /// Thread-safe; some us, no allocation to speak of.
  Ranking rank(const Problem &problem, llvm::ArrayRef<int64_t> point,
               const DeviceModel &device, Filter mayTake = nullptr) const;
  /// The first of rank(); nullopt: no member may run there.
  std::optional<PortfolioChoice> choose(const Problem &problem,
                                        llvm::ArrayRef<int64_t> point,
                                        const DeviceModel &device,
                                        Filter mayTake = nullptr) const;
  /// All members whose interval holds \p point, compared with the reference or
  /// not, by calibrated estimate.
  Ranking estimateAll(const Problem &problem, llvm::ArrayRef<int64_t> point,
                      const DeviceModel &device) const;
  /// Measured over predicted of a member at \p point: between its times by the
  /// distance of logarithms, beyond them the nearest; without times the median
  /// of its template's, or of all, or 1.
  double factorAt(uint32_t member, llvm::ArrayRef<int64_t> point) const;
  /// The same for any config: of its kernel if that was measured, else the
  /// median of its template's where that is below 1, else 1: that others are
  /// slower than predicted says little of it.
  double factorOf(const Template &tmpl, const Record &config,
                  llvm::ArrayRef<int64_t> point) const;
  /// Whether trials of the range found wrong results.
  bool foundWrong() const { return hasWrong; }

  /// The portfolio in the form in which it is stored.
  StoredPortfolio toStored() const;
  /// What \p stored is today over \p range, which it contains: members that the
  /// family knows, whose kernel is today's and that \p device and
  /// \p workspaceBytes allow, with their predictions made again, indexed. It
  /// may be empty. \p dropped, if given, gets the texts of the others. A plan
  /// for each member is made: some ms in all.
  static Portfolio restore(const ProblemRange &range,
                           const StoredPortfolio &stored,
                           const DeviceModel &device,
                           uint64_t workspaceBytes = Allowance::kUnlimited,
                           std::vector<std::string> *dropped = nullptr);

private:
  void estimate(uint32_t member, const Problem &problem,
                llvm::ArrayRef<int64_t> point, const DeviceModel &device,
                Ranking &ranking) const;
  /// Whether what holds a gap: compared with the reference, where any was.
  bool isSolid(const PortfolioMember &member) const {
    return !hasProven || member.validated;
  }
  void preferProven(Ranking &ranking) const;
  bool hasHolder(llvm::ArrayRef<int64_t> point) const;
  void stretchTo(const ExtentPoint &point, const DeviceModel &device,
                 const Allowance &allowance);

  ProblemRange served;
  std::vector<PortfolioMember> list;
  // Of index().
  RangeGrid grid;
  /// Members by calibrated estimate, the best first, of each place of the grid.
  std::vector<llvm::SmallVector<uint16_t, 8>> plausible;
  std::vector<double> defaultFactors; ///< by member: where it has no times
  bool hasProven = false, hasWrong = false;
};

/// What the cache has for \p range, restored: measured on devices of class
/// \p deviceClass, else chosen by the estimator for \p device; nullopt: nothing
/// that is of use today.
std::optional<Portfolio>
findPortfolio(const PortfolioStore &store, const ProblemRange &range,
              const DeviceModel &device, llvm::StringRef deviceClass,
              uint64_t workspaceBytes = Allowance::kUnlimited);

} // namespace kiln
