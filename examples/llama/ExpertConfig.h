//===- ExpertConfig.h - the experts of a model, from its config.json ------===//
//
// In a layer with experts (MoE) a router chooses some of many MLPs for each
// token, and the layer's result is their weighted sum. Classes name the keys
// differently and have different defaults; this file knows both.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_EXPERTCONFIG_H
#define KILN_EXAMPLES_LLAMA_EXPERTCONFIG_H

#include "ConfigReader.h"
#include "ModelConfig.h"

#include <cstdint>

namespace llama {

/// The bounds of kiln_route.
constexpr int64_t kMostExperts = 1024, kMostPerToken = 32;

/// Reads the keys of experts into \p model, whose architecture and sizes are
/// known. Classes without experts have none of these keys. Throws Error.
void readExperts(const ConfigReader &config, ModelConfig &model);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_EXPERTCONFIG_H
