//===- TensorMapElement.h - what a tensor map's elements may be besides ---===//
#pragma once

#include <cstdint>

namespace kiln {

/// Of TensorMapSpec::elementType, beside the values of DType and as wide as
/// DType::FP32: fp32 in memory that loads round to 10 mantissa bits, as tensor
/// cores in tf32 mode want it; they would cut the others off.
inline constexpr int32_t kTf32Element = 0x2080;

} // namespace kiln
