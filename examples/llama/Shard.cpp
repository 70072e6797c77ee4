//===- Shard.cpp ----------------------------------------------------------===//
#include "Shard.h"

#include "Error.h"

#include <string>

namespace llama {

ModelConfig partOf(const ModelConfig &model, int64_t count) {
  if (count > 1 &&
      (model.experts.count > 0 || model.hasSinks || model.outputBias))
    throw Error("--tp divides neither experts nor sinks nor biases of the "
                "output projection, and the model has them");
  ModelConfig part = model;
  auto divide = [&](int64_t &value, const char *name) {
    if (count < 1 || value % count != 0)
      throw Error("the model has " + std::string(name) + " " +
                  std::to_string(value) + ", which " + std::to_string(count) +
                  " ranks do not divide evenly: choose another --tp");
    value /= count;
  };
  divide(part.heads, "num_attention_heads");
  divide(part.kvHeads, "num_key_value_heads");
  divide(part.intermediateSize, "intermediate_size");
  constexpr int64_t kVector = 4;
  if (part.vocabSize % (kVector * count) == 0)
    part.headRows = part.vocabSize / count;
  return part;
}

} // namespace llama
