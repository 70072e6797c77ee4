//===- WeightPlan.h - which tensor goes where -----------------------------===//
//
// All of a model's weights in one piece of device memory, as one list of
// matrices, and the tensors that each of them is made of. Products that read
// the same rows are one: the weights of q, k and v follow each other, and those
// of gate and up are interleaved row by row, as the SwiGLU epilogue wants them.
// With E4m3Blocks they follow each other: rows that alternate would be of two
// blocks.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_WEIGHTPLAN_H
#define KILN_EXAMPLES_LLAMA_WEIGHTPLAN_H

#include "ModelConfig.h"
#include "Shard.h"
#include "WeightFormat.h"
#include "WeightNames.h"
#include "WeightSource.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace llama {

/// A tensor, or a part of it, in a matrix. A tensor of one dimension counts as
/// a matrix of one column.
struct PlacedTensor {
  WeightSpec spec;
  /// The part of the tensor that is kept.
  int64_t firstRow = 0, rows = 0, firstColumn = 0, columns = 0;
  /// Row r of the part is row targetRow + r * rowStep of the matrix.
  int64_t targetRow = 0, rowStep = 1;
};

/// A product's weight W of y = x W^T, or a vector, which has one column.
struct PlannedMatrix {
  int64_t rows = 0, columns = 0;
  /// Weights of rows / groups rows that follow each other, one of each expert.
  int64_t groups = 1;
  bool isTransposed = false; ///< W^T is stored, in bf16
  WeightFormat format;
  /// Bytes from the start of all weights.
  uint64_t data = 0, scales = 0, zeros = 0;
  std::vector<PlacedTensor> parts;

  WeightBytes bytes() const;
};

/// Indices into WeightPlan::matrices.
struct PlannedLayer {
  static constexpr size_t kNone = SIZE_MAX;

  size_t inputNorm = kNone, postNorm = kNone;
  size_t qkv = kNone;     ///< [q; k; v]
  size_t qkvBias = kNone; ///< kNone: absent, as for the next two
  size_t qNorm = kNone, kNorm = kNone;
  size_t output = kNone, outputBias = kNone;
  size_t sinks = kNone;                      ///< fp32
  size_t router = kNone, routerBias = kNone; ///< the bias is fp32
  size_t gateUp = kNone, down = kNone;
  size_t gateUpBias = kNone, downBias = kNone; ///< [experts, n]
};

struct WeightPlan {
  std::vector<PlannedMatrix> matrices;
  std::vector<PlannedLayer> layers;
  size_t embedding = 0, lastNorm = 0;
  size_t head = 0; ///< may be the embedding, if it is whole
  uint64_t bytes = 0;

  /// The weights of a layer's products.
  static std::vector<size_t> productsOf(const PlannedLayer &layer);
  /// Whether a product of some layer has a weight of \p type.
  bool hasProductOf(WeightType type) const;
  /// Whether some weight is packed (isPacked()).
  bool hasPacked() const;
};

/// The weights of \p shard of \p source, by default random bf16 ones. Throws
/// Error where its checkpoint does not fit \p model, or cannot have the formats
/// it asks for. Only bf16 weights are divided.
WeightPlan planWeights(const ModelConfig &model,
                       const WeightSource &source = {},
                       const Shard &shard = {});

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_WEIGHTPLAN_H
