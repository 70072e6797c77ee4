//===- CacheType.cpp ------------------------------------------------------===//
#include "CacheType.h"

#include "Checkpoint.h"
#include "Error.h"
#include "StoredWeight.h"

#include <cmath>
#include <string>

namespace llama {

static float scaleOf(const Checkpoint &checkpoint, const std::string &name) {
  const Tensor &tensor = checkpoint.tensor(name);
  if (tensor.elements() != 1 || !isFloat(tensor.dtype))
    throw Error(checkpoint.path() + ": " + name + " is not one number");
  const float scale = elementOf(tensor.dtype, tensor.data, 0);
  if (!std::isfinite(scale) || scale <= 0)
    throw Error(checkpoint.path() + ": " + name + " is " +
                std::to_string(scale) + ", expected a number above 0");
  return scale;
}

std::vector<float> cacheScales(const ModelConfig &model, CacheType type,
                               const Checkpoint *checkpoint) {
  std::vector<float> scales(2 * static_cast<size_t>(model.layers), 1);
  if (!checkpoint || type == CacheType::Bf16)
    return scales;
  for (size_t i = 0; i < scales.size(); ++i) {
    const std::string layer =
        "model.layers." + std::to_string(i / 2) + ".self_attn.";
    const std::string letter = i % 2 == 0 ? "k" : "v";
    for (const std::string &part :
         {letter + "_scale", letter + "_proj." + letter + "_scale",
          letter + "_proj.output_scale", std::string("kv_scale")})
      if (checkpoint->tensors().count(layer + part)) {
        scales[i] = scaleOf(*checkpoint, layer + part);
        break;
      }
  }
  return scales;
}

} // namespace llama
