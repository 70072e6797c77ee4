//===- WeightNames.h - the tensors of a model -----------------------------===//
//
// One list for three uses: random weights, export of a checkpoint, and the
// check that a checkpoint fits its config. Names are those of transformers.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_WEIGHTNAMES_H
#define KILN_EXAMPLES_LLAMA_WEIGHTNAMES_H

#include "Checkpoint.h"
#include "ModelConfig.h"
#include "RandomWeights.h"

#include <string>
#include <vector>

namespace llama {

/// Matrices are the weights of products, and may be quantised.
enum class WeightKind : uint8_t { Matrix, Embedding, Norm, Bias };

struct WeightSpec {
  std::string name;
  std::vector<int64_t> shape; ///< [n, k] of y = x W^T, or [n].
  WeightKind kind = WeightKind::Matrix;

  int64_t elements() const;
  int64_t columns() const; ///< k, or 1.
};

/// The tensors of a layer. Biases are there with ModelConfig::qkvBias, norms of
/// heads with qkNorm.
struct LayerSpecs {
  WeightSpec inputNorm, q, k, v, qBias, kBias, vBias, qNorm, kNorm, output,
      postNorm, gate, up, down;
};
LayerSpecs layerSpecs(const ModelConfig &model, int64_t layer);

WeightSpec embeddingSpec(const ModelConfig &model);
WeightSpec lastNormSpec(const ModelConfig &model);
WeightSpec headSpec(const ModelConfig &model);

/// All tensors of \p model: embedding, layers in order, the last norm, and
/// lm_head unless it is the embedding.
std::vector<WeightSpec> weightSpecs(const ModelConfig &model);

/// "model.layers.<layer>.<part>.weight", such as part "self_attn.q_proj".
std::string layerWeight(int64_t layer, const char *part);

/// The module of a tensor: its name without the last part.
std::string moduleOf(const std::string &name);

/// Random weights of a kind. Matrices have a deviation of 0.02, transformers'
/// initializer_range. Norms are 1 + 0.1 x and biases 0.1 x: with ones and
/// zeros, a weight that the engine forgets would not show.
RandomScale randomScale(WeightKind kind);

/// How \p checkpoint differs from \p model, a sentence for each tensor that is
/// missing, unknown, or of another shape or type: BF16, F16 and F32 are read,
/// and what ModelConfig::quantization announces. Empty: it fits. Tensors that
/// transformers ignores as well are no fault: a tied lm_head and the
/// frequencies that early Llama checkpoints store.
std::vector<std::string> checkWeights(const ModelConfig &model,
                                      const Checkpoint &checkpoint);

/// Throws Error with the first faults of checkWeights(), if there are any.
void requireWeights(const ModelConfig &model, const Checkpoint &checkpoint);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_WEIGHTNAMES_H
