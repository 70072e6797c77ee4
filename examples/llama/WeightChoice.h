//===- WeightChoice.h - the formats of a model's weights ------------------===//
#ifndef KILN_EXAMPLES_LLAMA_WEIGHTCHOICE_H
#define KILN_EXAMPLES_LLAMA_WEIGHTCHOICE_H

#include "ModelConfig.h"
#include "WeightFormat.h"
#include "WeightNames.h"
#include "WeightSource.h"

#include <optional>
#include <string>
#include <vector>

namespace llama {

/// The type that an option calls \p name: bf16, fp8 (E4m3Rows), fp8-block, w8
/// (E4m3Packed), w4 (Int4) or mxfp4. Throws Error for others, naming \p option.
WeightType weightTypeNamed(const std::string &option, const std::string &name);

/// "fp8", as above.
const char *nameOf(WeightType type);

/// The type of random weights that the config of \p model announces: gpt-oss is
/// published with experts in MXFP4. Nothing: bf16.
std::optional<WeightType> announcedType(const ModelConfig &model);

/// The format of the weight that \p specs make up, which have equal columns:
/// as source.weights says, or as they are stored. Throws Error where they are
/// stored in several ways, or cannot become what is asked for.
WeightFormat layerFormat(const ModelConfig &model, const WeightSource &source,
                         const std::vector<WeightSpec> &specs);

/// The format of the experts in one tensor (FusedSpecs).
WeightFormat fusedFormat(const ModelConfig &model, const WeightSource &source,
                         const WeightSpec &spec);

/// The format of lm_head, whose weight is \p spec: its activations are bf16.
WeightFormat headFormat(const ModelConfig &model, const WeightSource &source,
                        const WeightSpec &spec);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_WEIGHTCHOICE_H
