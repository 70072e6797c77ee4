//===- elementwise/LineElementwise.cuh - chains of packed rows of any length //
//
// Packed matrices are one line of memory, whatever their columns: all accesses
// to them are aligned vectors, and rows have no ends of their own. The operands
// of links from rows and columns of values depend on the place of a vector. It
// is in one row of the matrix, or crosses into the next: rows have at least a
// vector's elements.
//
// As many rows as a vector has elements are a whole number of vectors: one for
// each column. So a thread's items, which are that many vectors apart, lie
// alike in their rows: one place is computed for all of them, and a vector from
// a row of values is read and shifted once. It is read by the aligned vectors
// that cover it or, if it crosses into the next row, by elements.
//
// Rejected: items of neighbouring vectors, each of which would compute its
// place and its part of the row of values. With bias and gelu that took as long
// as the chain.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/ShiftedVector.cuh"
#include "elementwise/ElementwiseKernel.cuh"

namespace kiln {

template <ElementwiseSignature kSignature, FlatElementwiseConfig kConfig>
class LineElementwise : ElementwiseKernel<kSignature, kConfig> {
  using Base = ElementwiseKernel<kSignature, kConfig>;
  using Base::kIn, Base::kOut, Base::kChain, Base::kLinks, Base::kVector,
      Base::kItems, Base::kThreads, Base::kInElement, Base::kInBytes,
      Base::kOutBytes, Base::kLoadHint, Base::kStoreHint;
  using Item = ElementwiseItem<kSignature, kVector, /*kCrosses=*/true>;
  using RowWords = Words<kInBytes>[kLinks > 0 ? kLinks : 1];

public:
  static void run(const FlatElementwiseParams &params) {
    float scale =
        Base::forEachChunk(params, [&](long long chunk, float factor) {
          LinePlace place = linePlaceOf(params, chunk * kThreads + threadIdx.x,
                                        kVector, kItems);
          if (chunk < params.fullChunks)
            runItems<true>(params, place, factor);
          else
            runItems<false>(params, place, factor);
        });
    if constexpr (kVector > 1)
      runTail(params, scale);
  }

private:
  static bool isInside(const FlatElementwiseParams &params,
                       const LinePlace &place, int item) {
    return place.vector + item * params.operands.cols < params.vectors;
  }

  /// Address of an item in a packed matrix.
  template <DType kType>
  static const char *itemAt(const FlatElementwiseParams &params,
                            const LinePlace &place, int item,
                            const void *operand) {
    return elementAt<kType>(elementAt<kType>(operand, place.vector * kVector),
                            item * (params.operands.cols * kVector));
  }

  /// Loads the operands of link kLink and of later links for an item, except
  /// rows of values.
  template <int kLink>
  static void loadLinks(Item &item, const FlatElementwiseParams &params,
                        const LinePlace &place, int index) {
    constexpr LinkShape kShape = shapeOf(kChain.ops[kLink]);
    const void *operand = params.operands.operands[kLink];
    if constexpr (kShape == LinkShape::Matrix)
      item.link[kLink] = loadVector<kInBytes, kLoadHint>(
          itemAt<kIn>(params, place, index, operand));
    else if constexpr (kShape == LinkShape::Column) {
      const char *from =
          elementAt<kIn>(elementAt<kIn>(operand, place.row), index * kVector);
      const bool crosses = item.left < kVector;
      item.link[kLink].word[0] = loadVector<kInElement>(from).word[0];
      item.next[kLink] =
          loadVector<kInElement>(from + crosses * kInElement).word[0];
    }
    if constexpr (kLink + 1 < kLinks)
      loadLinks<kLink + 1>(item, params, place, index);
  }

