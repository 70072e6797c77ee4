//===- CheckpointExport.h - an engine's weights as a checkpoint -----------===//
#ifndef KILN_EXAMPLES_LLAMA_CHECKPOINTEXPORT_H
#define KILN_EXAMPLES_LLAMA_CHECKPOINTEXPORT_H

#include "WeightSource.h"

#include <string>
#include <string_view>

namespace llama {

/// Writes config.json and model.safetensors into \p folder, which exists: the
/// bf16 weights that an engine with the config.json \p config would have of
/// \p source. Quantised weights are written as the numbers that their codes
/// stand for, rounded to bf16, and the config without quantization_config, so
/// transformers loads them with from_pretrained() and computes with the
/// engine's weights. Some nanoseconds an element and core, and 2 bytes. Throws
/// Error.
void exportCheckpoint(const std::string &folder, std::string_view config,
                      const WeightSource &source);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_CHECKPOINTEXPORT_H
