//===- rope/HeadRope.cuh - rotary embedding and append, head by head ------===//
//
// A few lanes of a warp have a head of a token: each lane loads whole pairs, so
// a rotation needs no other lane, and only the sum of an RMSNorm passes between
// lanes. A lane does the same place of several heads of one token, whose
// cosines and sines it keeps in registers. Heads of V are copied by the same
// walk.
//
// The chain of loads is position, row of the table. Where the caller vouches
// that both are complete, they are loaded before the kernel ahead has ended.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Access.cuh"
#include "common/Dependent.cuh"
#include "rope/HeadRopeConfig.h"

namespace kiln {

template <RopeSignature kSignature, HeadRopeConfig kConfig> class HeadRope {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");

  static constexpr DType kType = kSignature.type;
  static constexpr int kVector = kConfig.vector;
  static constexpr int kBytes = kVector * bytesOf(kType);
  static constexpr int kLanes = kConfig.lanes(kSignature);
  static constexpr int kUnits = kConfig.units(kSignature);
  static constexpr int kGroups = kConfig.threads() / kLanes;
  static constexpr int kRotated = kConfig.rotatedUnits(kSignature);
  static constexpr int kCopied = kSignature.headDim - kSignature.rotaryDim;
  static constexpr int kAngles = kConfig.anglesOf(kSignature) > 0
                                     ? kConfig.anglesOf(kSignature)
                                     : 1;
  static constexpr bool kIsNormed = kSignature.hasQNorm || kSignature.hasKNorm;
  static constexpr unsigned kAllLanes = ~0u;

  enum class Part { Q, K, V, None };

  /// Two vectors of a head by the column of their first elements; -1: there is
  /// no such vector.
  struct Columns {
    int first, second;
  };

  /// The angles of a token, and its row of the caches: its heads share them.
  struct Token {
    float cosine[kAngles][kVector], sine[kAngles][kVector];
    RopeParams::CacheRow cached;
  };

  /// A head of a token, as loaded.
  struct Item {
    Part part;
    long long head; ///< among those of its part
    Words<kBytes> first[kUnits], second[kUnits];
  };

public:
  static void run(const RopeParams &params) {
    allowSuccessor();
    const long long all =
        HeadRopeConfig::headsOf(kSignature, params.heads, params.kvHeads);
    const long long chunks = (all + kConfig.items - 1) / kConfig.items;
    const long long pieces = params.tokens * chunks;
    const long long group = threadIdx.x / kLanes;
    Token shared;
    long long first = blockIdx.x * static_cast<long long>(kGroups);
    bool isLoaded = false;
    if (params.isEarly && first + group < pieces) {
      loadToken(params, divide(first + group, chunks), shared);
      isLoaded = true;
    }
    awaitPredecessor();
    // All lanes of a warp take part in each turn.
    for (; first < pieces;
         first += gridDim.x * static_cast<long long>(kGroups)) {
      const long long piece = first + group;
      const bool exists = piece < pieces;
      const long long token = exists ? divide(piece, chunks) : 0;
      const long long head = (piece - token * chunks) * kConfig.items;
      Item items[kConfig.items];
#pragma unroll
      for (int i = 0; i < kConfig.items; ++i)
        load(params, token, exists && head + i < all ? head + i : -1, items[i]);
      if (exists && !isLoaded)
        loadToken(params, token, shared);
      isLoaded = false;
      // Results may overwrite elements that other lanes still read.
      __syncwarp();
#pragma unroll
      for (int i = 0; i < kConfig.items; ++i)
        store(params, token, shared, items[i]);
    }
  }

private:
  static long long divide(long long a, long long b) {
    return (a | b) >> 32 == 0
               ? static_cast<unsigned>(a) / static_cast<unsigned>(b)
               : a / b;
  }
  static int unitOf(int index) {
    return index * kLanes + static_cast<int>(threadIdx.x) % kLanes;
  }
  static bool isRotated(int unit) { return unit < kRotated; }

  //===--------------------------------------------------------------------===//
  // Places
  //===--------------------------------------------------------------------===//

  /// Elements \p at and on of the columns that are copied, which lie before and
  /// behind the rotated ones.
  static int copiedColumn(int at, int count) {
    if (at >= count)
      return -1;
    return at < kSignature.rotaryOffset ? at : at + kSignature.rotaryDim;
  }
  static Columns copiedColumns(int unit) {
    const int at = (unit - kRotated) * 2 * kVector;
    return {copiedColumn(at, kCopied), copiedColumn(at + kVector, kCopied)};
  }
  static Columns valueColumns(int unit) {
    const int at = unit * 2 * kVector;
    return {at < kSignature.valueDim ? at : -1,
            at + kVector < kSignature.valueDim ? at + kVector : -1};
  }
  static Columns rotatedColumns(int unit, bool isWritten) {
    const bool isHalved =
        kSignature.style == RopeStyle::Halves ||
        (kSignature.style == RopeStyle::InterleavedToHalves && isWritten);
    const int pair = unit * kVector;
    if (isHalved)
      return {kSignature.rotaryOffset + pair,
              kSignature.rotaryOffset + kSignature.rotaryDim / 2 + pair};
    return {kSignature.rotaryOffset + 2 * pair,
            kSignature.rotaryOffset + 2 * pair + kVector};
  }
  static Columns columnsOf(Part part, int unit, bool isWritten) {
    if (part == Part::V)
      return valueColumns(unit);
    return isRotated(unit) ? rotatedColumns(unit, isWritten)
                           : copiedColumns(unit);
  }

  /// The part of head \p index among all that move, which becomes the head's
  /// index in its part.
  static Part partOf(const RopeParams &params, long long &index) {
    if (index < 0)
      return Part::None;
    if constexpr (kSignature.hasQ) {
      if (index < params.heads)
        return Part::Q;
      index -= params.heads;
    }
    if constexpr (kSignature.hasK()) {
      if (index < params.kvHeads)
        return Part::K;
      index -= params.kvHeads;
    }
    return Part::V;
  }

  //===--------------------------------------------------------------------===//
  // Loads
  //===--------------------------------------------------------------------===//

  static long long indexAt(const void *array, long long token) {
    return kSignature.hasLongIndices
               ? static_cast<const long long *>(array)[token]
               : static_cast<const int *>(array)[token];
  }

  /// kVector values of the table, whose rows have the signature's alignment.
  static void loadAngles(const RopeParams &params, long long at,
                         float (&values)[kVector]) {
    constexpr DType kTable = kSignature.table;
    constexpr int kMost = kSignature.align / bytesOf(kTable);
    constexpr int kPiece = kMost < 1 ? 1 : kMost < kVector ? kMost : kVector;
    const Storage<kTable> *from =
        static_cast<const Storage<kTable> *>(params.table) + at;
#pragma unroll
    for (int i = 0; i < kVector; i += kPiece) {
      float piece[kPiece];
      unpackFloats<kTable>(piece,
                           loadVector<kPiece * bytesOf(kTable)>(from + i));
#pragma unroll
      for (int j = 0; j < kPiece; ++j)
        values[i + j] = piece[j];
    }
  }

  static void loadToken(const RopeParams &params, long long token,
                        Token &shared) {
    long long position = 0;
    if constexpr (kSignature.hasPositions())
      position = indexAt(params.positions, token);
    if constexpr (kSignature.slots == RopeSlots::Array)
      shared.cached = params.rowOfSlot(indexAt(params.slots, token));
    else if constexpr (kSignature.slots == RopeSlots::Table)
      shared.cached = params.rowOfPosition(
          kSignature.hasSequences ? params.sequences[token] : token, position);
    if constexpr (kRotated > 0) {
      const long long last = params.tableRows - 1;
      position = position < 0 ? 0 : position < last ? position : last;
      const long long row = position * kSignature.rotaryDim;
#pragma unroll
      for (int i = 0; i < kConfig.anglesOf(kSignature); ++i) {
        const int unit = unitOf(i);
        if (!isRotated(unit))
          continue;
        loadAngles(params, row + unit * kVector, shared.cosine[i]);
        loadAngles(params, row + kSignature.rotaryDim / 2 + unit * kVector,
                   shared.sine[i]);
      }
    }
  }

  static const Storage<kType> *sourceOf(const RopeParams &params,
                                        long long token, Part part,
                                        long long head) {
    const HeadStrides &strides = part == Part::Q   ? params.qStrides
                                 : part == Part::K ? params.kStrides
                                                   : params.vStrides;
    const void *data = part == Part::Q   ? params.q
                       : part == Part::K ? params.k
                                         : params.v;
    return static_cast<const Storage<kType> *>(data) + token * strides.token +
           head * strides.head;
  }

  static void load(const RopeParams &params, long long token, long long index,
                   Item &item) {
    item.part = partOf(params, index);
    item.head = index;
    if (item.part == Part::None)
      return;
    const Storage<kType> *row = sourceOf(params, token, item.part, item.head);
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const Columns columns = columnsOf(item.part, unitOf(i), false);
      if (columns.first >= 0)
        item.first[i] =
            loadVector<kBytes, CacheHint::Streaming>(row + columns.first);
      if (columns.second >= 0)
        item.second[i] =
            loadVector<kBytes, CacheHint::Streaming>(row + columns.second);
    }
  }