  /// Loads the vectors from rows of values, of which \p left elements are in
  /// the place's row.
  template <int kLink>
  static void loadRows(RowWords &rows, const ElementwiseParams &operands,
                       const LinePlace &place, int left) {
    if constexpr (shapeOf(kChain.ops[kLink]) == LinkShape::Row) {
      const char *begin = static_cast<const char *>(operands.operands[kLink]);
      const char *from = elementAt<kIn>(begin, place.column);
      rows[kLink] =
          left < kVector
              ? loadAcross(from, begin, left)
              : loadCovered(from, begin, elementAt<kIn>(begin, operands.cols));
    }
    if constexpr (kLink + 1 < kLinks)
      loadRows<kLink + 1>(rows, operands, place, left);
  }

  /// A vector at \p from in a row of values with the bytes [begin, end).
  static Words<kInBytes> loadCovered(const char *from, const char *begin,
                                     const char *end) {
    constexpr int kPart = kInBytes < 16 ? kInBytes : 16;
    Words<kInBytes> all;
#pragma unroll
    for (int i = 0; i < kInBytes / kPart; ++i) {
      Words<kPart> part =
          loadShiftedWithin<kPart, kInElement>(from + kPart * i, begin, end);
#pragma unroll
      for (int w = 0; w < wordsOf(kPart); ++w)
        all.word[wordsOf(kPart) * i + w] = part.word[w];
    }
    return all;
  }

  /// The last \p left elements of a row of values, followed by its first ones.
  static Words<kInBytes> loadAcross(const char *from, const char *begin,
                                    int left) {
    Words<kInBytes> words = {};
    begin -= left * kInElement;
#pragma unroll
    for (int e = 0; e < kVector; ++e)
      words.word[e * kInElement / 4] |=
          loadVector<kInElement>((e < left ? from : begin) + e * kInElement)
              .word[0]
          << e * kInElement % 4 * 8;
    return words;
  }

  static constexpr int wordsOf(int bytes) { return bytes < 4 ? 1 : bytes / 4; }

  /// Processes the items of one thread: loads, then chain and stores. With
  /// kFull all of them exist.
  template <bool kFull>
  static void runItems(const FlatElementwiseParams &params,
                       const LinePlace &place, float scale) {
    const ElementwiseParams &operands = params.operands;
    if (!kFull && !isInside(params, place, 0))
      return;
    const unsigned columnsLeft =
        static_cast<unsigned>(operands.cols) - place.column;
    const int left =
        columnsLeft < kVector ? static_cast<int>(columnsLeft) : kVector;
    Item items[kItems];
#pragma unroll
    for (int i = 0; i < kItems; ++i)
      if (kFull || isInside(params, place, i)) {
        items[i].left = left;
        items[i].x = loadVector<kInBytes, kLoadHint>(
            itemAt<kIn>(params, place, i, operands.x));
        loadLinks<0>(items[i], params, place, i);
      }
    // Rows of values come from the caches, sooner than operands from DRAM.
    RowWords rows;
    loadRows<0>(rows, operands, place, left);
#pragma unroll
    for (int i = 0; i < kItems; ++i)
      if (kFull || isInside(params, place, i)) {
#pragma unroll
        for (int link = 0; link < kLinks; ++link)
          if (shapeOf(kChain.ops[link]) == LinkShape::Row)
            items[i].link[link] = rows[link];
        storeVector<kOutBytes, kStoreHint>(
            const_cast<char *>(itemAt<kOut>(params, place, i, operands.y)),
            items[i].compute(scale));
      }
  }

  /// The elements behind the last whole vector, which the first block
  /// processes.
  static void runTail(const FlatElementwiseParams &params, float scale) {
    constexpr FlatElementwiseConfig kScalar{.blockThreads = kThreads,
                                            .vector = 1,
                                            .items = 1,
                                            .hint = kConfig.hint,
                                            .start = kConfig.start};
    long long element = params.vectors * kVector + threadIdx.x;
    if (blockIdx.x == 0 &&
        element < params.operands.rows * params.operands.cols)
      LineElementwise<kSignature, kScalar>::template runItems<true>(
          params, linePlaceOf(params, element, 1, 1), scale);
  }

  template <ElementwiseSignature, FlatElementwiseConfig>
  friend class LineElementwise;
};

} // namespace kiln
