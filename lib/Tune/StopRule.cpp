//===- StopRule.cpp - configs that can still be the best ------------------===//
#include "Tune/StopRule.h"

#include <algorithm>
#include <cmath>

namespace kiln {

void Ratios::add(double ratio) {
  least = added == 0 ? ratio : std::min(least, ratio);
  sum += ratio;
  squares += ratio * ratio;
  ++added;
}

/// The first few configs are alike, and so are their ratios. So the deviation
/// is at least the models' own: 4 % within the spaces of memory-bound problems
/// and 6 % within those of matrix products on an H200, where the least of the
/// first few ratios left 3 % on the table.
double Ratios::optimistic() const {
  double mean = sum / added;
  double variance = squares / added - mean * mean;
  constexpr double kDeviations = 2, kModelDeviation = 0.06;
  double deviation =
      std::max(std::sqrt(std::max(variance, 0.0)), kModelDeviation * mean);
  return std::min(least, mean - kDeviations * deviation);
}

StopRule::StopRule(llvm::ArrayRef<TuningCandidate *> tried,
                   const TuningCandidate *best, unsigned maxTrials) {
  // After this many trials the errors of predictions are known: the first few
  // configs differ in class, and so in the model's error.
  constexpr unsigned kEnoughRatios = 4;
  for (const TuningCandidate *entry : tried) {
    const double predictedNs = entry->candidate.estimate.totalNs;
    if (!entry->isMeasured() || predictedNs <= 0)
      continue;
    const double ratio = entry->trial.medianNs / predictedNs;
    ratios.add(ratio);
    ratiosOf[entry->candidate.tmpl].add(ratio);
  }
  if (!best || ratios.count() < std::min(kEnoughRatios, maxTrials))
    return;
  const TrialResult &trial = best->trial;
  const double noise =
      std::max(kTieBand, (trial.ciHighNs - trial.ciLowNs) / 2 / trial.medianNs);
  limitNs = trial.medianNs * (1 - noise);
}

bool StopRule::isBeyondBound(const TuningCandidate &entry) const {
  if (limitNs <= 0)
    return false;
  // A template with fewer than two trials uses 0.8, because the ratios of other
  // templates do not apply to it: its estimates may be too high by a fifth.
  constexpr unsigned kEnoughOfTemplate = 2;
  constexpr double kUnknown = 0.8;
  auto own = ratiosOf.find(entry.candidate.tmpl);
  const bool isKnown =
      own != ratiosOf.end() && own->second.count() >= kEnoughOfTemplate;
  const double ratio = std::min(ratios.optimistic(),
                                isKnown ? own->second.optimistic() : kUnknown);
  return entry.candidate.estimate.totalNs * ratio >= limitNs;
}

} // namespace kiln
