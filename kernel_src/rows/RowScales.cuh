//===- rows/RowScales.cuh - quantised results and their scales ------------===//
//
// A row's scale follows from the greatest magnitude of all its results. Where
// each block of columns has a scale of its own, the lanes of one warp have all
// vectors of a block, so that a few shuffles find its greatest magnitude: a
// thread's vectors are ordered accordingly, and the scale is known as soon as
// the results are.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Access.cuh"
#include "common/Convert.cuh"
#include "rows/RowMath.cuh"

namespace kiln {

/// The order in which kRowThreads threads of a CUDA block take the vectors of a
/// row. Places are counted in vectors.
template <RowSignature kSignature, int kVector, int kRowThreads>
struct VectorOrder {
  static constexpr ScaleShare kShare =
      kSignature.scaleShare(kVector, kRowThreads);
  static constexpr int kLanes = kShare.lanes, kItems = kShare.items;

  /// The place of the first vector of thread \p lane of the row.
  static int first(int lane) {
    if constexpr (kItems == 1)
      return lane;
    else
      return lane / kLanes * (kLanes * kItems) + lane % kLanes;
  }
  /// Places from a thread's first vector to its \p i-th.
  static constexpr int after(int i) {
    return i / kItems * (kItems * kRowThreads) + i % kItems * kLanes;
  }
  /// \p vectors, or a few more that are whole blocks.
  template <class Count> static Count wholeBlocks(Count vectors) {
    constexpr int kOfBlock = kShare.vectors();
    return (vectors + kOfBlock - 1) / kOfBlock * kOfBlock;
  }
};

/// The blocks of one row, one after the other, in a thread that has some of
/// their vectors. All lanes of a block add their vectors in the same order.
template <RowSignature kSignature, int kVector, int kRowThreads,
          CacheHint kHint>
class ScaleBlocks {
  using Math = RowMath<kSignature>;
  using Order = VectorOrder<kSignature, kVector, kRowThreads>;
  static constexpr int kLanes = Order::kLanes, kItems = Order::kItems;
  static constexpr int kColumns = kSignature.scaleColumns();
  static constexpr int kOutBytes = bytesOf(kSignature.out);

public:
  /// Adds \p result, the thread's \p i-th vector, which begins at \p column of
  /// row \p row if it \p exists. The last vector of a block stores the block
  /// with its scale.
  void add(const RowParams &params, long long row, int i, long long column,
           bool exists, const float (&result)[kVector]) {
    const int item = i % kItems;
    if (item == 0) {
      greatest = MagnitudeStats::empty();
      begin = column;
    }
    if (exists)
      greatest.add(result);
    has[item] = exists;
#pragma unroll
    for (int e = 0; e < kVector; ++e)
      values[item][e] = result[e];
    if (item == kItems - 1)
      store(params, row);
  }

private:
  void store(const RowParams &params, long long row) {
    const int lane = threadIdx.x % 32, first = lane / kLanes * kLanes;
    const unsigned lanes = ~0u >> (32 - kLanes) << first;
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2)
      greatest.merge({__shfl_xor_sync(lanes, greatest.max, distance)});
    const float scale = Math::scaleOf(greatest.max), inverse = 1.0f / scale;
    if (lane == first && has[0])
      params.scales[row * params.scaleRowStride +
                    begin / kColumns * params.scaleBlockStride] = scale;
    char *y =
        static_cast<char *>(params.y) + (row * params.ldy + begin) * kOutBytes;
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      if (!has[item])
        continue;
#pragma unroll
      for (float &value : values[item])
        value *= inverse;
      storeVector<kVector * kOutBytes, kHint>(
          y + item * (kLanes * kVector * kOutBytes),
          packFloats<kSignature.out>(values[item]));
    }
  }

  MagnitudeStats greatest;
  long long begin; ///< column of the thread's first vector of the block
  bool has[kItems];
  float values[kItems][kVector];
};

} // namespace kiln
