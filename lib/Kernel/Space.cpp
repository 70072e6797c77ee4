//===- Space.cpp - enumerate, prune, estimate, rank -----------------------===//
//
// A rank list has to be diverse: when the model is wrong it is wrong about an
// idea (a tile shape, split-K) and not about one config, so the best of each
// class precedes every second-best. Ties are real: two configs within 2 % of
// each other are one answer to a model, and the class's rank and the order of
// the space decide among them, never the last digit of an estimate. Both rules
// suit a coarse model. A template whose estimates distinguish variations of one
// idea sets CandidateClass::ranksByTime: its candidates are ordered by time
// alone. (Replayed on 106 problems of GEMM, H200: the first five by time reach
// 0.9955 of the best, 0.9914 with classes and ties.)
//
//===----------------------------------------------------------------------===//
#include "Kernel/Space.h"

#include "Support/Error.h"

#include <llvm/ADT/Hashing.h>
#include <llvm/ADT/STLExtras.h>
#include <llvm/Support/MathExtras.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace kiln {

namespace {

/// The time of a candidate, and its place.
struct Timed {
  float ns;
  int32_t order;
  uint32_t index; ///< in the ranked vector

  friend bool operator<(const Timed &a, const Timed &b) {
    return std::tie(a.ns, a.order) < std::tie(b.ns, b.order);
  }
};

/// The classes that have a leader: a hash table of their leaders, at most half
/// full. LLVM's sets reserve two keys for themselves, but templates choose
/// theirs freely.
class LeaderSet {
public:
  explicit LeaderSet(llvm::ArrayRef<Candidate> candidates)
      : candidates(candidates),
        table(llvm::PowerOf2Ceil(2 * candidates.size() + 2), kNobody) {}

  /// Returns false if the candidate's class has a leader already.
  bool insert(uint32_t index) {
    const Candidate &added = candidates[index];
    size_t slot = llvm::hash_combine(added.tmpl, added.candidateClass.key);
    for (;; ++slot) {
      uint32_t &leader = table[slot & (table.size() - 1)];
      if (leader == kNobody) {
        leader = index;
        return true;
      }
      if (candidates[leader].sharesClass(added))
        return false;
    }
  }

private:
  static constexpr uint32_t kNobody = ~uint32_t{0};
  llvm::ArrayRef<Candidate> candidates;
  std::vector<uint32_t> table;
};

} // namespace

/// Reorders \p sorted, sorted by time, so that ties follow (rank, order).
static void orderTies(llvm::MutableArrayRef<Timed> sorted,
                      llvm::ArrayRef<Candidate> candidates) {
  auto mayTie = [&](const Timed &timed) {
    return !candidates[timed.index].candidateClass.ranksByTime;
  };
  for (size_t begin = 0; begin < sorted.size();) {
    double limit = sorted[begin].ns * kEstimateTie;
    size_t end = begin + 1;
    if (mayTie(sorted[begin]))
      while (end < sorted.size() && sorted[end].ns <= limit &&
             mayTie(sorted[end]))
        ++end;
    std::sort(
        sorted.begin() + begin, sorted.begin() + end,
        [&](const Timed &a, const Timed &b) {
          return std::tie(candidates[a.index].candidateClass.rank, a.order) <
                 std::tie(candidates[b.index].candidateClass.rank, b.order);
        });
    begin = end;
  }
}

/// Moves every candidate to the place of its entry in \p places, in place,
/// because a second vector of them would cost more than all of the ranking.
static void permute(std::vector<Candidate> &candidates,
                    std::vector<Timed> &places) {
  for (uint32_t start = 0; start < places.size(); ++start) {
    if (places[start].index == start)
      continue;
    Candidate held = std::move(candidates[start]);
    uint32_t hole = start;
    for (;;) {
      uint32_t next = std::exchange(places[hole].index, hole);
      if (next == start)
        break;
      candidates[hole] = std::move(candidates[next]);
      hole = next;
    }
    candidates[hole] = std::move(held);
  }
}

