//===- WeightFiller.h - tensors made or copied to their places ------------===//
#ifndef KILN_EXAMPLES_LLAMA_WEIGHTFILLER_H
#define KILN_EXAMPLES_LLAMA_WEIGHTFILLER_H

#include "Gpu.h"
#include "WeightPlan.h"

#include <cstdint>
#include <memory>

namespace llama {

class Checkpoint;

/// Where weights come from: a checkpoint, or a seed.
struct WeightSource {
  const Checkpoint *checkpoint = nullptr; ///< null: random weights
  uint64_t seed = 0;
};

/// Fills matrices of a plan. Keeps device memory for a tensor between calls.
class WeightFiller {
public:
  WeightFiller(const Gpu &gpu, const WeightSource &source);

  /// \p base: the address of the plan's first byte. The work is enqueued.
  /// Throws Error.
  void fill(const PlannedMatrix &matrix, DeviceAddress base);

private:
  void copy(const PlacedTensor &part, DeviceAddress target) const;
  void draw(const PlacedTensor &part, DeviceAddress target);

  const Gpu &gpu;
  const WeightSource &source;
  std::unique_ptr<PtxKernel> kernel;
  DeviceMemory scratch;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_WEIGHTFILLER_H
