//===- elementwise/FlatElementwise.cuh - a chain over a line of vectors ---===//
//
// The kernel is memory-bound, so two things count: enough loads in flight, and
// few instructions beside them. A thread issues the loads of all its items
// before it uses the first one. Where every matrix is packed and no link
// depends on row or column, the operands are lines of vectors; item i of a
// chunk is
//   chunk * threads * items + i * threads + thread,
// so that each access of a warp is one run of memory and the items lie at
// constant distances. Otherwise a thread's items lie below each other: one
// division finds their place, all threads have the same distance between items,
// and a vector from a row of values is loaded once for all items.
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Dependent.cuh"
#include "elementwise/ElementwiseKernel.cuh"
#include "elementwise/LineElementwise.cuh"
#include "elementwise/ShiftedElementwise.cuh"

namespace kiln {

template <ElementwiseSignature kSignature, FlatElementwiseConfig kConfig>
class FlatElementwise : ElementwiseKernel<kSignature, kConfig> {
  using Base = ElementwiseKernel<kSignature, kConfig>;
  using Base::kIn, Base::kOut, Base::kChain, Base::kLinks, Base::kVector,
      Base::kItems, Base::kThreads, Base::kInBytes, Base::kOutBytes,
      Base::kLoadHint, Base::kStoreHint, Base::kRuns;

  /// The place of a thread's first item: in the line, or in the matrix.
  struct Place {
    long long vector = 0;
    FlatPlace first;
  };

  using Item = ElementwiseItem<kSignature, kVector>;

public:
  static void run(const FlatElementwiseParams &params) {
    float scale =
        Base::forEachChunk(params, [&](long long chunk, float factor) {
          runChunk(params, chunk, factor);
        });
    if constexpr (!kRuns && kVector > 1)
      runTail(params.operands, params.vectors * kVector, scale);
  }

private:
  static void runChunk(const FlatElementwiseParams &params, long long chunk,
                       float scale) {
    Place place;
    if constexpr (kRuns) {
      long long run = chunk * kThreads + threadIdx.x;
      if (run >= params.runs)
        return;
      place.first = placeOf(params, run);
    } else
      place.vector = chunk * kConfig.vectorsPerChunk() + threadIdx.x;
    if (chunk < params.fullChunks)
      runItems<true>(params, place, scale);
    else
      runItems<false>(params, place, scale);
  }

  static bool isInside(const FlatElementwiseParams &params, const Place &place,
                       int item) {
    if constexpr (kRuns)
      return place.first.row + item * params.rowStep <
             static_cast<unsigned>(params.operands.rows);
    else
      return place.vector + item * kThreads < params.vectors;
  }

  /// Address of an item in a matrix. The compiler computes one address for all
  /// items, and their distances.
  template <DType kType>
  static const char *itemAt(const FlatElementwiseParams &params,
                            const Place &place, int item, const void *operand,
                            long long ld) {
    if constexpr (kSignature.contiguous)
      ld = params.operands.cols; // offsets that all operands share
    long long offset, distance;
    if constexpr (kRuns) {
      offset = place.first.row * ld +
               static_cast<long long>(place.first.column) * kVector;
      distance = params.rowStep * ld;
    } else {
      offset = place.vector * kVector;
      distance = kThreads * kVector;
    }
    return elementAt<kType>(elementAt<kType>(operand, offset), item * distance);
  }

  /// Loads the operands of link kLink and of later links for an item, except
  /// rows of values.
  template <int kLink>
  static void loadLinks(Item &item, const FlatElementwiseParams &params,
                        const Place &place, int index) {
    constexpr LinkShape kShape = shapeOf(kChain.ops[kLink]);
    const void *operand = params.operands.operands[kLink];
    if constexpr (kShape == LinkShape::Matrix)
      item.link[kLink] = loadVector<kInBytes, kLoadHint>(itemAt<kIn>(
          params, place, index, operand, params.operands.ldOperand));
    else if constexpr (kShape == LinkShape::Column)
      item.link[kLink].word[0] =
          loadVector<bytesOf(kIn)>(
              elementAt<kIn>(elementAt<kIn>(operand, place.first.row),
                             static_cast<long long>(index) * params.rowStep))
              .word[0];
    if constexpr (kLink + 1 < kLinks)
      loadLinks<kLink + 1>(item, params, place, index);
  }