  //===--------------------------------------------------------------------===//
  // Arithmetic
  //===--------------------------------------------------------------------===//

  static bool isNormed(Part part) {
    return (kSignature.hasQNorm && part == Part::Q) ||
           (kSignature.hasKNorm && part == Part::K);
  }

  /// 1 over the root of the mean square of a head. All lanes of a warp call it.
  static float inverseRoot(const RopeParams &params, const Item &item) {
    float sum = 0;
    if (isNormed(item.part))
#pragma unroll
      for (int i = 0; i < kUnits; ++i) {
        const Columns columns = columnsOf(item.part, unitOf(i), false);
        if (columns.first >= 0)
          sum += squares(item.first[i]);
        if (columns.second >= 0)
          sum += squares(item.second[i]);
      }
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2)
      sum += __shfl_xor_sync(kAllLanes, sum, distance);
    return 1.0f / sqrtf(sum / kSignature.headDim + params.epsilon);
  }
  static float squares(const Words<kBytes> &words) {
    float values[kVector], sum = 0;
    unpackFloats<kType>(values, words);
#pragma unroll
    for (int i = 0; i < kVector; ++i)
      sum = fmaf(values[i], values[i], sum);
    return sum;
  }

  static void scaleBy(const RopeParams &params, Part part, int column,
                      float factor, float (&values)[kVector]) {
    const void *weights = part == Part::Q ? params.qWeight : params.kWeight;
    float weight[kVector];
    unpackFloats<kType>(
        weight, loadVector<kBytes>(
                    static_cast<const Storage<kType> *>(weights) + column));
#pragma unroll
    for (int i = 0; i < kVector; ++i)
      values[i] *=
          factor * (kSignature.hasUnitOffset ? 1.0f + weight[i] : weight[i]);
  }

  /// The unit's two vectors become rotated ones.
  static void rotate(const float (&cosine)[kVector],
                     const float (&sine)[kVector], float (&first)[kVector],
                     float (&second)[kVector]) {
    if constexpr (kSignature.style == RopeStyle::Halves) {
#pragma unroll
      for (int i = 0; i < kVector; ++i)
        turn(cosine[i], sine[i], first[i], second[i]);
      return;
    }
    // Pairs are neighbours in the 2 * kVector elements of both vectors.
    float all[2 * kVector];
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      all[i] = first[i];
      all[kVector + i] = second[i];
    }
