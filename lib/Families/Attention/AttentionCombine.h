//===- AttentionCombine.h - the step that merges splits of the keys -------===//
//
// Split-KV templates leave partial results, which a second kernel merges
// (attention/CombineAttention.cuh).
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

/// The step's translation unit. It uses no dynamic shared memory.
TranslationUnit makeCombineUnit(const AttentionSignature &signature,
                                const CombineAttentionConfig &config,
                                const DeviceModel &device);

/// Bytes of the partial results of \p rows rows over all splits: O, then the
/// LSE.
inline int64_t partialBytes(int64_t rows, int64_t valueDim) {
  return rows * (partialPitch(valueDim) + 1) * int64_t(sizeof(float));
}

/// Rows of partial results of one split: partialRows() of DecodeSplits.h. At
/// most those of \p problem without a capacity, for which plans have room.
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

/// Appends the step, which is function \p function of the plan. It starts early
/// if \p dependent says that the step before allows that.
void addCombineStep(const AttentionParams &params,
                    const CombineAttentionConfig &config, uint32_t function,
                    bool dependent, LaunchSpec &spec);

} // namespace kiln
