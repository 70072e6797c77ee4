//===- Roofline.cpp -------------------------------------------------------===//
#include "Roofline.h"

#include "MemoryNeeds.h"

#include <algorithm>

namespace llama {

namespace {

constexpr double kElement = 2; // bytes of a bf16
/// A product and a sum for each element of a matrix and row.
constexpr double kFlops = 2;

double headElements(const ModelConfig &model) {
  return double(model.vocabSize) * double(model.hiddenSize);
}
double layerElements(const ModelConfig &model) {
  return double(matrixBytes(model)) / kElement - headElements(model);
}

/// Pairs of a query and a key that it sees: the last query sees all keys, the
/// one before one less.
double pairsOf(const ScheduledSequence &sequence) {
  const auto queries = double(sequence.tokens.size());
  return queries * double(sequence.length()) - queries * (queries - 1) / 2;
}

} // namespace

StepWork workOf(const ModelConfig &model, const Step &step) {
  StepWork work;
  work.isDecode = step.prefills.empty();
  double keys = 0, pairs = 0;
  for (const auto *sequences : {&step.decodes, &step.prefills})
    for (const ScheduledSequence &sequence : *sequences) {
      keys += double(sequence.length());
      pairs += pairsOf(sequence);
    }
  const double head = step.sampled > 0 ? headElements(model) : 0;
  work.bytes = kElement * (layerElements(model) + head) +
               keys * double(cacheBytes(model, 1));
  // Scores, and the sums of the values.
  const double attention =
      2 * kFlops * double(model.layers) * double(model.qRows()) * pairs;
  work.flops = kFlops * (double(step.tokens) * layerElements(model) +
                         double(step.sampled) * head) +
               attention;
  return work;
}

double decodeBytes(const ModelConfig &model, int64_t sequences, double keys) {
  return double(matrixBytes(model)) +
         double(sequences) * keys * double(cacheBytes(model, 1));
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
