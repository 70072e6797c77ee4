//===- DeviceWeights.h - a model's weights as the products read them ------===//
//
// Products that read the same rows are one: the weights of q, k and v follow
// each other, and those of gate and up are interleaved row by row, as the
// SwiGLU epilogue wants them. Each tensor is made, or copied, straight to its
// final place.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_DEVICEWEIGHTS_H
#define KILN_EXAMPLES_LLAMA_DEVICEWEIGHTS_H

#include "Gpu.h"
#include "ModelConfig.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace llama {

class Checkpoint;

/// bf16 matrices [n, k] of y = x W^T, and vectors.
struct LayerWeights {
  DeviceAddress inputNorm = 0;
  DeviceAddress qkv = 0;     ///< [q; k; v]
  DeviceAddress qkvBias = 0; ///< 0: none
  DeviceAddress qNorm = 0, kNorm = 0;
  DeviceAddress output = 0;
  DeviceAddress postNorm = 0;
  DeviceAddress gateUp = 0; ///< row 2j: gate j, row 2j + 1: up j
  DeviceAddress down = 0;
};

/// Where weights come from: a checkpoint, or a seed.
struct WeightSource {
  const Checkpoint *checkpoint = nullptr; ///< null: random weights
  uint64_t seed = 0;
};

/// Owns the memory. Immutable once made.
class DeviceWeights {
public:
  /// Tells the tensors that are done, of all.
  using Progress = std::function<void(int64_t done, int64_t all)>;

  /// Throws Error where they do not fit, or where the checkpoint lacks one.
  DeviceWeights(const Gpu &gpu, const ModelConfig &model,
                const WeightSource &source, const Progress &progress);

  DeviceAddress embedding() const { return embed; }
  DeviceAddress lastNorm() const { return norm; }
  DeviceAddress head() const { return lmHead; }
  const LayerWeights &layer(int64_t index) const {
    return layers[static_cast<size_t>(index)];
  }
  DeviceAddress address() const { return memory.address(); }
  uint64_t bytes() const { return memory.bytes(); }

  /// The bytes of all weights of \p model.
  static uint64_t bytesOf(const ModelConfig &model);

private:
  DeviceMemory memory;
  DeviceAddress embed = 0, norm = 0, lmHead = 0;
  std::vector<LayerWeights> layers;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_DEVICEWEIGHTS_H
