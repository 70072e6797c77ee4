//===- Roofline.cpp -------------------------------------------------------===//
#include "Roofline.h"

#include "MemoryNeeds.h"

#include <algorithm>
#include <cmath>

namespace llama {

namespace {

/// A product and a sum for each element of a matrix and row.
constexpr double kFlops = 2;

double elementsOf(const PlannedMatrix &matrix) {
  return double(matrix.rows) * double(matrix.columns);
}
double bytesOf(const PlannedMatrix &matrix) {
  return double(matrix.bytes().all());
}

/// Pairs of a query at a position before \p end and a key that it sees: its own
/// and the ones before it, at most \p window. A window of 0 hides none.
double pairsBefore(double end, double window) {
  if (window == 0 || end <= window)
    return end * (end + 1) / 2;
  return window * (window + 1) / 2 + (end - window) * window;
}

/// Such pairs of the sequence's queries in this step.
double pairsOf(const ScheduledSequence &sequence, int64_t window) {
  return pairsBefore(double(sequence.length()), double(window)) -
         pairsBefore(double(sequence.firstPosition), double(window));
}

} // namespace

StepCosts stepCosts(const ModelConfig &model, const WeightPlan &plan,
                    CacheType cache) {
  StepCosts costs;
  for (int64_t i = 0; i < model.layers; ++i) {
    const PlannedLayer &layer = plan.layers[static_cast<size_t>(i)];
    for (const size_t product : WeightPlan::productsOf(layer)) {
      const bool isOfExperts =
          model.hasExperts(i) &&
          (product == layer.gateUp || product == layer.down);
      (isOfExperts ? costs.expertBytes : costs.layerBytes) +=
          bytesOf(plan.matrices[product]);
      (isOfExperts ? costs.expertElements : costs.layerElements) +=
          elementsOf(plan.matrices[product]);
    }
  }
  if (model.experts.count > 0)
    costs.chosenShare =
        double(model.experts.perToken) / double(model.experts.count);
  costs.headBytes = bytesOf(plan.matrices[plan.head]);
  costs.headElements = elementsOf(plan.matrices[plan.head]);
  costs.keyBytes = double(cacheBytes(model, cache, 1)) / double(model.layers);
  costs.windows = model.windows;
  return costs;
}

double StepCosts::bytesOf(double tokens) const {
  return layerBytes + expertBytes * (1 - std::pow(1 - chosenShare, tokens));
}

double StepCosts::keysOf(double queries, double length) const {
  double keys = 0;
  for (const int64_t window : windows)
    keys += window ? std::min(length, double(window) + queries - 1) : length;
  return keys;
}

StepWork workOf(const ModelConfig &model, const StepCosts &costs,
                const Step &step) {
  StepWork work;
  work.isDecode = step.prefills.empty();
  double keys = 0, pairs = 0;
  for (const auto *sequences : {&step.decodes, &step.prefills})
    for (const ScheduledSequence &sequence : *sequences) {
      keys += costs.keysOf(double(sequence.tokens.size()),
                           double(sequence.length()));
      for (const int64_t window : costs.windows)
        pairs += pairsOf(sequence, window);
    }
  const auto tokens = double(step.tokens);
  work.bytes = costs.bytesOf(tokens) +
               (step.sampled > 0 ? costs.headBytes : 0) + keys * costs.keyBytes;
  // Scores, and the sums of the values.
  const double attention = 2 * kFlops * double(model.qRows()) * pairs;
  const double ofToken =
      costs.layerElements + costs.chosenShare * costs.expertElements;
  work.flops =
      kFlops * (tokens * ofToken + double(step.sampled) * costs.headElements) +
      attention;
  return work;
}

double decodeBytes(const StepCosts &costs, int64_t sequences, double keys) {
  return costs.bytesOf(double(sequences)) + costs.headBytes +
         double(sequences) * costs.keysOf(1, keys) * costs.keyBytes;
}

StepTotals Roofline::totals(bool ofDecodes, const DeviceRates &rates) const {
  StepTotals totals;
  for (const TimedStep &step : steps) {
    if (step.work.isDecode != ofDecodes)
      continue;
    ++totals.steps;
    totals.ms += step.ms;
    totals.bytes += step.work.bytes;
    totals.flops += step.work.flops;
    auto msAt = [&](double amount, double rate) {
      return rate > 0 ? amount / (rate * kNsPerMs) : 0;
    };
    totals.leastMs += std::max(msAt(step.work.bytes, rates.bytesPerNs),
                               msAt(step.work.flops, rates.flopsPerNs));
  }
  return totals;
}

} // namespace llama
