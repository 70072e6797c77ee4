//===- elementwise/FlatElementwise.cuh - a chain over a line of vectors ---===//
//
// Memory sets the time, so two things count: enough loads on the way, and few
// instructions beside them. Item i of a chunk is the vector
//   chunk * threads * items + i * threads + thread,
// so that each access of a warp is one run of memory. A thread issues the loads
// of all its items before it uses the first. Where every matrix is packed the
// index is the offset; else (row, column) come from one division a thread and
// from additions afterwards.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Access.cuh"
#include "common/Pointwise.cuh"
#include "elementwise/ElementwiseParams.h"
#include "elementwise/FlatElementwiseConfig.h"

namespace kiln {

template <ElementwiseSignature kSignature, FlatElementwiseConfig kConfig>
class FlatElementwise {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");

  static constexpr DType kIn = kSignature.in, kOut = kSignature.out;
  static constexpr PointwiseChain kChain = kSignature.chain;
  static constexpr int kLinks = kChain.size();
  static constexpr int kVector = kConfig.vector, kItems = kConfig.items;
  static constexpr int kThreads = kConfig.threads();
  static constexpr int kInBytes = kVector * bytesOf(kIn);
  static constexpr int kOutBytes = kVector * bytesOf(kOut);
  static constexpr CacheHint kLoadHint =
      kConfig.hint == 1 ? CacheHint::Streaming : CacheHint::Plain;
  static constexpr CacheHint kStoreHint =
      kConfig.hint != 0 ? CacheHint::Streaming : CacheHint::Plain;

  /// Where a vector lies. Row and column (in vectors) are kept only where the
  /// signature needs them.
  struct Position {
    long long vector = 0;
    unsigned row = 0, column = 0;
  };

  /// The bits of one item: x and what the links read of it. Of a column of
  /// values the one element lies where a vector's first does.
  struct Item {
    Words<kInBytes> x;
    Words<kInBytes> link[kLinks > 0 ? kLinks : 1];
  };

public:
  static void run(const FlatElementwiseParams &params) {
    float scale = 1.0f;
    if constexpr (kChain.contains(PointwiseOp::Scale))
      scale = params.operands.scalePtr ? *params.operands.scalePtr
                                       : params.operands.scale;
    Position first = firstPosition(params);
    for (long long chunk = blockIdx.x; chunk < params.chunks;
         chunk += gridDim.x) {
      if ((chunk + 1) * kConfig.vectorsPerChunk() <= params.vectors)
        runChunk<true>(params, first, scale);
      else
        runChunk<false>(params, first, scale);
      first.vector += gridDim.x * kConfig.vectorsPerChunk();
      step(params, first, params.gridStepRows, params.gridStepColumns);
    }
    if constexpr (!kSignature.needsPosition() && kVector > 1)
      runTail(params.operands, params.vectors * kVector, scale);
  }

private:
  static Position firstPosition(const FlatElementwiseParams &params) {
    Position position;
    position.vector =
        static_cast<long long>(blockIdx.x) * kConfig.vectorsPerChunk() +
        threadIdx.x;
    if constexpr (kSignature.needsPosition()) {
      auto index = static_cast<unsigned long long>(position.vector);
      position.row = static_cast<unsigned>(index / params.vectorsPerRow);
      position.column =
          static_cast<unsigned>(index) - position.row * params.vectorsPerRow;
    }
    return position;
  }

  /// Moves row and column on; columns is less than a row has.
  static void step(const FlatElementwiseParams &params, Position &position,
                   unsigned rows, unsigned columns) {
    if constexpr (kSignature.needsPosition()) {
      position.row += rows;
      position.column += columns;
      if (position.column >= params.vectorsPerRow) {
        position.column -= params.vectorsPerRow;
        ++position.row;
      }
    }
  }

  /// Offset in elements of a vector in a matrix.
  static long long offsetOf(const Position &position, long long ld) {
    long long column = static_cast<long long>(position.column) * kVector;
    return kSignature.contiguous ? position.vector * kVector
                                 : position.row * ld + column;
  }

  template <DType kType>
  static const char *at(const void *operand, long long offset) {
    return static_cast<const char *>(operand) + offset * bytesOf(kType);
  }

  template <int kLink>
  static void loadLink(Item &item, const ElementwiseParams &operands,
                       const Position &position) {
    constexpr LinkShape kShape = shapeOf(kChain.ops[kLink]);
    const void *operand = operands.operands[kLink];
    if constexpr (kShape == LinkShape::Matrix)
      item.link[kLink] = loadVector<kInBytes, kLoadHint>(
          at<kIn>(operand, offsetOf(position, operands.ldOperand)));
    else if constexpr (kShape == LinkShape::Row) // shared by rows: stays in L1
      item.link[kLink] = loadVector<kInBytes>(
          at<kIn>(operand, static_cast<long long>(position.column) * kVector));
    else if constexpr (kShape == LinkShape::Column)
      item.link[kLink].word[0] =
          loadVector<bytesOf(kIn)>(at<kIn>(operand, position.row)).word[0];
    if constexpr (kLink + 1 < kLinks)
      loadLink<kLink + 1>(item, operands, position);
  }

