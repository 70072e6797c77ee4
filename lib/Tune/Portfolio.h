//===- Portfolio.h - the kernels that serve a range -----------------------===//
//
// A set of kernels of which, at any value of a range, one is nearly the best.
// At a new value the choice is the least expected time, which follows from the
// prediction and the measured times (Evidence.h). Nothing is compiled, measured
// or read for it.
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

/// The time of a member at a point where it was measured. Times are in ns.
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
  /// The interval where it may be the best. Its plan is made for the problem at
  /// `high`, which has the signature of the range, and serves all values below.
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
  uint32_t member = 0; ///< its index
  double predictedNs = 0;
  double expectedNs = 0; ///< with the evidence of measured times
};

/// How far the first of \p ranking is, by the estimate, behind the ranking's
/// best: 0.02 is 2 %; 0 if it is empty. Beyond kNextToBest measuring spoke
/// against the best, and a kernel that is not a member may be better than the
/// first.
double behindBest(llvm::ArrayRef<PortfolioChoice> ranking);
inline constexpr double kNextToBest = kEstimateTie - 1;

class Portfolio {
public:
  /// Best first; the inline capacity is the most that are estimated at a value.
  using Ranking = llvm::SmallVector<PortfolioChoice, 16>;
  /// Says whether a member may be chosen.
  using Filter = llvm::function_ref<bool(uint32_t)>;

  Portfolio() = default;
  /// Nothing is estimated until index().
  explicit Portfolio(ProblemRange range) : served(std::move(range)) {}

  const ProblemRange &range() const { return served; }
  const std::vector<PortfolioMember> &members() const { return list; }
  bool empty() const { return list.empty(); }
  /// The number of members that have times; 0 if the estimator alone chose it.
  size_t measuredMembers() const;
  /// The number of distinct kernels.
  size_t kernels() const;
  /// The largest distance, by the estimate, of the best member from the best of
  /// the space: 0.02 is 2 %.
  double regret = 0;
  /// All measurements that were due were made.
  bool isComplete = false;
  /// All kernels of its cover are members, so that at any value one of them is
  /// nearly the best of the space. A stored portfolio is whole if it is
  /// complete.
  bool isWhole = false;
  int64_t measuredAtMs = 0; ///< Unix time
  /// Trials of the range found wrong results.
  bool hasFoundWrong = false;
  /// The points where trials of the range ran.
  std::set<ExtentPoint> anchors;
  /// The estimator's choices were added where measuring spoke against the set.
  bool hasGrown = false;

  /// For code that makes portfolios; index() has to follow.
  std::vector<PortfolioMember> &mutableMembers() { return list; }
  /// Adds a time of \p member; another time at that point is replaced.
  void addTime(uint32_t member, MemberTime time);
  /// Adds the \p facts about members, and about other kernels of today. A wrong
  /// result in its own trials counts even if the verdict was withdrawn.
  void addFacts(const RangeFacts &facts, const DeviceModel &device);
  /// Computes the evidence of its times, and the set of proven members, again.
  void calibrate();
  /// Moves the ends of intervals until every sample lies in that of a member
  /// that may be chosen, if \p device and \p workspaceBytes allow one. For
  /// portfolios that lost members.
  void closeGaps(const DeviceModel &device,
                 uint64_t workspaceBytes = Allowance::kUnlimited);
  /// Finds the plausible members at samples of the range. Makes thousands of
  /// estimates.
  void index(const DeviceModel &device);

  /// Ranks the members for \p problem, the range's at \p point, in the order of
  /// judge(). Only members that \p mayTake (null: all) and prune() accept are
  /// ranked. Once trials of the range found wrong results, only members that
  /// were compared with the reference are. If no interval holds the point, the
  /// members whose plan serves it are ranked. Thread-safe; takes some tens of
  /// us.
  Ranking rank(const Problem &problem, llvm::ArrayRef<int64_t> point,
               const DeviceModel &device, Filter mayTake = nullptr) const;
  /// The first of rank(); nullopt if no member may run there.
  std::optional<PortfolioChoice> choose(const Problem &problem,
                                        llvm::ArrayRef<int64_t> point,
                                        const DeviceModel &device,
                                        Filter mayTake = nullptr) const;
  /// Ranks all members whose interval holds \p point, compared with the
  /// reference or not, by expected time.
  Ranking estimateAll(const Problem &problem, llvm::ArrayRef<int64_t> point,
                      const DeviceModel &device) const;
  /// The evidence of its times, of members and other configs.
  const Evidence &evidence() const { return gathered; }
  /// The portfolio in the form in which it is stored.
  StoredPortfolio toStored() const;
  /// Whether the records have lost the times of a member that was measured by
  /// \p stored, from which this was restored.
  bool lacksFacts(const StoredPortfolio &stored) const;
  /// Restores \p stored for today over \p range, which it contains. It keeps
  /// the members that the family knows, whose kernel is today's and that \p
  /// device and \p workspaceBytes allow, adds \p facts, makes predictions again
  /// and indexes. The result may be empty. If facts are lost it is not
  /// complete. \p dropped, if given, gets the texts of dropped members. Makes a
  /// plan for each member: some ms in all.
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
  /// Whether \p member may close a gap: it was compared with the reference, or
  /// no member was.
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
  // The samples of index().
  RangeGrid grid;
  /// Members that may be the best at each place of the grid.
  std::vector<llvm::SmallVector<uint16_t, 12>> plausible;
  Evidence gathered;
  bool hasProven = false;
};

/// The stores in which portfolios are found, and the device that they are for.
struct PortfolioSources {
  const PortfolioStore &portfolios;
  const RecordStore &records;
  const DeviceModel &device;
  std::string deviceClass;
  uint64_t workspaceBytes = Allowance::kUnlimited;
  MeasurementMode mode = MeasurementMode::Cold; ///< of the times
};

/// A portfolio that a cache has for a range.
struct FoundPortfolio {
  Portfolio portfolio; ///< without members if trials found no correct kernel
  PortfolioKey key;
  RangeFacts facts;        ///< about its kernels
  bool hasDropped = false; ///< some member cannot be used today
  bool lacksFacts = false; ///< see Portfolio::lacksFacts()
};

/// Restores the cache's portfolio for \p range: one that was measured on
/// devices of that class or else, unless \p onlyMeasured, one that the
/// estimator chose for the device; nullopt if none can be used today.
std::optional<FoundPortfolio> findPortfolio(const PortfolioSources &from,
                                            const ProblemRange &range,
                                            RecordAge age = RecordAge::Recent,
                                            bool onlyMeasured = false);

} // namespace kiln
