//===- DeviceWeights.h - a model's weights as the products read them ------===//
//
// The matrices of a plan (WeightPlan.h) in one piece of device memory.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_DEVICEWEIGHTS_H
#define KILN_EXAMPLES_LLAMA_DEVICEWEIGHTS_H

#include "Gpu.h"
#include "Linear.h"
#include "WeightFiller.h"
#include "WeightPlan.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace llama {

/// Products' weights, and bf16 vectors. WeightPlan.h says how rows follow each
/// other.
struct LayerWeights {
  DeviceAddress inputNorm = 0;
  Linear qkv;
  DeviceAddress qkvBias = 0; ///< 0: none
  DeviceAddress qNorm = 0, kNorm = 0;
  Linear output;
  DeviceAddress outputBias = 0; ///< 0: none
  DeviceAddress sinks = 0;      ///< fp32 [heads]; 0: none
  DeviceAddress postNorm = 0;
  Linear router;                ///< no rows: the layer has no experts
  DeviceAddress routerBias = 0; ///< fp32 [experts]; 0: none
  Linear gateUp, down;          ///< of all experts
  DeviceAddress gateUpBias = 0, downBias = 0; ///< [experts, n]; 0: none

  bool hasExperts() const { return router.rows != 0; }
};

/// Owns the memory. Immutable once made.
class DeviceWeights {
public:
  /// Tells the matrices that are done, of all.
  using Progress = std::function<void(int64_t done, int64_t all)>;

  /// The matrices of \p plan, made by \p filler. Throws Error where they do not
  /// fit, kiln::Error.
  DeviceWeights(const Gpu &gpu, WeightPlan plan, WeightFiller &filler,
                const Progress &progress);

  const WeightPlan &plan() const { return planned; }
  DeviceAddress embedding() const { return embed; } ///< bf16 rows
  DeviceAddress lastNorm() const { return norm; }
  const Linear &head() const { return lmHead; }
  const LayerWeights &layer(int64_t index) const {
    return layers[static_cast<size_t>(index)];
  }
  DeviceAddress address() const { return memory.address(); }
  uint64_t bytes() const { return memory.bytes(); }

private:
  WeightPlan planned;
  DeviceMemory memory;
  DeviceAddress embed = 0, norm = 0;
  Linear lmHead;
  std::vector<LayerWeights> layers;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_DEVICEWEIGHTS_H
