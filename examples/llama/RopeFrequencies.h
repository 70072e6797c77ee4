//===- RopeFrequencies.h - the angles of rotary positions -----------------===//
//
// A pair j of a head's elements is turned by position * inverse[j] radians,
// and its cosine and sine are multiplied by the attention factor. Scalings of
// long contexts change these numbers and nothing else, so kernels need not
// tell them apart. Formulas: transformers/modeling_rope_utils.py.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_ROPEFREQUENCIES_H
#define KILN_EXAMPLES_LLAMA_ROPEFREQUENCIES_H

#include "ModelConfig.h"

#include <cstdint>
#include <vector>

namespace llama {

struct RopeFrequencies {
  std::vector<double> inverse; ///< [rotaryDim / 2], radians a position.
  double attentionFactor = 1;
};

/// True for dynamic and longrope, whose frequencies depend on the length of
/// the sequence: keys that are cached with one table do not fit another. An
/// engine picks the length once, such as the longest context that it serves.
bool ropeDependsOnLength(const RopeConfig &rope);

/// The frequencies of \p model for sequences of up to \p length tokens, which
/// only types that depend on the length read.
RopeFrequencies ropeFrequencies(const ModelConfig &model, int64_t length);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_ROPEFREQUENCIES_H
