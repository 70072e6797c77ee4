//===- WeightFormat.cpp ---------------------------------------------------===//
#include "WeightFormat.h"

#include "Mxfp4.h"

namespace llama {

/// prepack.h: n and k are padded to multiples of it.
static constexpr int64_t kPackedSide = 64;

static uint64_t roundUp(int64_t value, int64_t multiple) {
  return static_cast<uint64_t>((value + multiple - 1) / multiple * multiple);
}

bool isPacked(WeightType type) {
  return type == WeightType::E4m3Packed || type == WeightType::Int4 ||
         type == WeightType::Mxfp4;
}

int64_t rowsOfBlock(WeightType type) {
  if (type == WeightType::E4m3Blocks)
    return kScaleBlock;
  return isPacked(type) ? kPackedSide : 1;
}

WeightBytes bytesOf(const WeightFormat &format, int64_t rows, int64_t columns) {
  const auto all = static_cast<uint64_t>(rows) * static_cast<uint64_t>(columns);
  const uint64_t packedRows = roundUp(rows, kPackedSide);
  const uint64_t packed = packedRows * roundUp(columns, kPackedSide);
  switch (format.type) {
  case WeightType::Bf16:
    return {2 * all, 0, 0};
  case WeightType::Fp32:
    return {sizeof(float) * all, 0, 0};
  case WeightType::E4m3Rows:
    return {all, sizeof(float) * static_cast<uint64_t>(rows), 0};
  case WeightType::E4m3Blocks:
    return {all,
            sizeof(float) * (roundUp(rows, kScaleBlock) / kScaleBlock) *
                (roundUp(columns, kScaleBlock) / kScaleBlock),
            0};
  case WeightType::E4m3Packed:
    return {packed, sizeof(float) * packedRows, 0};
  case WeightType::Mxfp4:
    return {packed / 2,
            packedRows * (roundUp(columns, kPackedSide) / kMxfp4Group), 0};
  case WeightType::Int4: {
    const auto size = static_cast<uint64_t>(format.groupSize);
    const uint64_t groups =
        packedRows *
        (size ? (roundUp(columns, kPackedSide) + size - 1) / size : 1);
    return {packed / 2, 2 * groups, format.hasZeros ? groups : 0};
  }
  }
  return {};
}

} // namespace llama
