//===- elementwise/ShiftedElementwise.cuh - rows that begin anywhere ------===//
//
// Rows that begin between two multiples of 16 bytes are cut at these multiples:
// a row is a head of less than a vector, whole vectors, a tail of less than
// one. What is cut is one matrix, y or the narrower one; if the others do not
// lie alike, their vectors are loaded by the two aligned ones that cover them.
// All stores of whole vectors are aligned.
//
// A thread's items are as many rows apart as it takes until misalignments come
// again. So they are misaligned alike: one thread has the heads of its rows,
// another the tails, and most neither. What links read of a row of values is
// the same vector for all items. Heads and tails are loaded as whole vectors
// too, beyond their rows but not beyond the operands, and stored by elements.
//
// Where the matrices are one line, it is one such row.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/ShiftedVector.cuh"
#include "elementwise/ElementwiseKernel.cuh"

namespace kiln {

template <ElementwiseSignature kSignature, FlatElementwiseConfig kConfig>
class ShiftedElementwise : ElementwiseKernel<kSignature, kConfig> {
  using Base = ElementwiseKernel<kSignature, kConfig>;
  using Base::kIn, Base::kOut, Base::kChain, Base::kLinks, Base::kVector,
      Base::kItems, Base::kThreads, Base::kInElement, Base::kOutElement,
      Base::kInBytes, Base::kOutBytes, Base::kLoadHint, Base::kStoreHint,
      Base::kRuns;
  using Item = ElementwiseItem<kSignature, kVector>;
  /// A vector of a matrix that is read, in flight.
  struct Loaded {
    using Vector = CoveringVectors<kInBytes, kInElement>;
    Vector vector;
    int past;

    Words<kInBytes> get() const { return vector.get(past); }
  };

  /// All that is loaded for one item. What links read of a row of values is in
  /// the first item alone.
  struct Loads {
    Loaded x;
    Loaded matrix[kLinks > 0 ? kLinks : 1];
    Words<kInElement> element[kLinks > 0 ? kLinks : 1]; ///< of a column
  };
  using RowWords = Words<kInBytes>[kLinks > 0 ? kLinks : 1];

  /// Where the first item of a thread lies. The line is a row, number 0.
  struct Place {
    unsigned row = 0;
    long long column = 0; ///< may be negative: of a head
  };
  /// The elements of a vector that are in its row.
  struct Part {
    int begin, end;
    bool isEmpty() const { return begin >= end; }
    bool isWhole() const { return begin == 0 && end == kVector; }
  };

public:
  static void run(const FlatElementwiseParams &params) {
    Base::forEachChunk(params, [&](long long chunk, float factor) {
      runChunk(params, chunk, factor);
    });
  }

private:
  static void runChunk(const FlatElementwiseParams &params, long long chunk,
                       float scale) {
    Place place;
    long long vector;
    if constexpr (kRuns) {
      long long run = chunk * kThreads + threadIdx.x;
      if (run >= params.runs)
        return;
      FlatPlace at = shiftedPlaceOf(params, run, kItems);
      place.row = at.row;
      vector = at.column;
    } else
      vector = chunk * kConfig.vectorsPerChunk() + threadIdx.x;
    place.column = vector * kVector - headOf(params.operands, place.row);
    if (chunk < params.fullChunks && areInside(params, place))
      runItems<true>(params, place, scale);
    else
      runItems<false>(params, place, scale);
  }

  /// Elements between the aligned vector in which a row of y begins and the
  /// row.
  static int headOf(const ElementwiseParams &operands, unsigned row) {
    return bytesPast(elementAt<kOut>(operands.y, row * operands.ldy),
                     accessBytes(kOutBytes)) /
           kOutElement;
  }

  static long long columnsOf(const ElementwiseParams &operands) {
    return kRuns ? operands.cols : operands.rows * operands.cols;
  }

  /// What item \p item has of its vector.
  static Part partOf(const FlatElementwiseParams &params, const Place &place,
                     int item) {
    long long column = place.column;
    if constexpr (!kRuns)
      column += static_cast<long long>(item) * kThreads * kVector;
    long long left = columnsOf(params.operands) - column;
    Part part;
    part.begin = column < 0 ? static_cast<int>(-column) : 0;
    part.end = left < kVector ? static_cast<int>(left) : kVector;
    if (kRuns && place.row + item * params.rowStep >=
                     static_cast<unsigned>(params.operands.rows))
      part.end = 0;
    return part;
  }

  /// Address of an item in a matrix. The compiler finds one for all items and
  /// their distances.
  template <DType kType>
  static const char *itemAt(const FlatElementwiseParams &params,
                            const Place &place, int item, const void *operand,
                            long long ld) {
    long long offset = place.column, distance = kThreads * kVector;
    if constexpr (kRuns) {
      if constexpr (kSignature.contiguous)
        ld = params.operands.cols; // offsets that all operands share
      offset += place.row * ld;
      distance = params.rowStep * ld;
    }
    return elementAt<kType>(elementAt<kType>(operand, offset), item * distance);
  }

  /// The end of a matrix that is read.
  static const char *endOf(const ElementwiseParams &operands,
                           const void *matrix, long long ld) {
    if constexpr (kSignature.contiguous)
      ld = operands.cols;
    return elementAt<kIn>(matrix, (operands.rows - 1) * ld + operands.cols);
  }

  //===--------------------------------------------------------------------===//
  // What may be loaded
  //===--------------------------------------------------------------------===//

  /// Whether the matrix has all vectors that cover those of all items.
  static bool isMatrixInside(const FlatElementwiseParams &params,
                             const Place &place, const void *matrix,
                             long long ld) {
    return Loaded::Vector::isInside(
        itemAt<kIn>(params, place, 0, matrix, ld),
        itemAt<kIn>(params, place, kItems - 1, matrix, ld),
        static_cast<const char *>(matrix), endOf(params.operands, matrix, ld));
  }