void rankCandidates(std::vector<Candidate> &candidates) {
  // Candidates are large, so their places are sorted instead.
  std::vector<Timed> sorted;
  sorted.reserve(candidates.size());
  for (const Candidate &candidate : candidates)
    sorted.push_back({candidate.orderingNs(), candidate.order,
                      static_cast<uint32_t>(sorted.size())});
  std::sort(sorted.begin(), sorted.end());
  // The partition is stable, so both parts stay sorted by time.
  LeaderSet leaders(candidates);
  std::vector<Timed> rest;
  rest.reserve(sorted.size());
  llvm::erase_if(sorted, [&](const Timed &timed) {
    if (candidates[timed.index].candidateClass.ranksByTime ||
        leaders.insert(timed.index))
      return false;
    rest.push_back(timed);
    return true;
  });
  orderTies(sorted, candidates);
  orderTies(rest, candidates);

  sorted.insert(sorted.end(), rest.begin(), rest.end());
  permute(candidates, sorted);
}

Derivation Candidate::derive(const Problem &problem,
                             const DeviceModel &device) const {
  return tmpl->explain(problem, config, device);
}

namespace {

/// Puts the configs of one template after the other into a space.
class SpaceFiller final : public SpaceSink {
public:
  SpaceFiller(const Problem &problem, const DeviceModel &device,
              const SpaceOptions &options, Space &space)
      : problem(problem), device(device), options(options),
        isLimited(options.allowance.isLimited()), space(space) {}

  void take(const Template &next) {
    tmpl = &next;
    next.judge(problem, device, *this);
  }

  void rank(Values &&config, const Estimate &estimate,
            CandidateClass candidateClass) override {
    if (isLimited)
      if (auto rejection =
              tmpl->exceeds(options.allowance, problem, config, device)) {
        leaveOut(config, estimate);
        return reject(*rejection, [&] { return std::move(config); });
      }
    Candidate &added = space.ranked.emplace_back();
    added.tmpl = tmpl;
    added.config = std::move(config);
    added.estimate.totalNs = estimate.totalNs;
    added.estimate.bound = estimate.bound;
    added.candidateClass = candidateClass;
    added.order = order++;
  }

  void reject(const Rejection &rejection,
              llvm::function_ref<Values()> makeConfig) override {
    ++order;
    if (options.keepRejected)
      space.rejected.push_back({tmpl, makeConfig(), rejection});
  }

private:
  void leaveOut(const Values &config, const Estimate &estimate) {
    LeftOut &leftOut = space.leftOut;
    leftOut.leastBytes = std::min(
        leftOut.leastBytes, tmpl->workspace(problem, config, device).bytes());
    leftOut.leastNs = std::min(leftOut.leastNs, estimate.totalNs);
  }

  const Problem &problem;
  const DeviceModel &device;
  const SpaceOptions &options;
  const bool isLimited;
  Space &space;
  const Template *tmpl = nullptr;
  int32_t order = 0;
};

} // namespace

llvm::Error noCandidate(const KernelFamily &family, const Problem &problem,
                        const DeviceModel &device, uint64_t allowedBytes,
                        const LeftOut &leftOut) {
  std::string limit;
  if (leftOut.leastBytes != Allowance::kUnlimited &&
      leftOut.leastBytes > allowedBytes)
    limit = fmt::format(
        "; configs within the other limits need {} bytes of workspace or more, "
        "the limit is {}",
        leftOut.leastBytes, allowedBytes);
  return makeError(ErrorCode::NoCandidate,
                   "no template of {} runs {} on {}: every config is pruned{}",
                   family.name(), problem.text(), device.name, limit);
}

llvm::Expected<Space> exploreSpace(const KernelFamily &family,
                                   const Problem &problem,
                                   const DeviceModel &device,
                                   const SpaceOptions &options) {
  // Templates divide by extents and counts of tiles.
  if (family.isEmpty(problem))
    return makeError(ErrorCode::InvalidArgument,
                     "{}: there is nothing to compute, so nothing to choose",
                     problem.text());
  constexpr size_t kUsual = 1024;
  Space space;
  space.ranked.reserve(kUsual);
  SpaceFiller filler(problem, device, options, space);
  for (const auto &tmpl : family.templates())
    filler.take(*tmpl);
  if (space.ranked.empty())
    return noCandidate(family, problem, device,
                       options.allowance.workspaceBytes, space.leftOut);
  rankCandidates(space.ranked);
  return space;
}

} // namespace kiln
