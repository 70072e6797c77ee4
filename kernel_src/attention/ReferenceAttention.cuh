//===- attention/ReferenceAttention.cuh - the reference of attention ------===//
//
// The fp64 result before it is rounded to its type, and beside it the scale of
// the error that kernels may make. A block has one row: each thread scores one
// key of a piece, then all threads add the piece's values, a column each. There
// is one pass, with a running maximum.
//
// The bound of an element of O is the root of the sum over the keys of (weight
// * value)^2: kernels round each weight to Q's type, and such errors add up
// like independent draws. Weights that 16 or 8 bits flush to zero add a floor
// below the greatest weight. The bound of an LSE is 1 plus the mean magnitude
// of the scores. Over e4m3 it adds a share of the mean magnitude of the
// products that a score sums.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/AttentionRanges.h"
#include "attention/ReferenceAttentionConfig.h"
#include "common/Convert.cuh"

namespace kiln {

template <AttentionSignature kSignature, ReferenceAttentionConfig kConfig>
class ReferenceAttention {
  static constexpr int kThreads = kConfig.threads();
  static constexpr int kWarp = 32;
  static constexpr int kHeadDim = kSignature.headDim;
  static constexpr int kValueDim = kSignature.valueDim;
  using Value = Storage<kSignature.kv>;

  /// Threads side by side that have a column each, and columns of one thread.
  static constexpr int columnThreads() {
    int threads = 1;
    while (threads < kValueDim && threads < kThreads)
      threads *= 2;
    return threads;
  }
  static constexpr int kColumnThreads = columnThreads();
  static constexpr int kColumns =
      (kValueDim + kColumnThreads - 1) / kColumnThreads;
  static constexpr int kGroups = kThreads / kColumnThreads;

  /// Half a unit in the last place of a weight.
  static constexpr double kHalfUlp = kSignature.q == DType::BF16   ? 0x1p-8
                                     : kSignature.q == DType::FP16 ? 0x1p-11
                                                                   : 0x1p-4;
  static constexpr bool kIsE4M3 = kSignature.q == DType::E4M3;
  /// Relative error of a kernel in a score, without its tanh.
  static constexpr double kScoreError = kIsE4M3 ? 0x1p-12 : 0x1p-20;
  /// Error relative to the magnitude of the products: sums of e4m3 keep 14 bits
  /// of the greatest one, and cut off the rest.
  static constexpr double kCutError = kIsE4M3 ? 0x1p-11 : 0;
  /// The share of the products' magnitude in the bound of an LSE, of which an
  /// LSE may be off by kE4M3LseError.
  static constexpr double kShareOfProducts = kCutError / kE4M3LseError;
  /// Error of tanh.approx.
  static constexpr double kTanhError = kSignature.softcap ? 0x1p-11 : 0;
  /// Weights below this fraction of the greatest one lose digits: normal
  /// numbers of fp16, and of e4m3 for weights up to 256, end there.
  static constexpr double kWeightFloor =
      kSignature.q == DType::BF16 && kSignature.kv == DType::BF16 ? 0 : 0x1p-14;

  /// One row of queries of one head.
  struct Task {
    int sequence, head, kvHead, row;
    AttentionTokens queries, keys;
    bool isDefined;
  };
  /// A score and the error that a kernel may make in it.
  struct Score {
    double value, error;
    /// The magnitude of its products, as far as a softcap lets them count; 0
    /// unless Q is e4m3.
    double products;
  };
  /// Sums of a thread over the keys that it scored; weights are relative to the
  /// greatest score of the row so far, which all threads know.
  struct Sums {
    double maximum = minusInfinity(), weights = 0, magnitudes = 0;

