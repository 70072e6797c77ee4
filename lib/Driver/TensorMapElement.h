//===- TensorMapElement.h - a further type of elements --------------------===//
#pragma once

#include <cstdint>

namespace kiln {

/// A value of TensorMapSpec::elementType beside those of DType, as wide as
/// DType::FP32. Loads round fp32 in memory to 10 mantissa bits, as tensor cores
/// in tf32 mode want it; they would cut the others off.
inline constexpr int32_t kTf32Element = 0x2080;

} // namespace kiln
