//===- CoverSearch.cpp - a greedy cover, on numbers alone -----------------===//
#include "Tune/CoverSearch.h"

#include <llvm/ADT/DenseMap.h>

#include <algorithm>
#include <cmath>
#include <queue>
#include <random>

namespace kiln {

namespace {

/// The errors of predictions in the worlds where they do not hold: standard
/// deviations of logarithms. Estimates of GEMMs are off by some 3 % against
/// each other.
constexpr double kIdeaError = 0.03, kKernelError = 0.015;
/// The weight of the world in which predictions hold.
constexpr double kShareOfPrediction = 0.5;
/// The limit up to which a regret counts.
constexpr float kMostRegret = 0.5F;
/// The regret of a kernel that is not the estimator's first choice, in addition
/// to that of its time.
constexpr float kNotFirst = 0.005F;
/// The cost of a kernel that is compiled already and only has to be loaded and
/// measured; that of others is 1.
constexpr double kCostAtHand = 0.2;

class Search {
public:
  Search(const CoverTable &table, const CoverGoal &goal);

  Cover run();

private:
  double lossOf(float regret, size_t world) const;
  double worthOf(size_t kernel) const;
  void take(size_t kernel);
  double regretOf(llvm::ArrayRef<size_t> kernels, size_t sample) const;
  float regret(size_t kernel, size_t world, size_t sample) const {
    const float behind = table.kernels[kernel].ns[sample] *
                             errors[world][kernel] / bestNs[world][sample] -
                         1;
    const bool isFirst = table.first.empty() || table.first[sample] == kernel;
    return std::min(kMostRegret, behind + (isFirst ? 0 : kNotFirst));
  }

  const CoverTable &table;
  const CoverGoal &goal;
  const size_t samples;
  double totalWeight = 0;
  // By world; the first is that of the prediction.
  std::vector<std::vector<float>> errors; ///< by kernel
  std::vector<std::vector<float>> bestNs; ///< by sample
  std::vector<std::vector<float>> least;  ///< regret so far, by sample
  std::vector<size_t> chosen;
};

} // namespace

Search::Search(const CoverTable &table, const CoverGoal &goal)
    : table(table), goal(goal), samples(table.weights.size()) {
  for (double weight : table.weights)
    totalWeight += weight;
  // Errors are drawn in the order of the kernels, so that all processes agree.
  std::mt19937 random(20);
  std::normal_distribution<double> normal;
  for (size_t world = 0; world <= goal.worlds; ++world) {
    const double scale = world == 0 ? 0 : 1;
    llvm::DenseMap<uint64_t, double> ofIdea;
    std::vector<float> &error = errors.emplace_back();
    for (const CoverTable::Kernel &kernel : table.kernels) {
      auto idea = ofIdea.try_emplace(kernel.idea, 0);
      if (idea.second)
        idea.first->second = kIdeaError * normal(random);
      const double own = kKernelError * normal(random);
      error.push_back(
          static_cast<float>(std::exp(scale * (idea.first->second + own))));
    }
    std::vector<float> &best = bestNs.emplace_back();
    for (size_t sample = 0; sample < samples; ++sample) {
      float ns = CoverTable::kNever;
      for (size_t kernel = 0; kernel < table.kernels.size(); ++kernel)
        ns = std::min(ns, table.kernels[kernel].ns[sample] * error[kernel]);
      best.push_back(world == 0 ? static_cast<float>(table.bestNs[sample])
                                : ns);
    }
    least.emplace_back(samples, kMostRegret);
  }
}

double Search::lossOf(float regret, size_t world) const {
  if (world > 0)
    return regret * (1 - kShareOfPrediction) / static_cast<double>(goal.worlds);
  return kShareOfPrediction *
         (regret + goal.overTolerance * std::max(0.0, regret - goal.tolerance));
}

/// The decrease of the mean regret by \p kernel, divided by its cost.
double Search::worthOf(size_t kernel) const {
  double gain = 0;
  for (size_t world = 0; world <= goal.worlds; ++world)
    for (size_t sample = 0; sample < samples; ++sample) {
      const float before = least[world][sample];
      const float after = regret(kernel, world, sample);
      if (after < before)
        gain += table.weights[sample] *
                (lossOf(before, world) - lossOf(after, world));
    }
  const double cost = table.kernels[kernel].isAtHand ? kCostAtHand : 1;
  return gain / totalWeight / cost;
}

void Search::take(size_t kernel) {
  chosen.push_back(kernel);
  for (size_t world = 0; world <= goal.worlds; ++world)
    for (size_t sample = 0; sample < samples; ++sample)
      least[world][sample] =
          std::min(least[world][sample], regret(kernel, world, sample));
}

/// The regret of the best of \p kernels at \p sample, by its time.
double Search::regretOf(llvm::ArrayRef<size_t> kernels, size_t sample) const {
  double least = kMostRegret;
  for (size_t kernel : kernels)
    least = std::min(least, table.regret(kernel, sample));
  return least;
}

Cover Search::run() {
  for (size_t kernel : goal.fixed)
    take(kernel);
  // A worth only falls while other kernels are taken. So the first entry of the
  // queue whose worth is up to date is the best.
  struct Entry {
    double worth;
    size_t kernel, seen; ///< kernels chosen when the worth was computed
    bool operator<(const Entry &other) const {
      return worth != other.worth ? worth < other.worth : kernel > other.kernel;
    }
  };
  std::priority_queue<Entry> queue;
  for (size_t kernel = 0; kernel < table.kernels.size(); ++kernel)
    queue.push({worthOf(kernel), kernel, chosen.size()});
  while (!queue.empty() && chosen.size() < goal.maxKernels) {
    Entry next = queue.top();
    queue.pop();
    if (next.worth < goal.leastGain)
      break;
    if (next.seen == chosen.size()) {
      take(next.kernel);
      continue;
    }
    next.worth = worthOf(next.kernel);
    next.seen = chosen.size();
    queue.push(next);
  }
  Cover cover;
  cover.kernels = std::move(chosen);
  for (size_t sample = 0; sample < samples; ++sample)
    cover.regret = std::max(cover.regret, regretOf(cover.kernels, sample));
  return cover;
}

Cover chooseCover(const CoverTable &table, const CoverGoal &goal) {
  return Search(table, goal).run();
}

} // namespace kiln
