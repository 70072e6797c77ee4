//===- AttentionCombine.h - the step that merges splits of the keys -------===//
//
// Templates that share the keys of a sequence out among blocks leave partial
// results, which a second kernel merges (attention/CombineAttention.cuh).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Compile/TranslationUnit.h"
#include "Device/DeviceModel.h"
#include "Driver/LaunchSpec.h"
#include "Families/Attention/AttentionProblem.h"
#include "attention/AttentionParams.h"
#include "attention/CombineAttentionConfig.h"

#include <algorithm>

namespace kiln {

/// Its translation unit. It uses no dynamic shared memory.
TranslationUnit makeCombineUnit(const AttentionSignature &signature,
                                const CombineAttentionConfig &config,
                                const DeviceModel &device);

/// Bytes of the partial results of \p rows rows, all splits counted: O, then
/// the LSE.
inline int64_t partialBytes(int64_t rows, int64_t valueDim) {
  return rows * (partialPitch(valueDim) + 1) * int64_t(sizeof(float));
}

/// Rows of partial results of one split: partialRows() of DecodeSplits.h. No
/// more than those of \p problem without a capacity, which plans have room for.
inline int64_t partialRowsOf(const AttentionProblem &problem) {
  int64_t rows = problem.batch * problem.queries;
  if (problem.hasPackedQueries())
    rows = std::min(rows, problem.totalQueries);
  return problem.heads * rows;
}

/// Points \p params to partial results of \p rows rows in \p scratch.
inline void placePartials(DeviceAddress scratch, int64_t rows, int64_t valueDim,
                          AttentionParams &params) {
  params.partialO = reinterpret_cast<float *>(scratch);
  params.partialLse = params.partialO + rows * partialPitch(valueDim);
}

/// Appends the step, which is function \p function of the plan and starts early
/// where \p dependent says that the step before lets it.
void addCombineStep(const AttentionParams &params,
                    const CombineAttentionConfig &config, uint32_t function,
                    bool dependent, LaunchSpec &spec);

} // namespace kiln
