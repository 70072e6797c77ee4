//===- Roofline.h - steps beside the rates of the device ------------------===//
//
// A step reads its weights once and the keys and values of its sequences, and
// computes its products and attention. Experts (MoE) that none of its tokens
// chooses are not read: counted are as many as are chosen in the mean, where
// each is as likely as any other. At the rates at which the device reads memory
// and multiplies matrices, a step takes the longer of both times at least. The
// share of a run is the sum of these times over the time that its steps took.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_ROOFLINE_H
#define KILN_EXAMPLES_LLAMA_ROOFLINE_H

#include "CacheType.h"
#include "ModelConfig.h"
#include "Scheduler.h"
#include "WeightPlan.h"

#include <cstdint>
#include <vector>

namespace llama {

/// The least work of a step.
struct StepWork {
  bool isDecode = false; ///< No sequence computes tokens of its prompt.
  double bytes = 0;      ///< Read: weights, keys and values.
  double flops = 0;
};

/// The bytes that steps read, and the elements that they multiply.
struct StepCosts {
  /// Layers' products except those of experts; all experts; lm_head.
  double layerBytes = 0, expertBytes = 0, headBytes = 0;
  double layerElements = 0, expertElements = 0, headElements = 0;
  double keyBytes = 0;          ///< A key and its value in one layer.
  double chosenShare = 0;       ///< A token's experts over those of a layer.
  std::vector<int64_t> windows; ///< of each layer, as ModelConfig has them

  /// Bytes of the layers that \p tokens tokens read.
  double bytesOf(double tokens) const;
  /// Keys that \p queries queries at the end of \p length tokens read, in all
  /// layers. Keys behind a layer's window are not read.
  double keysOf(double queries, double length) const;
};

StepCosts stepCosts(const ModelConfig &model, const WeightPlan &plan,
                    CacheType cache);

StepWork workOf(const ModelConfig &model, const StepCosts &costs,
                const Step &step);

/// The bytes of a step in which \p sequences sequences decode, with \p keys
/// keys each.
double decodeBytes(const StepCosts &costs, int64_t sequences, double keys);

/// Rates of a device; 0: not known.
struct DeviceRates {
  double bytesPerNs = 0, flopsPerNs = 0;
};

constexpr double kNsPerMs = 1e6;

/// Steps of one kind.
struct StepTotals {
  int64_t steps = 0;
  double ms = 0, bytes = 0, flops = 0;
  double leastMs = 0; ///< At the rates of the device.

  /// 0: there are no steps, or the rates that count are not known.
  double share() const { return ms > 0 ? leastMs / ms : 0; }
  double bytesPerNs() const { return ms > 0 ? bytes / (ms * kNsPerMs) : 0; }
  double flopsPerNs() const { return ms > 0 ? flops / (ms * kNsPerMs) : 0; }
};

/// Collects steps and their times. Not thread-safe.
class Roofline {
public:
  void add(const StepWork &work, double ms) { steps.push_back({work, ms}); }

  /// Steps that only decode, or those that compute prompts.
  StepTotals totals(bool ofDecodes, const DeviceRates &rates) const;

private:
  struct TimedStep {
    StepWork work;
    double ms;
  };
  std::vector<TimedStep> steps;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_ROOFLINE_H
