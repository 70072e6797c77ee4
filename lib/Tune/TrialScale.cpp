//===- TrialScale.cpp - times of several batches on one scale -------------===//
#include "Tune/TrialScale.h"

#include "Trial/Statistics.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>

namespace kiln {

bool isTimed(const TrialResult &trial) {
  return trial.status == TrialStatus::Ok && trial.samples > 0 &&
         trial.medianNs > 0;
}

void scaleTimes(TrialResult &trial, double scale) {
  trial.medianNs *= scale;
  trial.ciLowNs *= scale;
  trial.ciHighNs *= scale;
}

int chooseReference(llvm::ArrayRef<TrialResult> trials) {
  int chosen = -1;
  for (auto [i, trial] : llvm::enumerate(trials))
    if (isTimed(trial) &&
        (chosen < 0 || trial.samples > trials[chosen].samples))
      chosen = static_cast<int>(i);
  return chosen;
}

void RepeatedTrial::begin(const TrialResult &trial) {
  medians.assign(1, trial.medianNs);
}

void RepeatedTrial::repeat(TrialResult &known, const TrialResult &again,
                           double scale) {
  medians.push_back(again.medianNs * scale);
  scaleTimes(known, summarizeSamples(medians).median / known.medianNs);
  known.samples += again.samples;
  known.validated |= again.validated;
  known.maxErrorRatio = std::max(known.maxErrorRatio, again.maxErrorRatio);
}

std::vector<size_t> findContenders(llvm::ArrayRef<double> times, double band,
                                   size_t most) {
  std::vector<size_t> order;
  for (size_t i = 0; i < times.size(); ++i)
    if (times[i] > 0)
      order.push_back(i);
  llvm::stable_sort(order,
                    [&](size_t a, size_t b) { return times[a] < times[b]; });
  size_t count = 0;
  while (count < std::min(order.size(), most) &&
         times[order[count]] <= times[order.front()] * (1 + band))
    ++count;
  order.resize(count);
  return order;
}

} // namespace kiln
