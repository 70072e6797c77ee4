//===- AttentionCombine.cpp -----------------------------------------------===//
#include "Families/Attention/AttentionCombine.h"

#include "Families/KernelUnit.h"
#include "Kernel/ConfigSchema.h"

#include <algorithm>

namespace kiln {

TranslationUnit makeCombineUnit(const AttentionSignature &signature,
                                const CombineAttentionConfig &config,
                                const DeviceModel &device) {
  return makeKernelUnit({.header = "attention/CombineAttention.cuh",
                         .signatureType = "AttentionSignature",
                         .configType = "CombineAttentionConfig",
                         .paramsType = "AttentionParams",
                         .function = "combineAttention"},
                        {.unitName = "kiln_attention_combine",
                         .signature = initializerText(signature),
                         .config = initializerText(config),
                         .threads = config.threads(),
                         .sharedBytes = 0},
                        device);
}

int64_t partialBytes(int64_t rows, int64_t valueDim) {
  return rows * (valueDim + 1) * int64_t(sizeof(float));
}

int64_t partialRowsOf(const AttentionProblem &problem) {
  int64_t rows = problem.batch * problem.queries;
  if (problem.hasPackedQueries())
    rows = std::min(rows, problem.totalQueries);
  return problem.heads * rows;
}

void placePartials(DeviceAddress scratch, int64_t rows, int64_t valueDim,
                   AttentionParams &params) {
  params.partialO = reinterpret_cast<float *>(scratch);
  params.partialLse = params.partialO + rows * valueDim;
}

void addCombineStep(const AttentionParams &params,
                    const CombineAttentionConfig &config, uint32_t function,
                    bool dependent, LaunchSpec &spec) {
  KernelStep &step = spec.addKernel(params);
  step.function = function;
  step.grid = {static_cast<uint32_t>(params.queries),
               static_cast<uint32_t>(params.heads),
               static_cast<uint32_t>(params.batch)};
  step.block.x = static_cast<uint32_t>(config.threads());
  step.dependentLaunch = dependent;
}

} // namespace kiln