    void raise(double score) {
      double raised = fmax(maximum, score);
      double factor = raised == minusInfinity() ? 1.0 : exp(maximum - raised);
      weights *= factor;
      magnitudes *= factor;
      maximum = raised;
    }
    double weightOf(double score) const {
      return score == minusInfinity() ? 0.0 : exp(score - maximum);
    }
  };
  /// Sums of a thread over the values of its columns.
  struct ColumnSums {
    double value[kColumns] = {}, error[kColumns] = {}, square[kColumns] = {};
  };
  /// Results of a piece of keys that the columns need.
  struct Piece {
    double weight[kThreads], error[kThreads];
    long long offset[kThreads]; ///< of V
  };

public:
  static void run(const ReferenceAttentionParams &params) {
    for (long long row = params.rowBegin + blockIdx.x; row < params.rowEnd;
         row += gridDim.x) {
      Task task = taskOf(params.attention, row);
      attend(params, task, row - params.rowBegin);
      __syncthreads(); // shared memory is the next row's
    }
  }

private:
  static double minusInfinity() {
    return -__longlong_as_double(0x7ff0000000000000ll);
  }

  static Task taskOf(const AttentionParams &params, long long index) {
    constexpr bool kPacked =
        kSignature.queryLengths == AttentionLengths::Packed;
    long long rows = kPacked ? params.totalQueries : params.queries;
    int row = static_cast<int>(index % rows);
    Task task = {};
    task.head = static_cast<int>(index / rows % params.heads);
    task.kvHead = task.head / (params.heads / params.kvHeads);
    task.sequence = kPacked ? sequenceOf(params, row)
                            : static_cast<int>(index / rows / params.heads);
    task.isDefined = task.sequence >= 0;
    if (!task.isDefined)
      return task;
    task.queries = queriesOf<kSignature>(params, task.sequence);
    task.keys = keysOfSequence<kSignature>(params, task.sequence);
    task.row = row - task.queries.first;
    return task;
  }

  /// The sequence that has \p row of all packed queries; -1: none has.
  static int sequenceOf(const AttentionParams &params, int row) {
    const int *offsets = params.queryOffsets;
    if (row < offsets[0] || row >= offsets[params.batch])
      return -1;
    int first = 0, last = params.batch - 1;
    while (first < last) {
      int middle = first + (last - first) / 2;
      if (offsets[middle + 1] > row)
        last = middle;
      else
        first = middle + 1;
    }
    return first;
  }

  static void attend(const ReferenceAttentionParams &params, const Task &task,
                     long long row) {
    __shared__ double query[kHeadDim];
    __shared__ Piece piece;
    const AttentionParams &attention = params.attention;
    AttentionRange keys;
    if (task.isDefined) {
      loadQuery(attention, task, query);
      keys = keysOf(reachOf(kSignature.mask, attention.left, attention.right),
                    task.row, task.queries.count, task.keys.count);
    }
    __syncthreads();
    Sums sums;
    ColumnSums columns;
    for (int first = keys.begin; first < keys.end; first += kThreads) {
      int count = min(kThreads, keys.end - first);
      addKeys(attention, task, query, first, count, sums, columns, piece);
      if (!params.isLse)
        addValues(attention, piece, count, columns);
    }
    if constexpr (kSignature.sinks)
      addSink(attention, task, keys, sums, columns);
    sums.weights = sumOfBlock(sums.weights);
    sums.magnitudes = sumOfBlock(sums.magnitudes);
    if (params.isLse)
      storeLse(params, task, keys.size() > 0, sums, row);
    else
      storeValues(params, task, keys.size() > 0, sums, columns, row);
  }

  static void loadQuery(const AttentionParams &params, const Task &task,
                        double (&query)[kHeadDim]) {
    const Storage<kSignature.q> *q =
        static_cast<const Storage<kSignature.q> *>(params.q) +
        queryOffset<kSignature>(params.qStrides, task.sequence, task.queries,
                                task.head, task.row);
    for (int i = threadIdx.x; i < kHeadDim; i += kThreads)
      query[i] = toFloat<kSignature.q>(q[i]);
  }

