//===- Chain.h - pointwise chains in values and in texts ------------------===//
#pragma once

#include "common/Types.h"

#include <cstdint>
#include <string>

namespace kiln {

/// Packs a chain into an int64 value and back: a byte for each operation.
int64_t encodeChain(const PointwiseChain &chain);
PointwiseChain decodeChain(int64_t value);

/// The chain as an initialiser: "{{kiln::PointwiseOp::Bias,
/// kiln::PointwiseOp::Silu}}".
std::string initializerText(const PointwiseChain &chain);

} // namespace kiln
