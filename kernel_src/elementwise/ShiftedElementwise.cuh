//===- elementwise/ShiftedElementwise.cuh - rows that begin anywhere ------===//
//
// Rows that begin between two multiples of 16 bytes are cut at these multiples:
// a row is a head of less than a vector, whole vectors, and a tail of less than
// one. The cut follows one matrix: y, or the narrower one. If the others are
// aligned differently, their vectors are loaded by the two aligned vectors that
// cover them. All stores of whole vectors are aligned.
//
// A thread's items are one period of misalignments apart, in rows. So they are
// misaligned alike: one thread has the heads of its rows, another the tails,
// and most have neither. All items share one vector from a row of values. Heads
// and tails are loaded as whole vectors too, beyond their rows but not beyond
// the operands, and stored by elements.
//
// Matrices that are one line count as one such row.
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
  /// A vector of an input matrix, in flight.
  struct Loaded {
    using Vector = CoveringVectors<kInBytes, kInElement>;
    Vector vector;
    int past;

    Words<kInBytes> get() const { return vector.get(past); }
  };

  /// All loads for one item. Only the first item has the vectors from rows of
  /// values.
  struct Loads {
    Loaded x;
    Loaded matrix[kLinks > 0 ? kLinks : 1];
    Words<kInElement> element[kLinks > 0 ? kLinks : 1]; ///< of columns
  };
  using RowWords = Words<kInBytes>[kLinks > 0 ? kLinks : 1];

  /// The place of a thread's first item. A line is one row, number 0.
  struct Place {
    unsigned row = 0;
    long long column = 0; ///< negative for a head
  };
  /// The elements of a vector that belong to its row.
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

  /// Elements between the start of a row of y and the aligned vector before it.
  static int headOf(const ElementwiseParams &operands, unsigned row) {
    return bytesPast(elementAt<kOut>(operands.y, row * operands.ldy),
                     accessBytes(kOutBytes)) /
           kOutElement;
  }

  static long long columnsOf(const ElementwiseParams &operands) {
    return kRuns ? operands.cols : operands.rows * operands.cols;
  }

  /// The elements of its vector that item \p item has.
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

  /// Address of an item in a matrix. The compiler computes one address for all
  /// items, and their distances.
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

  /// The end of an input matrix.
  static const char *endOf(const ElementwiseParams &operands,
                           const void *matrix, long long ld) {
    if constexpr (kSignature.contiguous)
      ld = operands.cols;
    return elementAt<kIn>(matrix, (operands.rows - 1) * ld + operands.cols);
  }

  //===--------------------------------------------------------------------===//
  // Bounds of loads
  //===--------------------------------------------------------------------===//

  /// Whether the matrix includes all vectors that cover those of all items.
  static bool isMatrixInside(const FlatElementwiseParams &params,
                             const Place &place, const void *matrix,
                             long long ld) {
    return Loaded::Vector::isInside(
        itemAt<kIn>(params, place, 0, matrix, ld),
        itemAt<kIn>(params, place, kItems - 1, matrix, ld),
        static_cast<const char *>(matrix), endOf(params.operands, matrix, ld));
  }

  /// Whether all matrices include the loads for the items, which all exist.
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
      // The value is the same for all items, which the compiler cannot know.
      loaded.past =
          bytesPast(itemAt<kIn>(params, place, 0, matrix, ld), kInBytes);
      loaded.vector.template load<kLoadHint>(from, loaded.past);
    } else {
      loaded.past = 0;
      loaded.vector.set(
          loadElements<kInBytes, kInElement>(from, part.begin, part.end));
    }
  }

  /// Loads the operands of link kLink and of later links for an item, except
  /// rows of values.
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

  /// Loads the vectors from rows of values.
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

  /// Processes the items of one thread: loads, then chain and stores. With
  /// kFull all of them exist, and areInside() holds.
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
    // Rows of values come from the caches, sooner than operands from DRAM.
    if constexpr (kLinks > 0)
      if (Part part = partOf(params, place, 0); !part.isEmpty())
        loadRows<0>(rows, params, place, part);
    // The condition is never true; see FlatElementwise::runItems.
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
