//===- rope/HeadRope.cuh - rotary embedding and append, head by head ------===//
//
// A few lanes of a warp have a head of a token: each lane loads whole pairs, so
// a rotation needs no other lane, and only the sum of an RMSNorm passes between
// lanes. A lane does the same place of several heads of one token, whose
// cosines and sines it keeps in registers. Heads of V are copied by the same
// walk.
//
// The bytes in flight determine the speed (Little's law). Registers hold those
// of few heads; where shared memory holds them instead, by asynchronous copies,
// an SM has several times as many in flight. A lane reads its own copies alone,
// which needs no barrier.
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
  static constexpr int kItems = kConfig.items;
  static constexpr int kLanes = kConfig.lanes(kSignature);
  static constexpr int kUnits = kConfig.units(kSignature);
  static constexpr int kGroups = kConfig.threads() / kLanes;
  static constexpr int kRotated = kConfig.rotatedUnits(kSignature);
  static constexpr int kCopied = kSignature.headDim - kSignature.rotaryDim;
  static constexpr int kAngles = kConfig.anglesOf(kSignature) > 0
                                     ? kConfig.anglesOf(kSignature)
                                     : 1;
  static constexpr bool kHasKeys = kSignature.hasQ || kSignature.hasK();
  static constexpr bool kIsNormed = kSignature.hasQNorm || kSignature.hasKNorm;
  /// Caches have the type of what goes to them.
  static constexpr bool kIsPlain = kSignature.cache == kType;
  /// K goes to its cache as it would go to an output.
  static constexpr bool kHasOneTarget =
      !kSignature.hasKCache || (kIsPlain && !kSignature.hasKOut);

  using Element = Storage<kType>;
  using CacheElement = Storage<kSignature.cache>;

  /// Two vectors of a head by the columns of their first elements; -1: there is
  /// no such vector.
  struct Columns {
    int first, second;
  };

  /// The angles of a token, and its row of the caches: its heads share them.
  struct Token {
    float cosine[kAngles][kVector], sine[kAngles][kVector];
    RopeParams::CacheRow cached;
  };

  /// Up to kItems heads of one token, neighbours in Q, K or V.
  struct Piece {
    long long token;
    int head, count;
  };

  /// The heads of a piece in memory: the first element of the first one, and
  /// the elements from one to the next.
  template <class T> struct Heads {
    T *first = nullptr; ///< null: there are none
    long long stride = 0;

    T *at(int item) const { return first + item * stride; }
  };

  /// The vectors of a piece that this lane loads. In shared memory neighbours
  /// belong to neighbours among threads.
  class Loaded {
  public:
    Loaded() {
      if constexpr (kStaged) {
        extern __shared__ __align__(16) unsigned char ropeMemory[];
        own = ptx::sharedAddress(ropeMemory) + threadIdx.x * kBytes;
        ptx::opaque(own); // keeps the addresses of vectors out of registers
      }
    }
    void load(int item, int unit, int half, const Element *from) {
      if constexpr (kStaged)
        ptx::cpAsync<kBytes>(at(item, unit, half), from, kBytes);
      else
        words[item][unit][half] =
            loadVector<kBytes, CacheHint::Streaming>(from);
    }
    /// Returns once all have come; registers wait at their first use.
    void await() const {
      if constexpr (kStaged) {
        ptx::cpAsyncCommit();
        ptx::cpAsyncWait<0>();
      }
    }
    Words<kBytes> get(int item, int unit, int half) const {
      if constexpr (kStaged)
        return loadSharedVector<kBytes>(at(item, unit, half));
      else
        return words[item][unit][half];
    }

  private:
    static constexpr bool kStaged = kConfig.staged != 0;

    unsigned at(int item, int unit, int half) const {
      const int place = (item * kUnits + unit) * 2 + half;
      return own + place * (kConfig.threads() * kBytes);
    }

    Words<kBytes> words[kStaged ? 1 : kItems][kUnits][2];
    unsigned own = 0;
  };

