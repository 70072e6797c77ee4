//===- RandomCheckpoint.h - random weights as a checkpoint ----------------===//
#ifndef KILN_EXAMPLES_LLAMA_RANDOMCHECKPOINT_H
#define KILN_EXAMPLES_LLAMA_RANDOMCHECKPOINT_H

#include <cstdint>
#include <string>
#include <string_view>

namespace llama {

/// Writes config.json (the text \p config) and model.safetensors with the
/// random bf16 weights of \p seed into \p folder, which exists. transformers
/// loads them with from_pretrained(), so another implementation can compute
/// with the bits that the engine has. About 1 ns an element, and 2 bytes.
/// Throws Error.
void writeRandomCheckpoint(const std::string &folder, std::string_view config,
                           uint64_t seed);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_RANDOMCHECKPOINT_H
