//===- rope/ReferenceRope.cuh - the reference of rotary embeddings --------===//
//
// A block computes a row of a result in fp64. A row of a cache looks for the
// token whose slot it is: without one it is not defined, and with several any
// of them may have written it. The bound of an element is the magnitude of the
// products that it is the sum of.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Convert.cuh"
#include "rope/HeadRopeConfig.h"

namespace kiln {

template <RopeSignature kSignature, ReferenceRopeConfig kConfig>
class ReferenceRope {
  static constexpr DType kType = kSignature.type;
  static constexpr int kThreads = kConfig.threads();

public:
  static void run(const ReferenceRopeParams &params) {
    for (long long row = params.rowBegin + blockIdx.x; row < params.rowEnd;
         row += gridDim.x) {
      const bool isCached = params.result == RopeResult::KCache ||
                            params.result == RopeResult::VCache;
      if (isCached)
        cachedRow(params, row);
      else
        outputRow(params, row);
      __syncthreads();
    }
  }

private:
  static long long indexAt(const void *array, long long token) {
    return kSignature.hasLongIndices
               ? static_cast<const long long *>(array)[token]
               : static_cast<const int *>(array)[token];
  }
  static long long positionOf(const RopeParams &rope, long long token) {
    if constexpr (kSignature.hasPositions())
      return indexAt(rope.positions, token);
    return 0;
  }
  static RopeParams::CacheRow cacheRowOf(const RopeParams &rope,
                                         long long token) {
    if constexpr (kSignature.slots == RopeSlots::Array)
      return rope.rowOfSlot(indexAt(rope.slots, token));
    else if constexpr (kSignature.slots == RopeSlots::Table)
      return rope.rowOfPosition(kSignature.hasSequences ? rope.sequences[token]
                                                        : token,
                                positionOf(rope, token));
    return {};
  }

  /// Rows are ordered by head and token.
  static void outputRow(const ReferenceRopeParams &params, long long row) {
    const RopeParams &rope = params.rope;
    const long long head = row / rope.tokens, token = row % rope.tokens;
    const bool isQ = params.result == RopeResult::Q;
    computeRow(params, row - params.rowBegin, token, head,
               isQ ? rope.q : rope.k, isQ ? rope.qStrides : rope.kStrides,
               isQ ? kSignature.hasQNorm : kSignature.hasKNorm,
               isQ ? rope.qWeight : rope.kWeight, 1.0, false);
  }

  /// Rows are ordered by page, head and row of the page.
  static void cachedRow(const ReferenceRopeParams &params, long long row) {
    const RopeParams &rope = params.rope;
    const long long plane = row / rope.pageSize;
    const long long page = plane / rope.kvHeads, head = plane % rope.kvHeads;
    const long long rowOfPage = row % rope.pageSize;
    __shared__ int count;
    __shared__ long long found;
    if (threadIdx.x == 0)
      count = 0;
    __syncthreads();
    for (long long token = threadIdx.x; token < rope.tokens;
         token += kThreads) {
      const RopeParams::CacheRow at = cacheRowOf(rope, token);
      if (at.page == page && at.row == rowOfPage) {
        atomicAdd(&count, 1);
        found = token;
      }
    }
    __syncthreads();
    const bool isK = params.result == RopeResult::KCache;
    const int cols = isK ? kSignature.headDim : kSignature.valueDim;
    const long long local = row - params.rowBegin;
    if (count != 1) {
      // Any finite number passes where several tokens may have written.
      for (int column = threadIdx.x; column < cols; column += kThreads) {
        params.reference[local * cols + column] = 0;
        params.bound[local * cols + column] = count == 0 ? -1.0 : 1e30;
      }
      return;
    }
    const float *scales = isK ? rope.kScale : rope.vScale;
    double scale = 1;
    if constexpr (kSignature.scales != ScaleKind::None)
      scale = scales[kSignature.scales == ScaleKind::Row ? head : 0];
    if (isK)
      computeRow(params, local, found, head, rope.k, rope.kStrides,
                 kSignature.hasKNorm, rope.kWeight, 1 / scale, false);
    else
      computeRow(params, local, found, head, rope.v, rope.vStrides, false,
                 nullptr, 1 / scale, true);
  }

  static void computeRow(const ReferenceRopeParams &params, long long local,
                         long long token, long long head, const void *data,
                         const HeadStrides &strides, bool isNormed,
                         const void *weights, double factor, bool isValue) {
    const RopeParams &rope = params.rope;
    const Storage<kType> *row = static_cast<const Storage<kType> *>(data) +
                                token * strides.token + head * strides.head;
    double norm = 1;
    if (isNormed) {
      double sum = 0;
      for (int i = 0; i < kSignature.headDim; ++i) {
        const double value = toFloat<kType>(row[i]);
        sum += value * value;
      }
      norm = 1 / sqrt(sum / kSignature.headDim + double(rope.epsilon));
    }
    auto at = [&](int column) {
      double value = toFloat<kType>(row[column]);
      if (!isNormed)
        return value;
      const double weight =
          toFloat<kType>(static_cast<const Storage<kType> *>(weights)[column]);
      return value * norm * (kSignature.hasUnitOffset ? 1 + weight : weight);
    };
    const int cols = isValue ? kSignature.valueDim : kSignature.headDim;
    for (int column = threadIdx.x; column < cols; column += kThreads) {
      double value = 0, bound = 0;
      const int rotated = column - kSignature.rotaryOffset;
      if (!isValue && rotated >= 0 && rotated < kSignature.rotaryDim)
        rotate(rope, positionOf(rope, token), rotated, at, value, bound);
      else {
        value = at(column);
        bound = fabs(value);
      }
      params.reference[local * cols + column] = value * factor;
      params.bound[local * cols + column] = bound * fabs(factor);
    }
  }

  /// Element \p index of the rotated ones.
  template <class At>
  static void rotate(const RopeParams &rope, long long position, int index,
                     const At &at, double &value, double &bound) {
    constexpr int kHalf = kSignature.rotaryDim / 2;
    constexpr bool kReadsHalves = kSignature.style == RopeStyle::Halves;
    constexpr bool kWritesHalves = kSignature.style != RopeStyle::Interleaved;
    const int pair =
        kWritesHalves ? (index < kHalf ? index : index - kHalf) : index / 2;
    const bool isSecond = kWritesHalves ? index >= kHalf : index % 2 != 0;
    const int offset = kSignature.rotaryOffset;
    const double a = at(offset + (kReadsHalves ? pair : 2 * pair));
    const double b = at(offset + (kReadsHalves ? pair + kHalf : 2 * pair + 1));
    const long long last = rope.tableRows - 1;
    const long long row = position < 0 ? 0 : position < last ? position : last;
    const Storage<kSignature.table> *angles =
        static_cast<const Storage<kSignature.table> *>(rope.table) +
        row * kSignature.rotaryDim;
    const double cosine = toFloat<kSignature.table>(angles[pair]);
    const double sine = toFloat<kSignature.table>(angles[kHalf + pair]);
    value = isSecond ? b * cosine + a * sine : a * cosine - b * sine;
    bound = isSecond ? fabs(b * cosine) + fabs(a * sine)
                     : fabs(a * cosine) + fabs(b * sine);
  }
};

/// Writes reference and bound of the rows [rowBegin, rowEnd), on
/// kConfig.blocks(rowEnd - rowBegin) blocks.
template <RopeSignature kSignature, ReferenceRopeConfig kConfig>
void referenceRope(const ReferenceRopeParams &params) {
  ReferenceRope<kSignature, kConfig>::run(params);
}

} // namespace kiln