  /// Loads the vectors from rows of values into all items.
  template <int kLink>
  static void loadRowLinks(Item (&items)[kItems],
                           const FlatElementwiseParams &params,
                           const Place &place) {
    if constexpr (shapeOf(kChain.ops[kLink]) == LinkShape::Row) {
      Words<kInBytes> row = loadVector<kInBytes>(
          elementAt<kIn>(params.operands.operands[kLink],
                         static_cast<long long>(place.first.column) * kVector));
#pragma unroll
      for (int i = 0; i < kItems; ++i)
        items[i].link[kLink] = row;
    }
    if constexpr (kLink + 1 < kLinks)
      loadRowLinks<kLink + 1>(items, params, place);
  }

  /// Processes the items of one thread: loads, then chain and stores. With
  /// kFull all of them exist; the first item of a run always does.
  template <bool kFull>
  static void runItems(const FlatElementwiseParams &params, const Place &place,
                       float scale) {
    const ElementwiseParams &operands = params.operands;
    Item items[kItems];
    if constexpr (kLinks > 0)
      loadRowLinks<0>(items, params, place);
#pragma unroll
    for (int i = 0; i < kItems; ++i)
      if (kFull || isInside(params, place, i)) {
        items[i].x = loadVector<kInBytes, kLoadHint>(
            itemAt<kIn>(params, place, i, operands.x, operands.ldx));
        if constexpr (kLinks > 0)
          loadLinks<0>(items[i], params, place, i);
      }
    // The condition is never true. The compiler moves no instruction across a
    // branch: without one it starts on the first item, which waits, before it
    // has issued the last loads.
    if (kFull && operands.y == nullptr)
      return;
#pragma unroll
    for (int i = 0; i < kItems; ++i)
      if (kFull || isInside(params, place, i))
        storeVector<kOutBytes, kStoreHint>(
            const_cast<char *>(
                itemAt<kOut>(params, place, i, operands.y, operands.ldy)),
            items[i].compute(scale));
  }

  /// The elements behind the last whole vector, which the first block
  /// processes.
  static void runTail(const ElementwiseParams &operands, long long begin,
                      float scale) {
    constexpr FlatElementwiseConfig kScalar{.blockThreads = kThreads,
                                            .vector = 1,
                                            .items = 1,
                                            .hint = kConfig.hint};
    Place place;
    place.vector = begin + threadIdx.x;
    if (blockIdx.x != 0 || place.vector >= operands.rows * operands.cols)
      return;
    FlatElementwiseParams params;
    params.operands = operands;
    FlatElementwise<kSignature, kScalar>::template runItems<true>(
        params, {place.vector}, scale);
  }

  template <ElementwiseSignature, FlatElementwiseConfig>
  friend class FlatElementwise;
};

/// Computes y = chain(x) on a one-dimensional grid of kConfig.blocks blocks.
/// Every matrix's pointer, and its row length in bytes unless all are packed,
/// is a multiple of accessBytes of a vector; where kSignature needs positions,
/// rows have whole vectors.
template <ElementwiseSignature kSignature, FlatElementwiseConfig kConfig>
void flatElementwise(const FlatElementwiseParams &params) {
  allowSuccessor();
  awaitPredecessor();
  if constexpr (kConfig.start == FlatElementwiseConfig::kAligned)
    FlatElementwise<kSignature, kConfig>::run(params);
  else if constexpr (kConfig.start == FlatElementwiseConfig::kLine)
    LineElementwise<kSignature, kConfig>::run(params);
  else
    ShiftedElementwise<kSignature, kConfig>::run(params);
}

} // namespace kiln