public:
  static void run(const RopeParams &params) {
    allowSuccessor();
    const int qPieces = kSignature.hasQ ? pieces(params.heads) : 0;
    const int kPieces = kSignature.hasK() ? pieces(params.kvHeads) : 0;
    const int vPieces = kSignature.hasVCache ? pieces(params.kvHeads) : 0;
    const long long perToken = qPieces + kPieces + vPieces;
    const long long all = params.tokens * perToken;
    long long index = blockIdx.x * static_cast<long long>(kGroups) +
                      static_cast<int>(threadIdx.x) / kLanes;
    Token shared;
    bool isLoaded = false;
    if (params.isEarly && index < all) {
      loadToken(params, divide(index, perToken), shared);
      isLoaded = true;
    }
    awaitPredecessor();
    // All lanes of a group take the same turns.
    for (; index < all; index += gridDim.x * static_cast<long long>(kGroups)) {
      const long long token = divide(index, perToken);
      const int part = static_cast<int>(index - token * perToken);
      if (kHasKeys && part < qPieces + kPieces) {
        const bool isQ = kSignature.hasQ && part < qPieces;
        turn(params, isQ,
             isQ ? piece(token, part, params.heads)
                 : piece(token, part - qPieces, params.kvHeads),
             shared, isLoaded);
      } else if (kSignature.hasVCache)
        copyV(params, piece(token, part - qPieces - kPieces, params.kvHeads),
              shared, isLoaded);
      isLoaded = false;
    }
  }