  static Score scoreOf(const AttentionParams &params, const Task &task,
                       const double (&query)[kHeadDim], int key) {
    // The alignment of e4m3 beside wider rows of Q is unknown.
    constexpr int kWidth = bytesOf(kSignature.q);
    constexpr int kVector =
        kSignature.align > kWidth ? kSignature.align / kWidth : 1;
    const Value *k =
        static_cast<const Value *>(params.k) +
        keyOffset<kSignature>(params, params.kStrides, task.sequence, task.keys,
                              task.kvHead, key);
    double product = 0, magnitude = 0;
    for (int i = 0; i < kHeadDim; i += kVector) {
      float elements[kVector];
      loadFloats<kSignature.kv>(elements, k + i);
#pragma unroll
      for (int j = 0; j < kVector; ++j) {
        double element = elements[j];
        product = fma(query[i + j], element, product);
        if constexpr (kIsE4M3)
          magnitude += fabs(query[i + j] * element);
      }
    }
    double scale = params.scale;
    if constexpr (kSignature.scales)
      scale *= static_cast<double>(
                   scaleOf(params, params.qScale, task.sequence, task.kvHead)) *
               scaleOf(params, params.kScale, task.sequence, task.kvHead);
    double score = product * scale;
    double capped = score;
    if constexpr (kSignature.softcap)
      capped = params.softcap * tanh(score / params.softcap);
    double biased = capped;
    if constexpr (kSignature.alibi)
      biased +=
          static_cast<double>(params.alibi[task.head]) *
          (key - positionOf(task.row, task.queries.count, task.keys.count));
    double products = magnitude * fabs(scale), slope = 1;
    if constexpr (kSignature.softcap)
      slope -= capped / params.softcap * (capped / params.softcap);
    return {biased,
            kScoreError * (fabs(score) + fabs(biased)) + kCutError * products +
                kTanhError * fabs(capped),
            slope * products};
  }

  /// Scores \p count keys from \p first on, a thread each.
  static void addKeys(const AttentionParams &params, const Task &task,
                      const double (&query)[kHeadDim], int first, int count,
                      Sums &sums, ColumnSums &columns, Piece &piece) {
    int lane = threadIdx.x;
    Score score = {minusInfinity(), 0, 0};
    if (lane < count) {
      score = scoreOf(params, task, query, first + lane);
      piece.offset[lane] =
          keyOffset<kSignature>(params, params.vStrides, task.sequence,
                                task.keys, task.kvHead, first + lane);
    }
    raise(maximumOfBlock(score.value), sums, columns);
    double weight = sums.weightOf(score.value);
    // A score of minus infinity has an infinite error, and does not count.
    double error = weight == 0 ? 0.0 : weight * (1 + score.error / kHalfUlp);
    sums.weights += weight;
    if (weight > 0) // or else the score may be -inf
      sums.magnitudes +=
          weight * (fabs(score.value) + kShareOfProducts * score.products);
    piece.weight[lane] = weight;
    piece.error[lane] = error * error;
  }

  static void raise(double score, Sums &sums, ColumnSums &columns) {
    double before = sums.maximum;
    sums.raise(score);
    double factor =
        sums.maximum == minusInfinity() ? 1.0 : exp(before - sums.maximum);
    for (int i = 0; i < kColumns; ++i) {
      columns.value[i] *= factor;
      columns.error[i] *= factor * factor;
    }
  }

  /// Adds the values of \p count keys: groups of threads take keys in turn, and
  /// each thread adds its columns.
  static void addValues(const AttentionParams &params, const Piece &piece,
                        int count, ColumnSums &columns) {
    __syncthreads();
    const Value *v = static_cast<const Value *>(params.v);
    int column = threadIdx.x % kColumnThreads;
#pragma unroll 4
    for (int key = threadIdx.x / kColumnThreads; key < count; key += kGroups)
#pragma unroll
      for (int i = 0; i < kColumns; ++i) {
        int at = column + i * kColumnThreads;
        if (at >= kValueDim)
          continue;
        double value = toFloat<kSignature.kv>(v[piece.offset[key] + at]);
        double square = value * value;
        columns.value[i] = fma(piece.weight[key], value, columns.value[i]);
        columns.error[i] = fma(piece.error[key], square, columns.error[i]);
        columns.square[i] += square;
      }
    __syncthreads();
  }

