//===- RopeTable.h - the angles of a model's positions --------------------===//
#ifndef KILN_EXAMPLES_LLAMA_ROPETABLE_H
#define KILN_EXAMPLES_LLAMA_ROPETABLE_H

#include "ModelConfig.h"

#include <cstdint>
#include <vector>

namespace llama {

/// Cosines and sines of \p rows positions, as kiln_rope reads them: fp32
/// [rows][rotary dimensions], cosines in the first half of a row. Two scalings
/// depend on the length of the sequence, and keys that are cached with one
/// table do not fit another: they get the longest that is served, \p rows.
/// Throws Error.
std::vector<float> ropeTable(const ModelConfig &model, int64_t rows);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_ROPETABLE_H
