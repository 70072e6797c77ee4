//===- gemm/PackedWeight.cuh - the values of packed weights ---------------===//
//
// Decodes one element at a time, for simple kernels. common/PackedWeights.h has
// the place of an element.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Convert.cuh"
#include "common/PackedWeights.h"
#include "gemm/GemmParams.h"
#include "gemm/GemmSignature.h"

namespace kiln {

/// fp32 of an e8m0 in a byte.
inline float floatOfE8m0(unsigned bits) {
  return bits == 0     ? __uint_as_float(0x00400000u)
         : bits == 255 ? __uint_as_float(0x7fc00000u)
                       : __uint_as_float(bits << 23);
}

/// The same conversion without branches, for inner loops.
inline float selectedE8m0(unsigned bits) {
  const bool isEnd = bits == 0 || bits == 255;
  return __uint_as_float(bits << 23 | (isEnd ? 0x00400000u : 0u));
}

/// fp32 of an e2m1 in the lower half of a byte.
inline float floatOfE2m1(unsigned bits) {
  const unsigned size = bits & 7u;
  const float value =
      size < 2 ? 0.5f * static_cast<float>(size)
               : __uint_as_float((size >> 1) + 126u << 23 | (size & 1u) << 22);
  return bits & 8u ? -value : value;
}

/// Scale \p at of B.
template <GemmSignature kSignature>
float packedScale(const GemmParams &params, long long at) {
  constexpr DType kType = kSignature.scaleTypeB;
  if constexpr (kType == DType::E8M0)
    return floatOfE8m0(
        reinterpret_cast<const unsigned char *>(params.scaleB.data)[at]);
  else
    return toFloat<kType>(
        reinterpret_cast<const Storage<kType> *>(params.scaleB.data)[at]);
}

/// Blocks of packed weights, and scales, of one matrix.
inline long long packedBlocks(const GemmParams &params) {
  return PackedWeights::blocksOf(params.n) * PackedWeights::blocksOf(params.k);
}
template <GemmSignature kSignature>
long long packedScales(const GemmParams &params) {
  return PackedWeights::blocksOf(params.n) * PackedWeights::kRows *
         PackedWeights::groups(params.k, kSignature.groupB);
}

/// Element (\p row, \p k) of W[n, k] of \p batch, which is B as stored.
/// Matrices of a batch follow one another without gaps.
template <GemmSignature kSignature>
double packedWeight(const GemmParams &params, long long batch, long long row,
                    long long k) {
  constexpr DType kType = kSignature.typeB();
  constexpr int kBits = bitsOf(kType);
  constexpr int kGroup = kSignature.groupB;
  const long long block = batch * packedBlocks(params) +
                          row / 64 * PackedWeights::blocksOf(params.k) + k / 64;
  const int bit = PackedWeights::bitOf(kBits, static_cast<int>(row % 64),
                                       static_cast<int>(k % 64));
  const unsigned code =
      static_cast<const unsigned char *>(
          params.b)[block * PackedWeights::blockBytes(kBits) + bit / 8] >>
      bit % 8;
  const long long groups = PackedWeights::groups(params.k, kGroup);
  const long long group = kGroup ? k / (kGroup ? kGroup : 1) : 0;
  const long long at = batch * packedScales<kSignature>(params) +
                       PackedWeights::scaleAt(row, group, groups);
  double value;
  if constexpr (kType == DType::INT4) {
    int zero = 8;
    if constexpr (kSignature.zeroB)
      zero = static_cast<const unsigned char *>(params.zeroB)[at];
    value = static_cast<int>(code & 15u) - zero;
  } else if constexpr (kType == DType::E2M1)
    value = floatOfE2m1(code & 15u);
  else
    value = toFloat<kType>(static_cast<unsigned char>(code));
  return value * static_cast<double>(packedScale<kSignature>(params, at));
}

} // namespace kiln
