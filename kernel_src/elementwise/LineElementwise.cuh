//===- elementwise/LineElementwise.cuh - chains of packed rows of any length //
//
// Packed matrices are one line of memory, whatever their columns: all accesses
// to them are aligned vectors, and no row has ends. What links read of rows and
// columns of values depends on where a vector lies. It is in one row of the
// matrix, or crosses into the next: rows have at least a vector's elements.
//
// A row of values is read by the aligned vectors that cover what is asked for;
// where a vector crosses, by elements. Both come from the caches.
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

  /// Where a vector's first element lies.
  struct Place {
    unsigned row, column;
    bool isInside;
  };

public:
  static void run(const FlatElementwiseParams &params) {
    float scale =
        Base::forEachChunk(params, [&](long long chunk, float factor) {
          long long vector = chunk * kConfig.vectorsPerChunk() + threadIdx.x;
          if (chunk < params.fullChunks)
            runItems<true>(params, vector, factor);
          else
            runItems<false>(params, vector, factor);
        });
    if constexpr (kVector > 1)
      runTail(params, scale);
  }

private:
  /// Places of a thread's items; the same distance is between all of them.
  template <bool kFull>
  static void findPlaces(Place (&places)[kItems],
                         const FlatElementwiseParams &params,
                         long long vector) {
    auto columns = static_cast<unsigned>(params.operands.cols);
    auto element = static_cast<unsigned long long>(vector) * kVector;
    places[0].row = static_cast<unsigned>(element / columns);
    places[0].column = static_cast<unsigned>(element) - places[0].row * columns;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      places[i].isInside = kFull || vector + i * kThreads < params.vectors;
      if (i == 0)
        continue;
      unsigned column = places[i - 1].column + params.columnStep;
      bool isNext = column >= columns;
      places[i].column = isNext ? column - columns : column;
      places[i].row = places[i - 1].row + params.rowStep + isNext;
    }
  }

  /// Address of an item in a packed matrix.
  template <DType kType>
  static const char *itemAt(const void *operand, long long vector, int item) {
    return elementAt<kType>(elementAt<kType>(operand, vector * kVector),
                            item * kThreads * kVector);
  }

  /// Loads what link kLink and those behind it read of the vector that begins
  /// at \p matrix.
  template <int kLink>
  static void loadMatrices(Item &item, const ElementwiseParams &operands,
                           long long vector, int index) {
    if constexpr (shapeOf(kChain.ops[kLink]) == LinkShape::Matrix)
      item.link[kLink] = loadVector<kInBytes, kLoadHint>(
          itemAt<kIn>(operands.operands[kLink], vector, index));
    if constexpr (kLink + 1 < kLinks)
      loadMatrices<kLink + 1>(item, operands, vector, index);
  }

  /// Loads what they read of rows and columns of values.
  template <int kLink>
  static void loadValues(Item &item, const ElementwiseParams &operands,
                         const Place &place) {
    constexpr LinkShape kShape = shapeOf(kChain.ops[kLink]);
    const void *values = operands.operands[kLink];
    bool crosses = item.left < kVector;
    if constexpr (kShape == LinkShape::Column) {
      const char *from = elementAt<kIn>(values, place.row);
      item.link[kLink].word[0] = loadVector<kInElement>(from).word[0];
      item.next[kLink] =
          loadVector<kInElement>(from + crosses * kInElement).word[0];
    } else if constexpr (kShape == LinkShape::Row) {
      const char *from = elementAt<kIn>(values, place.column);
      const char *begin = static_cast<const char *>(values);
      item.link[kLink] =
          crosses
              ? loadAcross(from, begin, item.left)
              : loadCovered(from, begin, elementAt<kIn>(values, operands.cols));
    }
    if constexpr (kLink + 1 < kLinks)
      loadValues<kLink + 1>(item, operands, place);
  }

  /// A vector of the row of values that has the bytes [begin, end).
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

  /// The last \p left elements of a row of values, and then its first.
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

  /// The items of one thread: loads, then chain and stores. All of them exist
  /// when kFull.
  template <bool kFull>
  static void runItems(const FlatElementwiseParams &params, long long vector,
                       float scale) {
    const ElementwiseParams &operands = params.operands;
    Place places[kItems];
    findPlaces<kFull>(places, params, vector);
    Item items[kItems];
#pragma unroll
    for (int i = 0; i < kItems; ++i)
      if (places[i].isInside) {
        items[i].x =
            loadVector<kInBytes, kLoadHint>(itemAt<kIn>(operands.x, vector, i));
        loadMatrices<0>(items[i], operands, vector, i);
      }
      // They come sooner than what comes from DRAM.
#pragma unroll
    for (int i = 0; i < kItems; ++i)
      if (places[i].isInside) {
        unsigned left = static_cast<unsigned>(operands.cols) - places[i].column;
        items[i].left = left < kVector ? static_cast<int>(left) : kVector;
        loadValues<0>(items[i], operands, places[i]);
      }
#pragma unroll
    for (int i = 0; i < kItems; ++i)
      if (places[i].isInside)
        storeVector<kOutBytes, kStoreHint>(
            const_cast<char *>(itemAt<kOut>(operands.y, vector, i)),
            items[i].compute(scale));
  }

  /// The elements behind the last whole vector, by the first block.
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
          params, element, scale);
  }

  template <ElementwiseSignature, FlatElementwiseConfig>
  friend class LineElementwise;
};

} // namespace kiln