  /// Values of link kLink for each element of the vector.
  template <int kLink>
  static void unpackLink(LinkOperands<float> (&values)[kVector],
                         const Item &item, float scale) {
    constexpr LinkShape kShape = shapeOf(kChain.ops[kLink]);
    float operand[kVector] = {};
    if constexpr (kShape == LinkShape::Matrix || kShape == LinkShape::Row)
      unpackFloats<kIn>(operand, item.link[kLink]);
    else if constexpr (kShape == LinkShape::Column) {
      float one[1];
      unpackFloats<kIn>(one, Words<bytesOf(kIn)>{item.link[kLink].word[0]});
      fill(operand, one[0]);
    } else if constexpr (kShape == LinkShape::Scalar)
      fill(operand, scale);
#pragma unroll
    for (int e = 0; e < kVector; ++e)
      values[e].link[kLink] = operand[e];
    if constexpr (kLink + 1 < kLinks)
      unpackLink<kLink + 1>(values, item, scale);
  }

  static void fill(float (&values)[kVector], float value) {
#pragma unroll
    for (int e = 0; e < kVector; ++e)
      values[e] = value;
  }

  /// The chain on one vector.
  static Words<kOutBytes> compute(const Item &item, float scale) {
    float values[kVector];
    LinkOperands<float> operands[kVector];
    unpackFloats<kIn>(values, item.x);
    if constexpr (kLinks > 0)
      unpackLink<0>(operands, item, scale);
#pragma unroll
    for (int e = 0; e < kVector; ++e)
      values[e] = applyChain<kChain>(values[e], operands[e]);
    return packFloats<kOut>(values);
  }

  /// One chunk: positions, loads, then chain and stores. All of its vectors
  /// exist when kFull.
  template <bool kFull>
  static void runChunk(const FlatElementwiseParams &params, Position position,
                       float scale) {
    const ElementwiseParams &operands = params.operands;
    Position positions[kItems];
    Item items[kItems];
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      positions[i] = position;
      if (kFull || position.vector < params.vectors) {
        items[i].x = loadVector<kInBytes, kLoadHint>(
            at<kIn>(operands.x, offsetOf(position, operands.ldx)));
        if constexpr (kLinks > 0)
          loadLink<0>(items[i], operands, position);
      }
      position.vector += kThreads;
      step(params, position, params.stepRows, params.stepColumns);
    }
#pragma unroll
    for (int i = 0; i < kItems; ++i)
      if (kFull || positions[i].vector < params.vectors)
        storeVector<kOutBytes, kStoreHint>(
            static_cast<char *>(operands.y) +
                offsetOf(positions[i], operands.ldy) * bytesOf(kOut),
            compute(items[i], scale));
  }

  /// What is left of a run of elements behind its last whole vector.
  static void runTail(const ElementwiseParams &operands, long long begin,
                      float scale) {
    constexpr FlatElementwiseConfig kScalar{.blockThreads = kThreads,
                                            .vector = 1,
                                            .items = 1,
                                            .hint = kConfig.hint};
    long long index = begin + threadIdx.x;
    if (blockIdx.x != 0 || index >= operands.rows * operands.cols)
      return;
    FlatElementwise<kSignature, kScalar>::runElement(operands, index, scale);
  }

  template <ElementwiseSignature, FlatElementwiseConfig>
  friend class FlatElementwise;

  /// One element of packed matrices.
  static void runElement(const ElementwiseParams &operands, long long index,
                         float scale) {
    static_assert(kVector == 1 && !kSignature.needsPosition(),
                  "an element is a vector of one");
    Position position;
    position.vector = index;
    Item item;
    item.x = loadVector<kInBytes, kLoadHint>(at<kIn>(operands.x, index));
    if constexpr (kLinks > 0)
      loadLink<0>(item, operands, position);
    storeVector<kOutBytes, kStoreHint>(static_cast<char *>(operands.y) +
                                           index * bytesOf(kOut),
                                       compute(item, scale));
  }
};

/// y = chain(x) on a one-dimensional grid of kConfig.blocks blocks. Every
/// matrix's pointer, and its row length in bytes unless all are packed, is a
/// multiple of accessBytes of a vector; kConfig.fitsRow holds.
template <ElementwiseSignature kSignature, FlatElementwiseConfig kConfig>
void flatElementwise(const FlatElementwiseParams &params) {
  FlatElementwise<kSignature, kConfig>::run(params);
}

} // namespace kiln
