//===- DType.h - element types of checkpoints -----------------------------===//
//
// All types that the safetensors format has, so that a file with any of them
// can be checked and listed. The engine computes with a few of them.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_DTYPE_H
#define KILN_EXAMPLES_LLAMA_DTYPE_H

#include <cstdint>
#include <optional>
#include <string_view>

namespace llama {

/// Named as in safetensors/src/tensor.rs (huggingface/safetensors).
enum class DType : uint8_t {
  Bool,
  F4,
  F6E2M3,
  F6E3M2,
  U8,
  I8,
  F8E5M2,
  F8E4M3,
  F8E8M0,
  F8E4M3Fnuz,
  F8E5M2Fnuz,
  I16,
  U16,
  F16,
  BF16,
  I32,
  U32,
  F32,
  C64,
  F64,
  I64,
  U64
};

/// Bits of an element: 4 to 64.
unsigned bitsOf(DType type);

/// The name in a safetensors header, such as "BF16".
std::string_view nameOf(DType type);

/// The type with a name of a safetensors header; none if there is no such type.
std::optional<DType> dtypeNamed(std::string_view name);

/// The floating-point type that PyTorch and config.json call \p name
/// ("bfloat16", also "torch.bfloat16"); none for other names.
std::optional<DType> dtypeNamedByTorch(std::string_view name);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_DTYPE_H
