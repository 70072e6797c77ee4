//===- CoverSearch.cpp - a greedy cover, on numbers alone -----------------===//
#include "Tune/CoverSearch.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/Sequence.h>
#include <llvm/ADT/SmallVector.h>

#include <algorithm>

namespace kiln {

/// Regret beyond which a kernel says nothing about a sample.
static constexpr double kWorstRegret = 0.5;
/// What a second opinion may be behind.
static constexpr double kSecondOpinion = 0.05;

namespace {

/// One search at one tolerance.
class Search {
public:
  Search(const CoverTable &table, double tolerance)
      : table(table), tolerance(tolerance),
        least(table.weights.size(), kWorstRegret), ideas(table.weights.size()) {
  }

  void take(size_t kernel) {
    chosen.push_back(kernel);
    for (size_t sample = 0; sample < least.size(); ++sample) {
      const double regret = table.regret(kernel, sample);
      least[sample] = std::min(least[sample], regret);
      if (regret <= kSecondOpinion &&
          !llvm::is_contained(ideas[sample], table.kernels[kernel].idea))
        ideas[sample].push_back(table.kernels[kernel].idea);
    }
  }

  /// What \p kernel would add: the weight that it covers, and where two cover
  /// the same, how much better it is.
  double worthOf(size_t kernel) const {
    constexpr double kOfRegret = 1e-2;
    double worth = 0, saved = 0;
    for (size_t sample = 0; sample < least.size(); ++sample) {
      const double regret = table.regret(kernel, sample);
      if (regret >= least[sample])
        continue;
      saved += table.weights[sample] * (least[sample] - regret);
      if (regret <= tolerance && least[sample] > tolerance)
        worth += table.weights[sample];
    }
    return worth > 0 ? worth + kOfRegret * saved : 0;
  }

  /// What \p kernel would add as a second opinion.
  double opinionOf(size_t kernel) const {
    double worth = 0;
    for (size_t sample = 0; sample < least.size(); ++sample)
      if (ideas[sample].size() < 2 &&
          table.regret(kernel, sample) <= kSecondOpinion &&
          !llvm::is_contained(ideas[sample], table.kernels[kernel].idea))
        worth += table.weights[sample];
    return worth;
  }

  /// Takes the best by \p worth until there is none, or \p most are taken.
  template <class Worth> void fill(size_t most, const Worth &worth) {
    while (chosen.size() < most) {
      size_t best = 0;
      double bestWorth = 0;
      for (size_t kernel = 0; kernel < table.kernels.size(); ++kernel) {
        const double value = worth(kernel);
        if (value > bestWorth) {
          best = kernel;
          bestWorth = value;
        }
      }
      if (bestWorth <= 0)
        return;
      take(best);
    }
  }

  /// Whether some kernel would cover more.
  bool isShort() const {
    for (size_t kernel = 0; kernel < table.kernels.size(); ++kernel)
      if (worthOf(kernel) > 0)
        return true;
    return false;
  }

  /// Leaves out what the others cover, the \p fixed first ones excepted.
  void thin(size_t fixed) {
    for (size_t i = chosen.size(); i-- > fixed;) {
      auto isNeeded = [&](size_t sample) {
        if (table.regret(chosen[i], sample) > tolerance)
          return false;
        for (size_t j = 0; j < chosen.size(); ++j)
          if (j != i && table.regret(chosen[j], sample) <= tolerance)
            return false;
        return true;
      };
      if (llvm::none_of(llvm::seq<size_t>(0, least.size()), isNeeded))
        chosen.erase(chosen.begin() + static_cast<ptrdiff_t>(i));
    }
  }

  std::vector<size_t> chosen;

private:
  const CoverTable &table;
  const double tolerance;
  std::vector<double> least; ///< regret of what is chosen, by sample
  /// Of what is chosen and nearly the best, by sample.
  std::vector<llvm::SmallVector<uint64_t, 2>> ideas;
};

} // namespace

Cover chooseCover(const CoverTable &table, const CoverGoal &goal) {
  constexpr double kGrowth = 1.25, kMostTolerance = kWorstRegret;
  const size_t most = std::max(goal.maxKernels, goal.fixed.size());
  for (double tolerance = goal.tolerance;; tolerance *= kGrowth) {
    Search search(table, tolerance);
    for (size_t kernel : goal.fixed)
      search.take(kernel);
    auto worth = [&](size_t kernel) { return search.worthOf(kernel); };
    search.fill(most, worth);
    if (search.isShort() && tolerance < kMostTolerance)
      continue;
    search.thin(goal.fixed.size());
    // The search again, without what proved to be superfluous.
    Search kept(table, tolerance);
    for (size_t kernel : search.chosen)
      kept.take(kernel);
    kept.fill(most, [&](size_t kernel) { return kept.opinionOf(kernel); });
    return {std::move(kept.chosen), tolerance};
  }
}

} // namespace kiln
