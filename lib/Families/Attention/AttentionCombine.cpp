//===- AttentionCombine.cpp -----------------------------------------------===//
#include "Families/Attention/AttentionCombine.h"

#include "Families/KernelUnit.h"
#include "Kernel/ConfigSchema.h"

namespace kiln {

TranslationUnit makeCombineUnit(const AttentionSignature &signature,
                                const CombineAttentionConfig &config,
                                const DeviceModel &device) {
  return makeKernelUnit({"attention/CombineAttention.cuh", "AttentionSignature",
                         "CombineAttentionConfig", "AttentionParams",
                         "combineAttention"},
                        {.name = stepName(attentionProblemSchema(), "combine"),
                         .signature = initializerText(signature),
                         .config = initializerText(config),
                         .threads = config.threads(),
                         .sharedBytes = 0},
                        device);
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
