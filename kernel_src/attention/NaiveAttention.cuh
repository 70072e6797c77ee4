//===- attention/NaiveAttention.cuh - attention as its definition reads ---===//
//
// A warp has one row of queries of a head. Its lanes share the elements of the
// row, and it walks over the keys that the row sees, a few at a time, with a
// running maximum. It is the fallback: it serves every head dimension,
// alignment, stride and type.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/AttentionRanges.h"
#include "attention/NaiveAttentionConfig.h"
#include "common/Convert.cuh"
#include "common/Dependent.cuh"

namespace kiln {

template <AttentionSignature kSignature, NaiveAttentionConfig kConfig>
class NaiveAttention {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");

  static constexpr int kWarp = 32;
  /// Keys whose loads are in flight together.
  static constexpr int kKeys = 4;

  /// Elements of an access to types of \p first and \p second bytes: as many as
  /// the alignment allows, but few enough that each lane gets some of
  /// \p elements.
  static constexpr int vectorOf(int first, int second, int elements) {
    int widest = kSignature.align / (first > second ? first : second);
    int count = widest < 1 ? 1 : widest;
    while (count > 1 && count * kWarp > elements)
      count /= 2;
    return count;
  }

  /// A row that the lanes share: lane by lane, a vector each.
  template <int kElements, int kCount> struct Row {
    static constexpr int kVector = kCount;
    static constexpr int kVectors =
        (kElements + kVector * kWarp - 1) / (kVector * kWarp);
    float value[kVectors][kVector];

    /// First element of this lane's vector \p i.
    static int elementOf(int i) {
      return (i * kWarp + static_cast<int>(threadIdx.x) % kWarp) * kVector;
    }
    static bool exists(int i) {
      return kElements % (kVector * kWarp) == 0 || elementOf(i) < kElements;
    }

    void fill(float with) {
#pragma unroll
      for (int i = 0; i < kVectors; ++i)
#pragma unroll
        for (int j = 0; j < kVector; ++j)
          value[i][j] = with;
    }
    template <DType kType> void load(const void *base, long long offset) {
      const Storage<kType> *row = static_cast<const Storage<kType> *>(base);
      fill(0);
#pragma unroll
      for (int i = 0; i < kVectors; ++i)
        if (exists(i))
          loadFloats<kType>(value[i], row + offset + elementOf(i));
    }
    template <DType kType> void store(void *base, long long offset) const {
      Storage<kType> *row = static_cast<Storage<kType> *>(base);
#pragma unroll
      for (int i = 0; i < kVectors; ++i)
        if (exists(i))
          storeFloats<kType>(row + offset + elementOf(i), value[i]);
    }
    void scale(float by) {
#pragma unroll
      for (int i = 0; i < kVectors; ++i)
#pragma unroll
        for (int j = 0; j < kVector; ++j)
          value[i][j] *= by;
    }
    void add(float weight, const Row &other) {
#pragma unroll
      for (int i = 0; i < kVectors; ++i)
#pragma unroll
        for (int j = 0; j < kVector; ++j)
          value[i][j] = fmaf(weight, other.value[i][j], value[i][j]);
    }
    /// The product with \p other, in all lanes.
    float dot(const Row &other) const {
      float sum = 0;
#pragma unroll
      for (int i = 0; i < kVectors; ++i)
#pragma unroll
        for (int j = 0; j < kVector; ++j)
          sum = fmaf(value[i][j], other.value[i][j], sum);
#pragma unroll
      for (int distance = kWarp / 2; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(~0u, sum, distance);
      return sum;
    }
  };

  using KeyRow = Row<kSignature.headDim,
                     vectorOf(bytesOf(kSignature.q), bytesOf(kSignature.kv),
                              kSignature.headDim)>;
  using ValueRow = Row<kSignature.valueDim,
                       vectorOf(bytesOf(kSignature.kv), bytesOf(kSignature.out),
                                kSignature.valueDim)>;

  /// One row of queries of one head.
  struct Task {
    int sequence, head, kvHead, row;
    AttentionTokens queries, keys;
  };

  /// Weighted values so far, with weights relative to the greatest score.
  struct State {
    ValueRow values;
    float maximum = -kInfinity, sum = 0;

    /// Raises the maximum, to which weights are relative, to at least \p score.
    void raise(float score) {
      float raised = fmaxf(maximum, score);
      // No key has counted yet where the greatest score is -inf.
      float factor = raised == -kInfinity ? 1.0f : expf(maximum - raised);
      values.scale(factor);
      sum *= factor;
      maximum = raised;
    }
    float weightOf(float score) const {
      return score == -kInfinity ? 0.0f : expf(score - maximum);
    }
  };

public:
  static void run(const AttentionParams &params) {
    allowSuccessor();
    awaitPredecessor();
    long long tasks =
        static_cast<long long>(params.batch) * params.heads * params.queries;
    long long step = static_cast<long long>(gridDim.x) * kConfig.warps;
    for (long long i = static_cast<long long>(blockIdx.x) * kConfig.warps +
                       threadIdx.x / kWarp;
         i < tasks; i += step) {
      // Neighbours share a head: its keys are in the caches.
      long long heads = i / params.queries;
      Task task;
      task.row = static_cast<int>(i - heads * params.queries);
      task.sequence = static_cast<int>(heads / params.heads);
      task.head = static_cast<int>(heads % params.heads);
      task.kvHead = task.head / (params.heads / params.kvHeads);
      task.queries = queriesOf<kSignature>(params, task.sequence);
      if (task.row >= task.queries.count)
        continue;
      task.keys = keysOfSequence<kSignature>(params, task.sequence);
      attend(params, task);
    }
  }

private:
  static constexpr float kInfinity = __builtin_bit_cast(float, 0x7f800000u);

  static float scoreOf(const AttentionParams &params, const Task &task,
                       float scale, float product, int key) {
    float score = scale * product;
    if constexpr (kSignature.softcap)
      score = params.softcap * tanhf(score / params.softcap);
    if constexpr (kSignature.alibi)
      score += params.alibi[task.head] *
               static_cast<float>(key - positionOf(task.row, task.queries.count,
                                                   task.keys.count));
    return score;
  }

  static void attend(const AttentionParams &params, const Task &task) {
    AttentionRange keys =
        keysOf(reachOf(kSignature.mask, params.left, params.right), task.row,
               task.queries.count, task.keys.count);
    KeyRow query;
    query.template load<kSignature.q>(
        params.q, queryOffset<kSignature>(params.qStrides, task.sequence,
                                          task.queries, task.head, task.row));
    float scale = params.scale;
    if constexpr (kSignature.scales)
      scale *= scaleOf(params, params.qScale, task.sequence, task.kvHead) *
               scaleOf(params, params.kScale, task.sequence, task.kvHead);
    State state;
    state.values.fill(0);
    for (int key = keys.begin; key < keys.end; key += kKeys)
      addKeys(params, task, query, scale, {key, min(key + kKeys, keys.end)},
              state);
    finish(params, task, keys.size() > 0, state);
  }

  /// Adds up to kKeys keys.
  static void addKeys(const AttentionParams &params, const Task &task,
                      const KeyRow &query, float scale, AttentionRange keys,
                      State &state) {
    // Keys behind the last repeat the last one, with a weight of zero.
    auto offsetOf = [&](const HeadStrides &strides, int i) {
      return keyOffset<kSignature>(params, strides, task.sequence, task.keys,
                                   task.kvHead,
                                   min(keys.begin + i, keys.end - 1));
    };
    KeyRow rows[kKeys];
#pragma unroll
    for (int i = 0; i < kKeys; ++i)
      rows[i].template load<kSignature.kv>(params.k,
                                           offsetOf(params.kStrides, i));
    float scores[kKeys];
    float greatest = -kInfinity;
#pragma unroll
    for (int i = 0; i < kKeys; ++i) {
      float score =
          scoreOf(params, task, scale, query.dot(rows[i]), keys.begin + i);
      scores[i] = keys.begin + i < keys.end ? score : -kInfinity;
      greatest = fmaxf(greatest, scores[i]);
    }
    state.raise(greatest);
    ValueRow values[kKeys];
#pragma unroll
    for (int i = 0; i < kKeys; ++i)
      values[i].template load<kSignature.kv>(params.v,
                                             offsetOf(params.vStrides, i));
#pragma unroll
    for (int i = 0; i < kKeys; ++i) {
      if (keys.begin + i >= keys.end)
        break; // 0 times an infinity would be NaN
      float weight = state.weightOf(scores[i]);
      state.sum += weight;
      state.values.add(weight, values[i]);
    }
  }

  static void finish(const AttentionParams &params, const Task &task,
                     bool seesKeys, State &state) {
    if constexpr (kSignature.sinks)
      if (seesKeys) {
        float sink = params.sinks[task.head];
        state.raise(sink);
        state.sum += state.weightOf(sink);
      }
    // A sum that is NaN belongs to a row that sees keys.
    float inverse = state.sum != 0 ? 1 / state.sum : 0;
    if constexpr (kSignature.scales)
      inverse *= scaleOf(params, params.vScale, task.sequence, task.kvHead);
    state.values.scale(inverse);
    state.values.template store<kSignature.out>(
        params.o, queryOffset<kSignature>(params.oStrides, task.sequence,
                                          task.queries, task.head, task.row));
    if constexpr (kSignature.lse)
      if (threadIdx.x % kWarp == 0)
        params.lse[lseOffset<kSignature>(params, task.sequence, task.queries,
                                         task.head, task.row)] =
            seesKeys ? state.maximum + logf(state.sum) : -kInfinity;
  }
};

/// Writes O and, where wanted, the LSE; any one-dimensional grid.
template <AttentionSignature kSignature, NaiveAttentionConfig kConfig>
void naiveAttention(const AttentionParams &params) {
  NaiveAttention<kSignature, kConfig>::run(params);
}

} // namespace kiln
