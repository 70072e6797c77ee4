//===- TypeName.cpp -------------------------------------------------------===//
#include "Kernel/TypeName.h"

#include "Support/EnumName.h"
#include "Support/Format.h"

namespace kiln {

std::string nameOf(DType type) {
  using enum DType;
  static constexpr EnumName<DType> kNames[] = {
      {None, "none"},   {FP64, "fp64"},  {FP32, "fp32"}, {INT64, "int64"},
      {INT32, "int32"}, {FP16, "fp16"},  {BF16, "bf16"}, {E4M3, "e4m3"},
      {E5M2, "e5m2"},   {E8M0, "e8m0"},  {INT8, "int8"}, {E2M1, "e2m1"},
      {INT4, "int4"},   {UINT4, "uint4"}};
  llvm::StringRef name = nameIn(kNames, type, {});
  return name.empty() ? fmt::format("{:#x}", static_cast<int>(type))
                      : name.str();
}

} // namespace kiln
