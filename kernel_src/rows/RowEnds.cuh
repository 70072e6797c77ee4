//===- rows/RowEnds.cuh - the vectors of a row, and its ends --------------===//
//
// A row that begins anywhere consists of a head, whole vectors with aligned
// accesses, and a tail. Kernels over rows move the vectors. The elements of
// head and tail, the ends, are moved singly: one for each lane where a row has
// 32 lanes, all of them in flight together with the vectors.
//
// Head and tail have less than a vector each, or up to one vector more:
// operands with another alignment than the row are read by covering vectors,
// which have to lie within the operand.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/ShiftedVector.cuh"
#include "rows/RowMath.cuh"

namespace kiln {

/// The parts of a row, in elements and vectors of kVector elements.
template <int kVector> struct RowBody {
  int head = 0, tail = 0;
  long long vectors = 0;

  /// The body of a row at \p row with \p cols elements of kBytes: accesses of
  /// kAccess bytes are aligned in its vectors.
  template <int kBytes, int kAccess>
  static RowBody of(const char *row, long long cols) {
    int past = bytesPast(row, kAccess) / kBytes;
    RowBody body;
    body.setHead(past == 0 ? 0 : kAccess / kBytes - past, cols);
    return body;
  }
  /// Leaves room for the covering vectors of operands whose first columns are
  /// aligned.
  void coverAligned() {
    if (head + tail < kVector)
      giveToTail();
  }
  /// Leaves room for the covering vectors of operands at any alignment.
  void coverAny(long long cols) {
    if (head < kVector - 1)
      setHead(head + kVector, cols);
    if (tail < kVector)
      giveToTail();
  }
  /// The column of the \p end-th of head + tail elements.
  long long columnOf(int end) const {
    return end < head ? end : end + vectors * kVector;
  }

private:
  void setHead(int elements, long long cols) {
    head = static_cast<int>(min(static_cast<long long>(elements), cols));
    vectors = (cols - head) / kVector;
    tail = static_cast<int>(cols - head - vectors * kVector);
  }
  void giveToTail() {
    if (vectors > 0) {
      --vectors;
      tail += kVector;
    }
  }
};

/// The parts of row \p row of params' matrices. With RowStart::Alike the
/// vectors of x are aligned, with RowStart::Any those of y.
template <RowSignature kSignature, RowStart kStart, int kVector>
RowBody<kVector> bodyOf(const RowParams &params, long long row) {
  constexpr int kIn = bytesOf(kSignature.in), kOut = bytesOf(kSignature.out);
  if constexpr (kStart == RowStart::Aligned)
    return {0, 0, params.cols / kVector};
  else if constexpr (kStart == RowStart::Alike) {
    auto body = RowBody<kVector>::template of<kIn, kVector * kIn>(
        static_cast<const char *>(params.x) + row * params.ldx * kIn,
        params.cols);
    if constexpr (kSignature.sharedRows() > 0)
      body.coverAligned();
    return body;
  } else {
    auto body =
        RowBody<kVector>::template of<kOut, accessBytes(kVector * kOut)>(
            static_cast<const char *>(params.y) + row * params.ldy * kOut,
            params.cols);
    body.coverAny(params.cols);
    return body;
  }
}

/// A row of one matrix of x's type, whose vectors may have another alignment
/// than those of the row's body.
template <RowSignature kSignature, int kVector> class MatrixRow {
  static constexpr int kInBytes = bytesOf(kSignature.in);
  static constexpr int kBytes = kVector * kInBytes;

public:
  MatrixRow() = default;
  MatrixRow(const void *base, long long ld, const RowBody<kVector> &body,
            long long row)
      : begin(static_cast<const char *>(base) + row * ld * kInBytes),
        past(bytesPast(begin + body.head * kInBytes, kBytes)) {}

  template <CacheHint kHint = CacheHint::Plain, class Loaded>
  void load(Loaded &vector, long long column) const {
    vector.template load<kHint>(begin + column * kInBytes, past);
  }
  template <class Loaded> Words<kBytes> get(const Loaded &vector) const {
    return vector.get(past);
  }

private:
  const char *begin;
  int past;
};

/// The ends of one row, shared by kLanes threads.
template <RowSignature kSignature, RowStart kStart, int kVector, int kLanes>
class RowEnds {
  static constexpr int kInBytes = bytesOf(kSignature.in);
  static constexpr int kOutBytes = bytesOf(kSignature.out);
  /// The most ends of a row: head and tail have at most kVector - 1 elements,
  /// and one vector more where covering vectors need room: in the tail if the
  /// ends were less than a vector, or at both sides.
  static constexpr int kMost =
      kStart == RowStart::Any ? 4 * kVector - 3 : 2 * kVector - 1;
  static constexpr int kCount = (kMost + kLanes - 1) / kLanes;
  using Math = RowMath<kSignature>;
  using Stats = typename Math::Stats;
  using Vectors = RowVectors<kSignature, 1>;

public:
  /// Lane \p lane's ends of row \p row; no ends unless \p takes.
  RowEnds(const RowParams &params, const RowBody<kVector> &body, long long row,
          int lane, bool takes)
      : params(params), body(body), row(row), lane(lane),
        count(takes ? body.head + body.tail : 0) {}

