//===- WeightFiller.h - tensors made or copied to their places ------------===//
#ifndef KILN_EXAMPLES_LLAMA_WEIGHTFILLER_H
#define KILN_EXAMPLES_LLAMA_WEIGHTFILLER_H

#include "Gpu.h"
#include "ModelConfig.h"
#include "WeightPlan.h"
#include "WeightSource.h"

#include <kiln/kiln.hpp>

#include <cstdint>
#include <memory>

namespace llama {

class HostMatrix;

/// Fills matrices of a plan. Keeps device memory for a tensor between calls.
class WeightFiller {
public:
  /// \p packer packs weights, and may be null for a plan that has no packed
  /// formats.
  WeightFiller(const Gpu &gpu, const ModelConfig &model,
               const WeightSource &source, const kiln::Engine *packer);

  /// \p base: the address of the plan's first byte. The work is enqueued.
  /// Throws Error, kiln::Error.
  void fill(const PlannedMatrix &matrix, DeviceAddress base);

private:
  void uploadNumbers(const PlannedMatrix &matrix, DeviceAddress base) const;
  void copy(const PlacedTensor &part, DeviceAddress target) const;
  void draw(const PlacedTensor &part, DeviceAddress target);
  void upload(const PlannedMatrix &matrix, DeviceAddress base);
  void pack(const PlannedMatrix &matrix, const HostMatrix &host,
            DeviceAddress base);
  DeviceAddress scratchOf(uint64_t bytes);

  const Gpu &gpu;
  const ModelConfig &model;
  const WeightSource &source;
  const kiln::Engine *packer;
  std::unique_ptr<PtxKernel> kernel;
  DeviceMemory scratch;
};

/// The call that packs a matrix of a packed format, without addresses.
kiln::Sized<kiln_prepack_args> packingOf(const PlannedMatrix &matrix);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_WEIGHTFILLER_H