#pragma unroll
    for (int i = 0; i < kVector; ++i)
      turn(cosine[i], sine[i], all[2 * i], all[2 * i + 1]);
    constexpr bool kSplits = kSignature.style == RopeStyle::InterleavedToHalves;
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      first[i] = all[kSplits ? 2 * i : i];
      second[i] = all[kSplits ? 2 * i + 1 : kVector + i];
    }
  }
  static void turn(float cosine, float sine, float &a, float &b) {
    const float turned = a * cosine - b * sine;
    b = b * cosine + a * sine;
    a = turned;
  }

  //===--------------------------------------------------------------------===//
  // Stores
  //===--------------------------------------------------------------------===//

  template <DType kOut>
  static void put(void *row, Columns columns, const float (&first)[kVector],
                  const float (&second)[kVector], float factor) {
    Storage<kOut> *to = static_cast<Storage<kOut> *>(row);
    if (columns.first >= 0)
      putVector<kOut>(to + columns.first, first, factor);
    if (columns.second >= 0)
      putVector<kOut>(to + columns.second, second, factor);
  }
  template <DType kOut>
  static void putVector(Storage<kOut> *to, const float (&values)[kVector],
                        float factor) {
    if constexpr (kOut == kType)
      storeVector<kBytes>(to, packFloats<kOut>(values));
    else {
      float scaled[kVector];
#pragma unroll
      for (int i = 0; i < kVector; ++i)
        scaled[i] = values[i] * factor;
      storeVector<kVector * bytesOf(kOut)>(to, packFloats<kOut>(scaled));
    }
  }

  /// The first element of a head in an output.
  template <DType kOut>
  static Storage<kOut> *rowOf(void *data, const HeadStrides &strides,
                              long long batch, long long token,
                              long long head) {
    return static_cast<Storage<kOut> *>(data) + batch * strides.batch +
           token * strides.token + head * strides.head;
  }

  static void store(const RopeParams &params, long long token,
                    const Token &shared, const Item &item) {
    float factor = 0;
    if constexpr (kIsNormed)
      factor = inverseRoot(params, item);
    if (item.part == Part::None)
      return;
    const float inverse = inverseScale(params, item);
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const int unit = unitOf(i);
      const Columns from = columnsOf(item.part, unit, false);
      if (from.first < 0)
        continue;
      float first[kVector], second[kVector];
      unpackFloats<kType>(first, item.first[i]);
      unpackFloats<kType>(second, item.second[i]);
      if (kIsNormed && isNormed(item.part)) {
        scaleBy(params, item.part, from.first, factor, first);
        if (from.second >= 0)
          scaleBy(params, item.part, from.second, factor, second);
      }
      if (item.part != Part::V && isRotated(unit))
        rotate(shared.cosine[i < kAngles ? i : 0],
               shared.sine[i < kAngles ? i : 0], first, second);
      storeUnit(params, token, shared, item, columnsOf(item.part, unit, true),
                first, second, inverse);
    }
  }

  static void storeUnit(const RopeParams &params, long long token,
                        const Token &shared, const Item &item, Columns columns,
                        const float (&first)[kVector],
                        const float (&second)[kVector], float inverse) {
    if (kSignature.hasQ && item.part == Part::Q)
      put<kType>(
          rowOf<kType>(params.qOut, params.qOutStrides, 0, token, item.head),
          columns, first, second, 1);
    if (kSignature.hasKOut && item.part == Part::K)
      put<kType>(
          rowOf<kType>(params.kOut, params.kOutStrides, 0, token, item.head),
          columns, first, second, 1);
    if constexpr (kSignature.hasCache()) {
      const bool isKey = kSignature.hasKCache && item.part == Part::K;
      const bool isValue = kSignature.hasVCache && item.part == Part::V;
      if (shared.cached.page < 0 || !(isKey || isValue))
        return;
      put<kSignature.cache>(
          rowOf<kSignature.cache>(
              isKey ? params.kCache : params.vCache,
              isKey ? params.kCacheStrides : params.vCacheStrides,
              shared.cached.page, shared.cached.row, item.head),
          columns, first, second, inverse);
    }
  }

  /// 1 over the scale of the cache that \p item goes to.
  static float inverseScale(const RopeParams &params, const Item &item) {
    if constexpr (kSignature.scales == ScaleKind::None)
      return 1;
    if (item.part == Part::Q)
      return 1;
    const float *scales = item.part == Part::K ? params.kScale : params.vScale;
    return 1.0f / scales[kSignature.scales == ScaleKind::Row ? item.head : 0];
  }
};

/// Rotates and appends all tokens; any one-dimensional grid.
template <RopeSignature kSignature, HeadRopeConfig kConfig>
void headRope(const RopeParams &params) {
  HeadRope<kSignature, kConfig>::run(params);
}

} // namespace kiln
