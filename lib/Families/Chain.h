//===- Chain.h - pointwise chains in records and in texts -----------------===//
#pragma once

#include "common/Types.h"

#include <cstdint>
#include <string>

namespace kiln {

/// Packs a chain into a record's int64 and back: a byte an operation.
int64_t encodeChain(const PointwiseChain &chain);
PointwiseChain decodeChain(int64_t value);

/// "{{kiln::PointwiseOp::Bias, kiln::PointwiseOp::Silu}}": the chain as an
/// initialiser.
std::string initializerText(const PointwiseChain &chain);

} // namespace kiln
