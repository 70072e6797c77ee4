//===- Linear.cpp ---------------------------------------------------------===//
#include "Linear.h"

#include <cassert>

namespace llama {

static void *at(DeviceAddress address) {
  return reinterpret_cast<void *>(address);
}

ActivationType activationOf(WeightType type) {
  switch (type) {
  case WeightType::E4m3Rows:
    return ActivationType::E4m3Rows;
  case WeightType::E4m3Blocks:
    return ActivationType::E4m3Blocks;
  case WeightType::Bf16:
  case WeightType::Fp32:
  case WeightType::E4m3Packed:
  case WeightType::Int4:
  case WeightType::Mxfp4:
    break;
  }
  return ActivationType::Bf16;
}

/// Blocks of a side of E4m3Blocks.
static int64_t blocks(int64_t elements) {
  return (elements + kScaleBlock - 1) / kScaleBlock;
}

kiln::Gemm Linear::product(int64_t m, const Activation &x,
                           DeviceAddress y) const {
  assert(x.type == activationOf(format.type) && "the weight reads other types");
  const kiln_dtype type =
      x.type == ActivationType::Bf16 ? KILN_BF16 : KILN_E4M3;
  const int64_t n = outputs();
  kiln::Gemm call(type, m, n, inputs());
  call.layout(isTransposed ? KILN_LAYOUT_NN : KILN_LAYOUT_NT).batch(groups);
  call.a(at(x.address)).d(at(y)).dependent();
  constexpr auto kSide = static_cast<int32_t>(kScaleBlock);
  switch (format.type) {
  case WeightType::Bf16:
  case WeightType::Fp32:
    break;
  case WeightType::E4m3Rows:
    call.scaleA(at(x.scales), KILN_GRANULARITY_ROW);
    call.scaleB(at(scales), KILN_GRANULARITY_ROW, n);
    break;
  case WeightType::E4m3Blocks:
    call.blockScaleA(at(x.scales), 1, kSide);
    call.blockScaleB(at(scales), kSide, kSide, 0, 0,
                     blocks(n) * blocks(columns));
    break;
  case WeightType::E4m3Packed:
    return call.packedWeights(KILN_E4M3, KILN_ORDER_K64R16, at(data),
                              at(scales), KILN_FP32, 0);
  case WeightType::Mxfp4:
    return call.packedWeights(KILN_E2M1, KILN_ORDER_K64R16, at(data),
                              at(scales), KILN_E8M0, format.groupSize);
  case WeightType::Int4:
    return call.packedWeights(KILN_INT4, KILN_ORDER_K64R16, at(data),
                              at(scales),
                              format.hasBf16Scales ? KILN_BF16 : KILN_FP16,
                              format.groupSize, at(zeros));
  }
  return call.weights(at(data), 0, n * inputs());
}

} // namespace llama