  /// Loads the elements and their operands.
  void load() {
    forEach([&](int i, long long column) {
      x[i] = loadVector<kInBytes>(at(params.x, params.ldx, column));
      if constexpr (kSignature.residual)
        residual[i] = loadVector<kInBytes>(
            at(params.residual, params.ldResidual, column));
#pragma unroll
      for (int m = 0; m < Math::kMatrices; ++m) {
        const auto from = Math::matrixOf(params, m);
        matrix[m][i] = loadVector<kInBytes>(at(from.base, from.ld, column));
      }
      shared[i] = Vectors::load(params, column);
    });
  }

  /// Prepares the elements, stores their sums with a residual, and merges their
  /// statistics into \p stats.
  void addTo(Stats &stats) {
    if (lane >= count)
      return;
    auto collector = Math::Collector::empty();
    const float factor = Math::factorOf(params);
    forEach([&](int i, long long column) {
      float element[1];
      unpackFloats<kSignature.in>(element, x[i]);
      if constexpr (kSignature.residual)
        addResidual(element, i, column);
      typename Vectors::Values of = shared[i].unpack();
      float beside[Math::kMatrixRoom][1];
#pragma unroll
      for (int m = 0; m < Math::kMatrices; ++m)
        unpackFloats<kSignature.in>(beside[m], matrix[m][i]);
      Math::prepare(element, beside, of, factor);
      value[i] = element[0];
      Math::collect(collector, i, element, of.weight);
    });
    stats.merge(collector.template stats<1>());
  }

  /// Calls \p visit with (column, result) for each of the elements.
  template <class Visit>
  void forEachResult(const typename Math::Final &final, Visit &&visit) {
    forEach([&](int i, long long column) {
      typename Vectors::Values of = shared[i].unpack();
      float result[1] = {value[i]};
      Math::apply(result, final, of.weight, of.bias);
      visit(column, result);
    });
  }

  /// Stores the results, times \p inverse where they are quantised.
  void store(const typename Math::Final &final, float inverse) {
    char *y = static_cast<char *>(params.y) + row * params.ldy * kOutBytes;
    forEachResult(final, [&](long long column, float(&result)[1]) {
      if constexpr (kSignature.quantizes())
        result[0] *= inverse;
      storeVector<kOutBytes>(y + column * kOutBytes,
                             packFloats<kSignature.out>(result));
    });
  }

private:
  /// Calls \p visit with the index and the column of each of this lane's
  /// elements.
  template <class Visit> void forEach(Visit &&visit) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      if (lane + i * kLanes < count)
        visit(i, body.columnOf(lane + i * kLanes));
  }

  const char *at(const void *base, long long ld, long long column) const {
    return static_cast<const char *>(base) + (row * ld + column) * kInBytes;
  }

  /// x becomes x + residual as it is stored.
  void addResidual(float (&element)[1], int i, long long column) const {
    float added[1];
    unpackFloats<kSignature.in>(added, residual[i]);
    element[0] += added[0];
    auto sum = packFloats<kSignature.in>(element);
    storeVector<kInBytes>(static_cast<char *>(params.residualOut) +
                              (row * params.ldResidualOut + column) * kInBytes,
                          sum);
    unpackFloats<kSignature.in>(element, sum);
  }

  const RowParams &params;
  RowBody<kVector> body;
  long long row;
  int lane, count;
  Words<kInBytes> x[kCount];
  Words<kInBytes> residual[kSignature.residual ? kCount : 1];
  Words<kInBytes> matrix[Math::kMatrixRoom][kCount];
  Vectors shared[kCount];
  float value[kCount];
};

/// Rows without ends.
template <RowSignature kSignature> struct NoRowEnds {
  template <class... Any> explicit NoRowEnds(Any &&...) {}
  void load() {}
  template <class Stats> void addTo(Stats &) {}
  template <class Final, class Visit>
  void forEachResult(const Final &, Visit &&) {}
  template <class Final> void store(const Final &, float) {}
};

/// The type for the ends of rows with vectors of kVector elements.
template <RowSignature kSignature, RowStart kStart, int kVector, int kLanes>
struct RowEndsOf {
  using Type = RowEnds<kSignature, kStart, kVector, kLanes>;
};
template <RowSignature kSignature, int kVector, int kLanes>
struct RowEndsOf<kSignature, RowStart::Aligned, kVector, kLanes> {
  using Type = NoRowEnds<kSignature>;
};

} // namespace kiln
