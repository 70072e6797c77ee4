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

#include <optional>
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

/// An MLP, or an expert.
struct MlpSpecs {
  WeightSpec gate, up, down;
};

/// The experts of a layer of gpt-oss. Matrices are those of all experts, stored
/// [k, n] each, with gate and up interleaved: columns 2j and 2j + 1.
struct FusedSpecs {
  WeightSpec gateUp, gateUpBias, down, downBias;
};

/// The tensors of a layer. Biases are there with ModelConfig::qkvBias,
/// outputBias and experts.hasBias, norms of heads with qkNorm, sinks with
/// hasSinks, a router with experts.
struct LayerSpecs {
  WeightSpec inputNorm, q, k, v, qBias, kBias, vBias, qNorm, kNorm, output,
      outputBias, sinks, postNorm, router, routerBias;
  std::vector<MlpSpecs> mlps;      ///< one, or one of each expert
  std::optional<FusedSpecs> fused; ///< in place of them
};
LayerSpecs layerSpecs(const ModelConfig &model, int64_t layer);

WeightSpec embeddingSpec(const ModelConfig &model);
WeightSpec lastNormSpec(const ModelConfig &model);
WeightSpec headSpec(const ModelConfig &model);

/// All tensors of \p model: embedding, layers in order, the last norm, and
/// lm_head unless it is the embedding.
std::vector<WeightSpec> weightSpecs(const ModelConfig &model);

/// "model.layers.<layer>.<name>".
std::string layerTensor(int64_t layer, const std::string &name);

/// "model.layers.<layer>.<part>.weight", such as part "self_attn.q_proj".
std::string layerWeight(int64_t layer, const std::string &part);

/// The parts of a layer with experts, as the class names them.
struct ExpertParts {
  const char *router, *experts;
  const char *gate, *up, *down; ///< of one expert; null with FusedSpecs

  /// "<experts>.<index>.<part>", such as part `gate`.
  std::string of(int64_t index, const char *part) const;
};
ExpertParts expertParts(Architecture architecture);

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

/// transformers 5 keeps the experts of a layer in two tensors,
/// mlp.experts.gate_up_proj [experts, 2 inner, hidden] and down_proj [experts,
/// hidden, inner]. Where \p checkpoint has them, their parts take their place
/// under the names of weightSpecs(). Throws Error for one of another shape.
void splitExperts(const ModelConfig &model, Checkpoint &checkpoint);

/// Throws Error with the first faults of checkWeights(), if there are any.
void requireWeights(const ModelConfig &model, const Checkpoint &checkpoint);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_WEIGHTNAMES_H
