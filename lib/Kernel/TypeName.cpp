//===- TypeName.cpp -------------------------------------------------------===//
#include "Kernel/TypeName.h"

#include "Support/Format.h"

namespace kiln {

std::string nameOf(DType type) {
  switch (type) {
  case DType::None:
    return "none";
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
  case DType::E8M0:
    return "e8m0";
  case DType::INT8:
    return "int8";
  case DType::E2M1:
    return "e2m1";
  case DType::INT4:
    return "int4";
  case DType::UINT4:
    return "uint4";
  }
  return fmt::format("{:#x}", static_cast<int>(type));
}

} // namespace kiln
