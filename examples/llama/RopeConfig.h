//===- RopeConfig.h - rope's keys of a config.json ------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_ROPECONFIG_H
#define KILN_EXAMPLES_LLAMA_ROPECONFIG_H

#include "ConfigReader.h"
#include "ModelConfig.h"

namespace llama {

/// Sets rope and rotaryDim of \p model, whose sizes are read already. Reads
/// both forms: `rope_parameters` of transformers 5, and `rope_theta` with
/// `rope_scaling` of the versions before. Throws Error.
void readRope(const ConfigReader &config, ModelConfig &model);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_ROPECONFIG_H
