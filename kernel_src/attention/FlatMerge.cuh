//===- attention/FlatMerge.cuh - two attentions become one ----------------===//
//
// Lanes of a warp share a row of a head: each loads its vectors of both parts,
// weighs and adds them. Neighbouring rows are heads of one token, which lie one
// after the other in packed tensors.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/FlatMergeConfig.h"
#include "common/Access.cuh"

namespace kiln {

template <MergeSignature kSignature, FlatMergeConfig kConfig> class FlatMerge {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");

  static constexpr int kVector = kConfig.vector;
  static constexpr int kLanes = kConfig.lanes(kSignature);
  static constexpr int kInBytes = kVector * bytesOf(kSignature.in);
  static constexpr int kOutBytes = kVector * bytesOf(kSignature.out);
  static constexpr float kInfinity = __builtin_bit_cast(float, 0x7f800000u);

  /// What the parts of a row count, and the merged logarithm.
  struct Weights {
    float first, second, lse;
  };

public:
  static void run(const MergeParams &params) {
    long long rows = params.batch * params.rows * params.heads;
    constexpr long long kGroups = kConfig.threads() / kLanes;
    long long step = gridDim.x * kGroups;
    int lane = threadIdx.x % kLanes;
    // All lanes of a warp take part in each turn.
    long long turns = (rows + step - 1) / step;
    long long index = blockIdx.x * kGroups + threadIdx.x / kLanes;
    for (long long turn = 0; turn < turns; ++turn, index += step) {
      bool exists = index < rows;
      MergePlace place = placeOf(params, exists ? index : 0);
      Weights weights = weightsOf(params, place);
      // The logarithm may take the place of one that other lanes still read.
      __syncwarp();
      if (!exists)
        continue;
      if (kSignature.lse && lane == 0)
        params.lse[place.lseOffset(params)] = weights.lse;
      for (int column = lane * kVector; column < kSignature.valueDim;
           column += kLanes * kVector)
        mergeVector(params, place, weights, column);
    }
  }

private:
  static MergePlace placeOf(const MergeParams &params, long long index) {
    long long token = index / params.heads;
    long long batch = token / params.rows;
    return {batch, token - batch * params.rows, index - token * params.heads};
  }

  static Weights weightsOf(const MergeParams &params, MergePlace place) {
    long long at = place.lseOffset(params);
    float first = params.lse1[at], second = params.lse2[at];
    float greatest = fmaxf(first, second);
    if (greatest == -kInfinity)
      return {0, 0, greatest};
    float firstPart = expf(first - greatest);
    float secondPart = expf(second - greatest);
    float sum = firstPart + secondPart;
    return {firstPart / sum, secondPart / sum, greatest + logf(sum)};
  }

  static void mergeVector(const MergeParams &params, MergePlace place,
                          Weights weights, int column) {
    using In = Storage<kSignature.in>;
    using Out = Storage<kSignature.out>;
    auto load = [&](const void *base, const AttentionStrides &strides) {
      return loadVector<kInBytes, CacheHint::Streaming>(
          static_cast<const In *>(base) + place.offset(strides) + column);
    };
    Words<kInBytes> firstWords = load(params.o1, params.o1Strides);
    Words<kInBytes> secondWords = load(params.o2, params.o2Strides);
    float first[kVector], second[kVector], merged[kVector];
    unpackFloats<kSignature.in>(first, firstWords);
    unpackFloats<kSignature.in>(second, secondWords);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      // Not 0 * value: what counts nothing may hold NaN.
      float value = weights.first == 0 ? 0.0f : weights.first * first[i];
      merged[i] =
          weights.second == 0 ? value : fmaf(weights.second, second[i], value);
    }
    storeVector<kOutBytes, CacheHint::Streaming>(
        static_cast<Out *>(params.o) + place.offset(params.oStrides) + column,
        packFloats<kSignature.out>(merged));
  }
};

/// O and, where it is wanted, the LSE; any one-dimensional grid.
template <MergeSignature kSignature, FlatMergeConfig kConfig>
void flatMerge(const MergeParams &params) {
  FlatMerge<kSignature, kConfig>::run(params);
}

} // namespace kiln
