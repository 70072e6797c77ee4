//===- TypeName.cpp -------------------------------------------------------===//
#include "Kernel/TypeName.h"

#include "Support/Format.h"

namespace kiln {

std::string nameOf(DType type) {
  switch (type) {
  case DType::FP64:
    return "fp64";
  case DType::FP32:
    return "fp32";
  case DType::INT32:
    return "int32";
  case DType::FP16:
    return "fp16";
  case DType::BF16:
    return "bf16";
  case DType::E4M3:
    return "e4m3";
  case DType::E5M2:
    return "e5m2";
  case DType::INT8:
    return "int8";
  }
  return fmt::format("{:#x}", static_cast<int>(type));
}

} // namespace kiln
