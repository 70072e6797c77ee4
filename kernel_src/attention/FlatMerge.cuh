//===- attention/FlatMerge.cuh - two attentions become one ----------------===//
//
// Lanes of a warp share a row of a head. Each loads its vectors of both parts
// for a few rows at once, weighs them and adds them. Neighbouring rows are
// heads of one token, which follow each other in packed tensors.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/FlatMergeConfig.h"
#include "common/Access.cuh"
#include "common/Dependent.cuh"

namespace kiln {

template <MergeSignature kSignature, FlatMergeConfig kConfig> class FlatMerge {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");

  static constexpr int kVector = kConfig.vector;
  static constexpr int kLanes = kConfig.lanes(kSignature);
  static constexpr int kInBytes = kVector * bytesOf(kSignature.in);
  static constexpr int kOutBytes = kVector * bytesOf(kSignature.out);
  static constexpr float kInfinity = __builtin_bit_cast(float, 0x7f800000u);

  /// The weights of the parts of a row, and the merged logarithm. A part
  /// without keys is not read.
  struct Weights {
    float first, second, lse;
    bool hasFirst, hasSecond;
  };

  static constexpr int kVectors = kConfig.vectors(kSignature);
  static constexpr int kGroups = kConfig.threads() / kLanes;

  /// The data that a lane reads of one row.
  struct Item {
    MergePlace place;
    bool exists;
    float lse1, lse2;
    Words<kInBytes> first[kVectors], second[kVectors];
  };

public:
  static void run(const MergeParams &params) {
    allowSuccessor();
    awaitPredecessor();
    long long rows = params.batch * params.rows * params.heads;
    constexpr long long kChunk = kGroups * kConfig.items;
    // All lanes of a warp take part in each turn.
    for (long long chunk = blockIdx.x * kChunk; chunk < rows;
         chunk += gridDim.x * kChunk) {
      // All loads of a thread are in flight together.
      Item items[kConfig.items];
#pragma unroll
      for (int i = 0; i < kConfig.items; ++i)
        load(params, chunk + i * kGroups + threadIdx.x / kLanes, rows,
             items[i]);
      // Results may overwrite operands that other lanes still read.
      __syncwarp();
#pragma unroll
      for (int i = 0; i < kConfig.items; ++i)
        if (items[i].exists)
          store(params, items[i]);
    }
  }

private:
  static int columnOf(int vector) {
    return (vector * kLanes + static_cast<int>(threadIdx.x) % kLanes) * kVector;
  }
  static bool hasColumn(int vector) {
    return kSignature.valueDim % (kLanes * kVector) == 0 ||
           columnOf(vector) < kSignature.valueDim;
  }

  /// The division uses 32 bits where they suffice: 64 bits cost three times as
  /// much.
  static long long divide(long long a, long long b) {
    return (a | b) >> 32 == 0
               ? static_cast<unsigned>(a) / static_cast<unsigned>(b)
               : a / b;
  }
  static MergePlace placeOf(const MergeParams &params, long long index) {
    long long token = divide(index, params.heads);
    long long batch = divide(token, params.rows);
    return {batch, token - batch * params.rows, index - token * params.heads};
  }

  static void load(const MergeParams &params, long long index, long long rows,
                   Item &item) {
    item.exists = index < rows;
    if (!item.exists)
      return;
    item.place = placeOf(params, index);
    loadPart(params.o1, params.o1Strides, item.place, item.first);
    loadPart(params.o2, params.o2Strides, item.place, item.second);
    long long at = item.place.lseOffset(params);
    item.lse1 = params.lse1[at];
    item.lse2 = params.lse2[at];
  }

  static void loadPart(const void *o, const HeadStrides &strides,
                       MergePlace place, Words<kInBytes> (&words)[kVectors]) {
    const Storage<kSignature.in> *row =
        static_cast<const Storage<kSignature.in> *>(o) + place.offset(strides);
#pragma unroll
    for (int i = 0; i < kVectors; ++i)
      if (hasColumn(i))
        words[i] =
            loadVector<kInBytes, CacheHint::Streaming>(row + columnOf(i));
  }

  static Weights weightsOf(float first, float second) {
    // Each is tested on its own: the maximum of NaN and -inf is -inf.
    const bool hasFirst = first != -kInfinity;
    const bool hasSecond = second != -kInfinity;
    if (!hasFirst && !hasSecond)
      return {0, 0, -kInfinity, false, false};
    float greatest = fmaxf(first, second);
    float firstPart = expf(first - greatest);
    float secondPart = expf(second - greatest);
    float sum = firstPart + secondPart;
    return {firstPart / sum, secondPart / sum, greatest + logf(sum), hasFirst,
            hasSecond};
  }

  static void store(const MergeParams &params, const Item &item) {
    Weights weights = weightsOf(item.lse1, item.lse2);
    if (kSignature.lse && threadIdx.x % kLanes == 0)
      params.lse[item.place.lseOffset(params)] = weights.lse;
    Storage<kSignature.out> *row =
        static_cast<Storage<kSignature.out> *>(params.o) +
        item.place.offset(params.oStrides);
#pragma unroll
    for (int i = 0; i < kVectors; ++i)
      if (hasColumn(i))
        storeVector<kOutBytes, CacheHint::Streaming>(
            row + columnOf(i), merged(weights, item.first[i], item.second[i]));
  }

  static Words<kOutBytes> merged(Weights weights,
                                 const Words<kInBytes> &firstWords,
                                 const Words<kInBytes> &secondWords) {
    float first[kVector], second[kVector], sum[kVector];
    unpackFloats<kSignature.in>(first, firstWords);
    unpackFloats<kSignature.in>(second, secondWords);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      // No product 0 * value is taken: a part without keys may hold NaN.
      float value = weights.hasFirst ? weights.first * first[i] : 0.0f;
      sum[i] =
          weights.hasSecond ? fmaf(weights.second, second[i], value) : value;
    }
    return packFloats<kSignature.out>(sum);
  }
};

/// Writes O and, where wanted, the LSE; any one-dimensional grid.
template <MergeSignature kSignature, FlatMergeConfig kConfig>
void flatMerge(const MergeParams &params) {
  FlatMerge<kSignature, kConfig>::run(params);
}

} // namespace kiln