  /// Whether all matrices have what is loaded for the items, which exist.
  static bool areInside(const FlatElementwiseParams &params,
                        const Place &place) {
    const ElementwiseParams &operands = params.operands;
    bool areAll = isMatrixInside(params, place, operands.x, operands.ldx);
#pragma unroll
    for (int link = 0; link < kLinks; ++link)
      if (shapeOf(kChain.ops[link]) == LinkShape::Matrix)
        areAll =
            areAll && isMatrixInside(params, place, operands.operands[link],
                                     operands.ldOperand);
    return areAll;
  }

  //===--------------------------------------------------------------------===//
  // Loads
  //===--------------------------------------------------------------------===//

  template <bool kFull>
  static void loadMatrix(Loaded &loaded, const FlatElementwiseParams &params,
                         const Place &place, int item, const Part &part,
                         const void *matrix, long long ld) {
    const char *from = itemAt<kIn>(params, place, item, matrix, ld);
    if (kFull ||
        Loaded::Vector::isInside(from, from, static_cast<const char *>(matrix),
                                 endOf(params.operands, matrix, ld))) {
      // Of all items alike, which the compiler cannot know.
      loaded.past =
          bytesPast(itemAt<kIn>(params, place, 0, matrix, ld), kInBytes);
      loaded.vector.template load<kLoadHint>(from, loaded.past);
    } else {
      loaded.past = 0;
      loaded.vector.set(
          loadElements<kInBytes, kInElement>(from, part.begin, part.end));
    }
  }

  /// Loads what link kLink and those behind it read of an item, except rows of
  /// values.
  template <bool kFull, int kLink>
  static void loadLinks(Loads &loads, const FlatElementwiseParams &params,
                        const Place &place, int item, const Part &part) {
    constexpr LinkShape kShape = shapeOf(kChain.ops[kLink]);
    const void *operand = params.operands.operands[kLink];
    if constexpr (kShape == LinkShape::Matrix)
      loadMatrix<kFull>(loads.matrix[kLink], params, place, item, part, operand,
                        params.operands.ldOperand);
    else if constexpr (kShape == LinkShape::Column)
      loads.element[kLink] = loadVector<kInElement>(
          elementAt<kIn>(elementAt<kIn>(operand, place.row),
                         static_cast<long long>(item) * params.rowStep));
    if constexpr (kLink + 1 < kLinks)
      loadLinks<kFull, kLink + 1>(loads, params, place, item, part);
  }

  /// Loads the vectors of rows of values.
  template <int kLink>
  static void loadRows(RowWords &rows, const FlatElementwiseParams &params,
                       const Place &place, const Part &part) {
    if constexpr (shapeOf(kChain.ops[kLink]) == LinkShape::Row) {
      const void *row = params.operands.operands[kLink];
      const char *from = elementAt<kIn>(row, place.column);
      if (part.isWhole())
        rows[kLink] = loadShiftedWithin<kInBytes, kInElement>(
            from, static_cast<const char *>(row),
            elementAt<kIn>(row, params.operands.cols));
      else
        rows[kLink] =
            loadElements<kInBytes, kInElement>(from, part.begin, part.end);
    }
    if constexpr (kLink + 1 < kLinks)
      loadRows<kLink + 1>(rows, params, place, part);
  }

  //===--------------------------------------------------------------------===//
  // Items
  //===--------------------------------------------------------------------===//

  static Words<kOutBytes> compute(const Loads &loads, const RowWords &rows,
                                  float scale) {
    Item item;
    item.x = loads.x.get();
#pragma unroll
    for (int link = 0; link < kLinks; ++link) {
      LinkShape shape = shapeOf(kChain.ops[link]);
      if (shape == LinkShape::Matrix)
        item.link[link] = loads.matrix[link].get();
      else if (shape == LinkShape::Row)
        item.link[link] = rows[link];
      else if (shape == LinkShape::Column)
        item.link[link].word[0] = loads.element[link].word[0];
    }
    return item.compute(scale);
  }

  /// The items of one thread: loads, then chain and stores. When kFull all of
  /// them exist, and areInside().
  template <bool kFull>
  static void runItems(const FlatElementwiseParams &params, const Place &place,
                       float scale) {
    const ElementwiseParams &operands = params.operands;
    Loads loads[kItems];
    RowWords rows;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      Part part = partOf(params, place, i);
      if (!kFull && part.isEmpty())
        continue;
      loadMatrix<kFull>(loads[i].x, params, place, i, part, operands.x,
                        operands.ldx);
      if constexpr (kLinks > 0)
        loadLinks<kFull, 0>(loads[i], params, place, i, part);
    }
    // From the caches: they come sooner than what comes from DRAM.
    if constexpr (kLinks > 0)
      if (Part part = partOf(params, place, 0); !part.isEmpty())
        loadRows<0>(rows, params, place, part);
    // Never true; see FlatElementwise::runItems.
    if (kFull && operands.y == nullptr)
      return;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      Part part = partOf(params, place, i);
      if (!kFull && part.isEmpty())
        continue;
      char *to = const_cast<char *>(
          itemAt<kOut>(params, place, i, operands.y, operands.ldy));
      Words<kOutBytes> value = compute(loads[i], rows, scale);
      if (part.isWhole())
        storeVector<kOutBytes, kStoreHint>(to, value);
      else
        storeElements<kOutBytes, kOutElement, kStoreHint>(to, value, part.begin,
                                                          part.end);
    }
  }
};

} // namespace kiln
