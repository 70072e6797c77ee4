//===- Portfolio.h - the kernels that serve a range -----------------------===//
//
// A set of kernels of which, at any value of a range, one is nearly the best.
// At a new value the choice is the least expected time: the prediction, and
// what was measured (Evidence.h). Nothing is compiled, measured or read for it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Call/ProblemRange.h"
#include "Kernel/Family.h"
#include "Kernel/Space.h"
#include "Store/PortfolioStore.h"
#include "Tune/Evidence.h"
#include "Tune/RangeFacts.h"
#include "Tune/RangeGrid.h"

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/SmallVector.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace kiln {

/// What a member took where it was measured. Times are in ns.
struct MemberTime {
  ExtentPoint point;
  double measuredNs = 0;
  double predictedNs = 0;     ///< by today's estimate
  llvm::StringRef bound = {}; ///< by today's estimate, see Estimate::bound
  uint64_t series = 0;        ///< Measurement::series; 0: that of its point

  double factor() const { return measuredNs / predictedNs; }
};

/// One config of a portfolio. Members that differ in run-time knobs alone share
/// a kernel.
struct PortfolioMember {
  const Template *tmpl = nullptr;
  Values config;
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

/// A member at one value.
struct PortfolioChoice {
  uint32_t member = 0; ///< its place
  double predictedNs = 0;
  double expectedNs = 0; ///< by what was measured
};

/// How far the first of \p ranking is by the estimate behind the best of it:
/// 0.02 is 2 %; 0 where it is empty. Beyond kNextToBest measuring spoke against
/// that one, and a kernel that is no member may be better than what is left.
double behindBest(llvm::ArrayRef<PortfolioChoice> ranking);
inline constexpr double kNextToBest = kEstimateTie - 1;

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
  /// All kernels that its cover asks for are members: at any value one of them
  /// is nearly the best of the space. Of a stored one, if it is complete.
  bool isWhole = false;
  int64_t measuredAtMs = 0; ///< Unix time
  /// Trials of the range found wrong results.
  bool hasFoundWrong = false;
  /// Where trials of the range ran.
  std::set<ExtentPoint> anchors;
  /// It has the estimator's choices where measuring spoke against the set.
  bool hasGrown = false;

  /// For those who make portfolios. index() has to follow.
  std::vector<PortfolioMember> &mutableMembers() { return list; }
  /// Adds what \p member took; another time at that point is replaced.
  void addTime(uint32_t member, MemberTime time);
  /// Adds what \p facts say of members, and of other kernels of today.
  /// Whether results of its own trials are wrong counts, whatever became of the
  /// verdict.
  void addFacts(const RangeFacts &facts, const DeviceModel &device);
  /// Gathers again what its times say, and what is proven.
  void calibrate();
  /// Moves the ends of intervals until every sample lies in that of a member
  /// that may be chosen, where \p device and \p workspaceBytes allow one. For
  /// portfolios that lost members.
  void closeGaps(const DeviceModel &device,
                 uint64_t workspaceBytes = Allowance::kUnlimited);
  /// Finds out which members are plausible where, at samples. Thousands of
  /// estimates.
  void index(const DeviceModel &device);

  /// The members for \p problem, the range's at \p point, in the order of
  /// judge(). Only members that \p mayTake (null: all) and that prune() allows
  /// there. Once trials of the range found wrong results, only those that were
  /// compared with the reference. Where no interval holds the point, those
  /// whose plan serves it. Thread-safe; some tens of us.
  Ranking rank(const Problem &problem, llvm::ArrayRef<int64_t> point,
               const DeviceModel &device, Filter mayTake = nullptr) const;
  /// The first of rank(); nullopt: no member may run there.
  std::optional<PortfolioChoice> choose(const Problem &problem,
                                        llvm::ArrayRef<int64_t> point,
                                        const DeviceModel &device,
                                        Filter mayTake = nullptr) const;
  /// All members whose interval holds \p point, compared with the reference or
  /// not, by expected time.
  Ranking estimateAll(const Problem &problem, llvm::ArrayRef<int64_t> point,
                      const DeviceModel &device) const;
  /// Tells of its times, about members and other configs.
  const Evidence &evidence() const { return gathered; }
  /// The portfolio in the form in which it is stored.
  StoredPortfolio toStored() const;
  /// Whether the records have no times any more of a member that \p stored,
  /// from which it was restored, knows to be measured.
  bool lacksFacts(const StoredPortfolio &stored) const;
  /// What \p stored is today over \p range, which it contains: members that the
  /// family knows, whose kernel is today's and that \p device and
  /// \p workspaceBytes allow, with what \p facts say of them, predictions made
  /// again, indexed. It may be empty. Where facts are gone it is not complete.
  /// \p dropped, if given, gets the texts of the others. A plan for each member
  /// is made: some ms in all.
  static Portfolio restore(const ProblemRange &range,
                           const StoredPortfolio &stored,
                           const RangeFacts &facts, const DeviceModel &device,
                           uint64_t workspaceBytes = Allowance::kUnlimited,
                           std::vector<std::string> *dropped = nullptr);

private:
  std::optional<Contender> contender(uint32_t member, const Problem &problem,
                                     llvm::ArrayRef<int64_t> point,
                                     const DeviceModel &device) const;
  std::optional<PortfolioChoice> expect(uint32_t member, const Problem &problem,
                                        llvm::ArrayRef<int64_t> point,
                                        const DeviceModel &device) const;
  void addPlausible(llvm::ArrayRef<int64_t> point, const DeviceModel &device,
                    llvm::SmallVectorImpl<uint16_t> &places) const;
  /// Whether what holds a gap: compared with the reference, where any was.
  bool isSolid(const PortfolioMember &member) const {
    return !hasProven || member.validated;
  }
  void dropUnproven(std::vector<Contender> &contenders) const;
  Ranking order(std::vector<Contender> contenders) const;
  bool hasHolder(llvm::ArrayRef<int64_t> point) const;
  void stretchTo(const ExtentPoint &point, const DeviceModel &device,
                 const Allowance &allowance);

  /// A time of a config that is no member.
  struct OtherTime {
    const Template *tmpl = nullptr;
    Values config;
    MemberTime time;
  };
  void addOther(const RangeFact &fact, const DeviceModel &device);

  ProblemRange served;
  std::vector<PortfolioMember> list;
  std::vector<OtherTime> others;
  // Of index().
  RangeGrid grid;
  /// Members that may be the best at each place of the grid.
  std::vector<llvm::SmallVector<uint16_t, 12>> plausible;
  Evidence gathered;
  bool hasProven = false;
};

/// Where portfolios are found, and for whom.
struct PortfolioSources {
  const PortfolioStore &portfolios;
  const RecordStore &records;
  const DeviceModel &device;
  std::string deviceClass;
  uint64_t workspaceBytes = Allowance::kUnlimited;
  MeasurementMode mode = MeasurementMode::Cold; ///< of times
};

/// A portfolio that a cache has for a range.
struct FoundPortfolio {
  Portfolio portfolio; ///< without members, if trials found nothing right
  PortfolioKey key;
  RangeFacts facts;        ///< of it
  bool hasDropped = false; ///< some member is of no use today
  bool lacksFacts = false; ///< see Portfolio::lacksFacts()
};

/// What the cache has for \p range, restored: measured on devices of that
/// class, else, unless \p onlyMeasured, chosen by the estimator for the device;
/// nullopt: nothing that is of use today.
std::optional<FoundPortfolio> findPortfolio(const PortfolioSources &from,
                                            const ProblemRange &range,
                                            RecordAge age = RecordAge::Recent,
                                            bool onlyMeasured = false);

} // namespace kiln
