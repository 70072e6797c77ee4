//===- StoredExperts.h - the experts of gpt-oss as a checkpoint has them --===//
//
// All experts of a layer are one tensor: bf16 [experts, k, n], or MXFP4 in two,
// <name>_blocks [experts, n, k / 32, 16] and <name>_scales [experts, n, k /
// 32]. Both become rows [experts * n, k].
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_STOREDEXPERTS_H
#define KILN_EXAMPLES_LLAMA_STOREDEXPERTS_H

#include "StoredWeight.h"

#include <memory>
#include <string>
#include <vector>

namespace llama {

/// Whether \p spec is a matrix of each expert.
bool isOfAllExperts(const WeightSpec &spec);

/// As findStored(), of such a weight.
std::unique_ptr<StoredWeight> findExperts(const Checkpoint &checkpoint,
                                          const WeightSpec &spec,
                                          std::vector<std::string> &faults);

/// Random ones.
std::unique_ptr<StoredWeight> drawExperts(const WeightSpec &spec,
                                          uint64_t seed);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_STOREDEXPERTS_H