  /// A sink is a key without a value.
  static void addSink(const AttentionParams &params, const Task &task,
                      AttentionRange keys, Sums &sums, ColumnSums &columns) {
    if (keys.size() == 0)
      return;
    double sink = params.sinks[task.head];
    double before = sums.maximum;
    raise(sink, sums, columns);
    // Squares count relative to the greatest weight of a key.
    double greatest = exp(before - sums.maximum);
    for (int i = 0; i < kColumns; ++i)
      columns.square[i] *= greatest * greatest;
    double weight = threadIdx.x == 0 ? sums.weightOf(sink) : 0.0;
    sums.weights += weight;
    if (weight > 0)
      sums.magnitudes += weight * fabs(sink);
  }

  static void storeLse(const ReferenceAttentionParams &params, const Task &task,
                       bool seesKeys, const Sums &sums, long long row) {
    if (threadIdx.x != 0)
      return;
    params.reference[row] = !task.isDefined ? 0.0
                            : seesKeys      ? sums.maximum + log(sums.weights)
                                            : minusInfinity();
    params.bound[row] = !task.isDefined ? -1.0
                        : seesKeys      ? 1 + sums.magnitudes / sums.weights
                                        : 0.0;
  }

  static void storeValues(const ReferenceAttentionParams &params,
                          const Task &task, bool seesKeys, const Sums &sums,
                          ColumnSums &columns, long long row) {
    double factor = seesKeys && task.isDefined ? 1 / sums.weights : 0.0;
    if constexpr (kSignature.scales)
      if (task.isDefined)
        factor *= static_cast<double>(scaleOf(params.attention,
                                              params.attention.vScale,
                                              task.sequence, task.kvHead));
    for (int i = 0; i < kColumns; ++i) {
      double value = sumOfGroups(columns.value[i]);
      double error = sumOfGroups(columns.error[i]);
      double square = sumOfGroups(columns.square[i]);
      int column = static_cast<int>(threadIdx.x) + i * kColumnThreads;
      if (threadIdx.x >= kColumnThreads || column >= kValueDim)
        continue;
      long long at = row * kValueDim + column;
      params.reference[at] = value * factor;
      params.bound[at] =
          task.isDefined
              ? fabs(factor) *
                    sqrt(error + kWeightFloor * kWeightFloor * square)
              : -1.0;
    }
  }

  /// The sum over the threads that have the same columns, in the first of them.
  static double sumOfGroups(double value) {
    __shared__ double parts[kThreads];
    __syncthreads();
    parts[threadIdx.x] = value;
    __syncthreads();
    double sum = 0;
    for (int i = threadIdx.x % kColumnThreads; i < kThreads;
         i += kColumnThreads)
      sum += parts[i];
    return sum;
  }

  static double sumOfBlock(double value) {
    return overBlock(value, [](double a, double b) { return a + b; });
  }
  static double maximumOfBlock(double value) {
    // fmax drops NaN, which shows in the sums that follow.
    return overBlock(value, [](double a, double b) { return fmax(a, b); });
  }

  /// Combines the values of all threads, for all threads.
  template <class Combine>
  static double overBlock(double value, Combine combine) {
    __shared__ double parts[kThreads / kWarp];
    for (int distance = kWarp / 2; distance > 0; distance /= 2)
      value = combine(value, __shfl_xor_sync(~0u, value, distance));
    __syncthreads();
    if (threadIdx.x % kWarp == 0)
      parts[threadIdx.x / kWarp] = value;
    __syncthreads();
    value = parts[0];
    for (int i = 1; i < kThreads / kWarp; ++i)
      value = combine(value, parts[i]);
    return value;
  }
};

/// Writes reference and bound of the rows [rowBegin, rowEnd), on
/// kConfig.blocks(rowEnd - rowBegin) blocks.
template <AttentionSignature kSignature, ReferenceAttentionConfig kConfig>
void referenceAttention(const ReferenceAttentionParams &params) {
  ReferenceAttention<kSignature, kConfig>::run(params);
}

} // namespace kiln