private:
  static int pieces(int heads) { return (heads + kItems - 1) / kItems; }
  static Piece piece(long long token, int index, int heads) {
    const int head = index * kItems;
    return {token, head, heads - head < kItems ? heads - head : kItems};
  }
  static long long divide(long long a, long long b) {
    return (a | b) >> 32 == 0
               ? static_cast<unsigned>(a) / static_cast<unsigned>(b)
               : a / b;
  }
  static int unitOf(int index) {
    return index * kLanes + static_cast<int>(threadIdx.x) % kLanes;
  }
  static bool isRotated(int unit) {
    // Heads of V may give lanes more units than a head of K has.
    constexpr bool kAll = kRotated > 0 && kUnits * kLanes == kRotated;
    return kAll || unit < kRotated;
  }
  /// The lanes of this thread's group.
  static unsigned groupMask() {
    if constexpr (kLanes == 32)
      return ~0u;
    else
      return ((1u << kLanes) - 1) << (threadIdx.x % 32 / kLanes * kLanes);
  }

  //===--------------------------------------------------------------------===//
  // Places
  //===--------------------------------------------------------------------===//

  template <class T>
  static Heads<T> headsOf(const void *data, const HeadStrides &strides,
                          const Piece &piece) {
    return {static_cast<T *>(const_cast<void *>(data)) +
                piece.token * strides.token + piece.head * strides.head,
            strides.head};
  }
  /// The heads of a token's row of a cache; none where it has no row.
  static Heads<CacheElement> cachedHeads(void *data, const HeadStrides &strides,
                                         const Piece &piece,
                                         const RopeParams::CacheRow &row) {
    if (row.page < 0)
      return {};
    return {static_cast<CacheElement *>(data) + row.page * strides.batch +
                row.row * strides.token + piece.head * strides.head,
            strides.head};
  }

  /// Elements \p at and on of the columns that are copied, which lie before and
  /// behind the rotated ones.
  static int copiedColumn(int at) {
    if (at >= kCopied)
      return -1;
    return at < kSignature.rotaryOffset ? at : at + kSignature.rotaryDim;
  }
  static Columns valueColumns(int unit) {
    const int at = unit * 2 * kVector;
    return {at < kSignature.valueDim ? at : -1,
            at + kVector < kSignature.valueDim ? at + kVector : -1};
  }
  static Columns keyColumns(int unit, bool isWritten) {
    if (!isRotated(unit)) {
      const int at = (unit - kRotated) * 2 * kVector;
      return {copiedColumn(at), copiedColumn(at + kVector)};
    }
    const bool isHalved =
        kSignature.style == RopeStyle::Halves ||
        (kSignature.style == RopeStyle::InterleavedToHalves && isWritten);
    const int from = kSignature.rotaryOffset;
    if (isHalved)
      return {from + unit * kVector,
              from + kSignature.rotaryDim / 2 + unit * kVector};
    return {from + 2 * unit * kVector, from + 2 * unit * kVector + kVector};
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

  /// Heads that a piece lacks are its last one once more.
  template <class ColumnsOf>
  static void load(const Heads<const Element> &heads, int count,
                   const ColumnsOf &columnsOf, Loaded &loaded) {
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      const Element *head = heads.at(item < count ? item : count - 1);
#pragma unroll
      for (int i = 0; i < kUnits; ++i) {
        const Columns columns = columnsOf(unitOf(i));
        if (columns.first >= 0)
          loaded.load(item, i, 0, head + columns.first);
        if (columns.second >= 0)
          loaded.load(item, i, 1, head + columns.second);
      }
    }
  }

  //===--------------------------------------------------------------------===//
  // Q and K
  //===--------------------------------------------------------------------===//

  /// Where the heads of a piece go.
  struct Targets {
    Heads<Element> out;
    Heads<CacheElement> cache;
  };

  static Targets targetsOf(const RopeParams &params, bool isQ,
                           const Piece &piece, const Token &shared) {
    Targets to;
    if (isQ) {
      to.out = headsOf<Element>(params.qOut, params.qOutStrides, piece);
      return to;
    }
    if constexpr (kSignature.hasKOut)
      to.out = headsOf<Element>(params.kOut, params.kOutStrides, piece);
    if constexpr (kSignature.hasKCache) {
      to.cache = cachedHeads(params.kCache, params.kCacheStrides, piece,
                             shared.cached);
      if constexpr (kHasOneTarget)
        to.out = {reinterpret_cast<Element *>(to.cache.first), to.cache.stride};
    }
    return to;
  }

  /// Norms, rotates and stores the heads of a piece.
  static void turn(const RopeParams &params, bool isQ, const Piece &piece,
                   Token &shared, bool isLoaded) {
    Loaded loaded;
    load(
        headsOf<const Element>(isQ ? params.q : params.k,
                               isQ ? params.qStrides : params.kStrides, piece),
        piece.count, [](int unit) { return keyColumns(unit, false); }, loaded);
    if (!isLoaded)
      loadToken(params, piece.token, shared);
    const Targets to = targetsOf(params, isQ, piece, shared);
    loaded.await();
    // Results may overwrite elements that other lanes of the head still read.
    if constexpr (kSignature.style == RopeStyle::InterleavedToHalves)
      __syncwarp(groupMask());
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      float factor = 0;
      if (isNormed(isQ))
        factor = inverseRoot(params, loaded, item);
      if (item < piece.count)
        turnHead(params, isQ, piece.head + item, item, shared, loaded, factor,
                 to);
    }
  }
  static bool isNormed(bool isQ) {
    if constexpr (kSignature.hasQNorm == kSignature.hasKNorm)
      return kSignature.hasQNorm;
    return isQ ? kSignature.hasQNorm : kSignature.hasKNorm;
  }

  static void turnHead(const RopeParams &params, bool isQ, int head, int item,
                       const Token &shared, const Loaded &loaded, float factor,
                       const Targets &to) {
    const void *weights = isQ ? params.qWeight : params.kWeight;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const int unit = unitOf(i);
      const Columns from = keyColumns(unit, false);
      if (from.first < 0)
        continue;
      float first[kVector], second[kVector];
      unpackFloats<kType>(first, loaded.get(item, i, 0));
      unpackFloats<kType>(second, loaded.get(item, i, 1));
      if (kIsNormed && isNormed(isQ)) {
        scaleBy(weights, from.first, factor, first);
        if (from.second >= 0)
          scaleBy(weights, from.second, factor, second);
      }
      if (isRotated(unit))
        rotate(shared.cosine[i < kAngles ? i : 0],
               shared.sine[i < kAngles ? i : 0], first, second);
      const Columns columns = keyColumns(unit, true);
      if (to.out.first)
        put<kType>(to.out.at(item), columns, first, second, 1);
      if constexpr (!kHasOneTarget)
        if (to.cache.first)
          put<kSignature.cache>(to.cache.at(item), columns, first, second,
                                inverseScale(params.kScale, head));
    }
  }

  /// 1 over the root of the mean square of a head. All lanes of a group call
  /// it.
  static float inverseRoot(const RopeParams &params, const Loaded &loaded,
                           int item) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const Columns columns = keyColumns(unitOf(i), false);
      if (columns.first >= 0)
        sum += squares(loaded.get(item, i, 0));
      if (columns.second >= 0)
        sum += squares(loaded.get(item, i, 1));
    }
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2)
      sum += __shfl_xor_sync(groupMask(), sum, distance);
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

  static void scaleBy(const void *weights, int column, float factor,
                      float (&values)[kVector]) {
    float weight[kVector];
    unpackFloats<kType>(
        weight,
        loadVector<kBytes>(static_cast<const Element *>(weights) + column));
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
        rotatePair(cosine[i], sine[i], first[i], second[i]);
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
      rotatePair(cosine[i], sine[i], all[2 * i], all[2 * i + 1]);
    constexpr bool kSplits = kSignature.style == RopeStyle::InterleavedToHalves;
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      first[i] = all[kSplits ? 2 * i : i];
      second[i] = all[kSplits ? 2 * i + 1 : kVector + i];
    }
  }
  static void rotatePair(float cosine, float sine, float &a, float &b) {
    const float rotated = a * cosine - b * sine;
    b = b * cosine + a * sine;
    a = rotated;
  }

  //===--------------------------------------------------------------------===//
  // Stores, and V
  //===--------------------------------------------------------------------===//

  template <DType kOut>
  static void put(Storage<kOut> *head, Columns columns,
                  const float (&first)[kVector], const float (&second)[kVector],
                  float factor) {
    if (columns.first >= 0)
      putVector<kOut>(head + columns.first, first, factor);
    if (columns.second >= 0)
      putVector<kOut>(head + columns.second, second, factor);
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

  static void copyV(const RopeParams &params, const Piece &piece, Token &shared,
                    bool isLoaded) {
    Loaded loaded;
    load(headsOf<const Element>(params.v, params.vStrides, piece), piece.count,
         valueColumns, loaded);
    if (!isLoaded)
      loadToken(params, piece.token, shared);
    const Heads<CacheElement> cache =
        cachedHeads(params.vCache, params.vCacheStrides, piece, shared.cached);
    loaded.await();
    if (!cache.first)
      return;
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      if (item >= piece.count)
        continue;
      const float inverse = inverseScale(params.vScale, piece.head + item);
#pragma unroll
      for (int i = 0; i < kUnits; ++i) {
        const Columns columns = valueColumns(unitOf(i));
        if (columns.first >= 0)
          store(cache.at(item) + columns.first, loaded.get(item, i, 0),
                inverse);
        if (columns.second >= 0)
          store(cache.at(item) + columns.second, loaded.get(item, i, 1),
                inverse);
      }
    }
  }
  static void store(CacheElement *to, const Words<kBytes> &words,
                    float inverse) {
    if constexpr (kIsPlain)
      storeVector<kBytes>(to, words);
    else {
      float values[kVector];
      unpackFloats<kType>(values, words);
      putVector<kSignature.cache>(to, values, inverse);
    }
  }

  /// 1 over the scale of head \p head in a cache.
  static float inverseScale(const float *scales, int head) {
    if constexpr (kSignature.scales == ScaleKind::None)
      return 1;
    else
      return 1.0f / scales[kSignature.scales == ScaleKind::Row ? head : 0];
  }
};

/// Rotates and appends all tokens; any one-dimensional grid.
template <RopeSignature kSignature, HeadRopeConfig kConfig>
void headRope(const RopeParams &params) {
  HeadRope<kSignature, kConfig>::run(params);
}

} // namespace kiln
