//===- attention/MmaAttention.cuh - attention by mma.sync -----------------===//
//
// Problem: scores must never reach memory. A block keeps its rows of O in
// registers and walks over the keys from the last to the first, a tile at a
// time: S = Q K^T, a softmax with the greatest score so far as its reference,
// O = O * correction + P V. An accumulator of mma.sync is laid out as the
// operand that the next one takes, so P never leaves the registers either.
//
// The knobs say how operands come there: through registers or by asynchronous
// copies, when they are needed or one product ahead (eagerLoads: K of the next
// tile is in flight under the softmax and PV, V under QK, each in its one
// buffer), in plain or permuted rows, and as whole tiles or step by step from
// shared memory to registers.
//
// Walking backwards puts the tiles that a causal mask or the end of the keys
// cuts first; whether a tile needs a mask is one uniform branch. Blocks of the
// grid that run together share K and V in L2: see locate().
//
// Limits: sm_80 and up, one buffer of K and V each, no splits of the keys. With
// 16 rows a warp each fragment of K and V serves two instructions and shared
// memory is the limit; with 32 rows it serves four.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/MmaAttentionTiles.cuh"

namespace kiln {

template <AttentionSignature kSignature, MmaAttentionConfig kConfig>
class MmaAttention {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");
  static_assert(__CUDA_ARCH__ >= 800, "mma.sync with cp.async needs sm_80");

  static constexpr int kRows = kConfig.blockRows, kKeys = kConfig.blockKeys;
  static constexpr int kThreads = kConfig.threads();
  static constexpr int kTilesM = kConfig.rowTiles();
  static constexpr int kWarpRows = 16 * kTilesM;
  static constexpr AttentionTileShape kKeyShape = kConfig.keyShape(kSignature);
  static constexpr AttentionTileShape kValueShape =
      kConfig.valueShape(kSignature);
  static constexpr int kStepsQk = kKeyShape.dim / 16; // of the head dimension
  static constexpr int kStepsPv = kKeys / 16;         // of the keys
  static constexpr int kTilesO = kValueShape.dim / 16;
  static constexpr bool kMasked = kSignature.mask != AttentionMask::None;
  static constexpr float kLog2e = 1.4426950408889634f;
  static constexpr int kVector = kSignature.align;

  static constexpr TileCopyShape copyShape(int rows, int valid,
                                           AttentionTileShape tile) {
    return {rows, valid, kVector, kThreads, tile, kConfig.asyncCopy != 0};
  }
  static constexpr TileCopyShape kQueryCopy =
      copyShape(kRows, kSignature.headDim, kKeyShape);
  static constexpr TileCopyShape kKeyCopy =
      copyShape(kKeys, kSignature.headDim, kKeyShape);
  static constexpr TileCopyShape kValueCopy =
      copyShape(kKeys, kSignature.valueDim, kValueShape);

  /// Sets of fragments of an operand with kSteps steps: one for each step, or
  /// those in use.
  static constexpr int slotsOf(int tiles, int steps) {
    return tiles == 0 ? steps : kConfig.doubleBuffer ? 2 : 1;
  }
  static constexpr int slotOf(int tiles, int step) {
    return tiles == 0 ? step : kConfig.doubleBuffer ? step % 2 : 0;
  }

  using Queries = unsigned[slotsOf(kConfig.queryTiles, kStepsQk)][kTilesM][4];
  using Scores = float[kTilesM][kKeys / 8][4];
  using Probabilities = unsigned[kTilesM][kStepsPv][4];
  using Output = float[kTilesM][2 * kTilesO][4];

public:
  static void run(const AttentionParams &params) {
    extern __shared__ __align__(128) unsigned char sharedMemory[];
    Place place;
    if (!locate(params, place))
      return;
    MmaAttention block(params, place, ptx::sharedAddress(sharedMemory));
    block.attend();
    // Found again rather than kept in registers through the loop.
    locate(params, place);
    block.finish();
  }

private:
  /// The rows of one block: of one sequence, and of the heads of one head of K
  /// if it packs them (row r is of token r / pack, head r % pack), else of one.
  struct Place {
    int sequence, head, kvHead;
    int pack;
    int firstRow;
    AttentionTokens queries, keys;
  };

  /// The grid is rowBlocks * section blocks wide, with a row of it for every
  /// `section` heads, over all sequences: blocks that run together work on few
  /// heads. Within a section the row blocks with the most keys come first.
  static bool locate(const AttentionParams &params, Place &place) {
    int group = params.heads / params.kvHeads;
    place.pack = kConfig.packedHeads(params.queries, group);
    int heads = params.heads / place.pack;
    int rowBlocks = static_cast<int>(
        kConfig.blocksOf(static_cast<long long>(params.queries) * place.pack));
    int section = gridDim.x / rowBlocks;
    int x = ptx::ctaidX();
    int of = ptx::ctaidY() * section + x % section;
    place.sequence = of / heads;
    if (place.sequence >= params.batch)
      return false;
    place.head = (of - place.sequence * heads) * place.pack;
    place.kvHead = place.head / group;
    int rowBlock = x / section;
    if constexpr (kMasked)
      rowBlock = rowBlocks - 1 - rowBlock;
    place.firstRow = rowBlock * kRows;
    place.queries = queriesOf<kSignature>(params, place.sequence);
    place.keys = keysOfSequence<kSignature>(params, place.sequence);
    return place.firstRow < place.queries.count * place.pack;
  }

  static unsigned lane() { return threadIdx.x % 32; }
  static int warpRow() { return threadIdx.x / 32 * kWarpRows; }
  /// Row in the block of half \p half of row tile \p tile of this thread.
  static int rowOf(int tile, int half) {
    return warpRow() + tile * 16 + half * 8 + lane() / 4;
  }

  MmaAttention(const AttentionParams &params, const Place &place,
               unsigned shared)
      : params(params), place(place), queryTile(shared),
        keyTile(shared + sharedBytesOfQ()),
        valueTile(keyTile + kKeys * kKeyShape.pitch()),
        // A's fragments: rows, then columns; B's: columns, then rows.
        queryAt(queryTile, warpRow() + lane() % 16, lane() / 16),
        keyAt(keyTile, lane() / 16 * 8 + lane() % 8, lane() / 8 % 2),
        valueAt(valueTile, lane() % 16, lane() / 16) {
    factor = params.scale;
    if constexpr (kSignature.softcap) {
      capScale = factor / params.softcap;
      factor = params.softcap;
    }
#pragma unroll
    for (int i = 0; i < kTilesM; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        greatest[i][half] = minusInfinity();
        sum[i][half] = 0.0f;
      }
#pragma unroll
    for (int i = 0; i < kTilesM; ++i)
#pragma unroll
      for (int j = 0; j < 2 * kTilesO; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          output[i][j][e] = 0.0f;
  }

  static constexpr int sharedBytesOfQ() {
    return kConfig.sharedBytes(kSignature) -
           kKeys * (kKeyShape.pitch() + kValueShape.pitch());
  }
  static float minusInfinity() { return __uint_as_float(0xff800000u); }

  /// Queries of the block, in tokens.
  AttentionRange tokens() const {
    int last = min(place.firstRow + kRows, place.queries.count * place.pack);
    return {place.firstRow / place.pack, (last - 1) / place.pack + 1};
  }
  AttentionReach reach() const {
    return reachOf(kSignature.mask, params.left, params.right);
  }

  //===--------------------------------------------------------------------===//
  // The loop over the keys
  //===--------------------------------------------------------------------===//

  void attend() {
    AttentionRange seen =
        keysOfAny(reach(), tokens(), place.queries.count, place.keys.count);
    AttentionRange blocks = blocksWith(seen, kKeys);
    AttentionRange whole = blocksWithin(
        keysOfAll(reach(), tokens(), place.queries.count, place.keys.count),
        kKeys);
    if (blocks.size() == 0)
      return;
    KeyRows<kSignature, kKeyCopy> rows(params, place.sequence, place.keys);
    KeyRows<kSignature, kValueCopy> valueRows(params, place.sequence,
                                              place.keys);
    Queries queries;
    copyQueries();
    rows.begin(blocks.end - 1);
    if constexpr (kConfig.eagerLoads)
      copyKeys(rows);
#pragma unroll 1
    for (int block = blocks.end - 1; block >= blocks.begin; --block) {
      valueRows.begin(block);
      if constexpr (!kConfig.eagerLoads) {
        __syncthreads(); // nobody reads the tile before
        rows.begin(block);
        copyKeys(rows);
      }
      publish();
      if constexpr (kConfig.eagerLoads)
        copyValues(valueRows);
      if constexpr (kConfig.queryTiles == 0)
        if (block == blocks.end - 1)
          loadQueries(queries);
      if constexpr (kConfig.eagerLoads)
        rows.begin(max(block - 1, blocks.begin));
      Scores scores;
      multiplyQk(queries, scores);
      if constexpr (!kConfig.eagerLoads)
        copyValues(valueRows);
      shape(scores, block * kKeys);
      if (!whole.contains(block))
        mask(scores, block * kKeys);
      Probabilities p;
      softmax(scores, p);
      publish();
      if constexpr (kConfig.eagerLoads)
        if (block > blocks.begin)
          copyKeys(rows);
      multiplyPv(p);
    }
  }

  /// Waits for all copies; everybody sees them, and is done with what it read.
  static void publish() {
    if constexpr (kConfig.asyncCopy) {
      ptx::cpAsyncCommit();
      ptx::cpAsyncWait<0>();
    }
    __syncthreads();
  }

  void copyQueries() const {
    int count = place.queries.count * place.pack;
    TileCopy<kQueryCopy>::run(
        queryTile, count - place.firstRow, [&](int, int row) {
          int at = min(place.firstRow + row, count - 1);
          int token = at / place.pack;
          return static_cast<const char *>(params.q) +
                 2 * queryOffset<kSignature>(
                         params.qStrides, place.sequence, place.queries,
                         place.head + at % place.pack, token);
        });
  }
  void copyKeys(const KeyRows<kSignature, kKeyCopy> &rows) const {
    rows.copy(keyTile, params.k, params.kStrides, place.kvHead);
  }
  void copyValues(const KeyRows<kSignature, kValueCopy> &rows) const {
    rows.copy(valueTile, params.v, params.vStrides, place.kvHead);
  }

  //===--------------------------------------------------------------------===//
  // Products
  //===--------------------------------------------------------------------===//

  void loadQueries(Queries &queries) const {
#pragma unroll
    for (int step = 0; step < kStepsQk; ++step)
      loadQueries(queries, queryAt, step);
  }
  static void loadQueries(Queries &queries,
                          const FragmentAddress<kKeyShape> &at, int step) {
#pragma unroll
    for (int i = 0; i < kTilesM; ++i)
      ptx::ldmatrixX4(queries[slotOf(kConfig.queryTiles, step)][i],
                      at(i * 16, step));
  }

  /// Has \p load bring step \p step of an operand with \p kTiles at once, where
  /// it is due; all steps of one that is loaded as a whole come first.
  template <int kTiles, int kSteps, class Load>
  static void loadBefore(int step, Load &&load) {
    if constexpr (kTiles == 0) {
      if (step == 0)
#pragma unroll
        for (int s = 0; s < kSteps; ++s)
          load(s);
    } else if constexpr (kConfig.doubleBuffer) {
      if (step == 0)
        load(0);
      if (step + 1 < kSteps)
        load(step + 1);
    } else
      load(step);
  }

  /// S = Q K^T.
  void multiplyQk(Queries &queries, Scores &scores) const {
    FragmentAddress<kKeyShape> queryFrom = queryAt.renewed();
    FragmentAddress<kKeyShape> keyFrom = keyAt.renewed();
    unsigned keys[slotsOf(kConfig.keyTiles, kStepsQk)][kKeys / 16][4];
#pragma unroll
    for (int i = 0; i < kTilesM; ++i)
#pragma unroll
      for (int j = 0; j < kKeys / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          scores[i][j][e] = 0.0f;
#pragma unroll
    for (int step = 0; step < kStepsQk; ++step) {
      if constexpr (kConfig.queryTiles != 0)
        loadBefore<kConfig.queryTiles, kStepsQk>(
            step, [&](int s) { loadQueries(queries, queryFrom, s); });
      loadBefore<kConfig.keyTiles, kStepsQk>(step, [&](int s) {
#pragma unroll
        for (int j = 0; j < kKeys / 16; ++j)
          ptx::ldmatrixX4(keys[slotOf(kConfig.keyTiles, s)][j],
                          keyFrom(j * 16, s));
      });
      auto &q = queries[slotOf(kConfig.queryTiles, step)];
      auto &k = keys[slotOf(kConfig.keyTiles, step)];
#pragma unroll
      for (int j = 0; j < kKeys / 8; ++j)
#pragma unroll
        for (int i = 0; i < kTilesM; ++i)
          multiplyAdd(scores[i][j], q[i], k[j / 2][j % 2 * 2],
                      k[j / 2][j % 2 * 2 + 1]);
    }
  }

  /// O += P V.
  void multiplyPv(const Probabilities &p) {
    FragmentAddress<kValueShape> valueFrom = valueAt.renewed();
    unsigned values[slotsOf(kConfig.valueTiles, kStepsPv)][kTilesO][4];
#pragma unroll
    for (int step = 0; step < kStepsPv; ++step) {
      loadBefore<kConfig.valueTiles, kStepsPv>(step, [&](int s) {
#pragma unroll
        for (int j = 0; j < kTilesO; ++j)
          ptx::ldmatrixX4Trans(values[slotOf(kConfig.valueTiles, s)][j],
                               valueFrom(s * 16, j));
      });
      auto &v = values[slotOf(kConfig.valueTiles, step)];
#pragma unroll
      for (int j = 0; j < 2 * kTilesO; ++j)
#pragma unroll
        for (int i = 0; i < kTilesM; ++i)
          multiplyAdd(output[i][j], p[i][step], v[j / 2][j % 2 * 2],
                      v[j / 2][j % 2 * 2 + 1]);
    }
  }

  static void multiplyAdd(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                          unsigned b1) {
    if constexpr (kSignature.q == DType::BF16)
      ptx::mmaBf16(d, a, b0, b1);
    else
      ptx::mmaFp16(d, a, b0, b1);
  }

  //===--------------------------------------------------------------------===//
  // Softmax
  //===--------------------------------------------------------------------===//

  /// 1 - 2 / (1 + e^2x): the approximation of the hardware would cost a score
  /// of 20 a hundredth.
  static float tanhOf(float x) {
    return 1.0f -
           2.0f * ptx::rcpApproxFtz(1.0f + ptx::ex2ApproxFtz(2 * kLog2e * x));
  }

  /// Position of a row of the block among the keys.
  int positionOfRow(int row) const {
    return positionOf((place.firstRow + row) / place.pack, place.queries.count,
                      place.keys.count);
  }
  int headOfRow(int row) const {
    return place.head + (place.firstRow + row) % place.pack;
  }

  /// What scores are before the mask, in units of `factor`: cap and slope.
  void shape(Scores &scores, int firstKey) const {
#pragma unroll
    for (int i = 0; i < kTilesM; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float slope = 0, distance = 0;
        if constexpr (kSignature.alibi) {
          int row = rowOf(i, half);
          slope = params.alibi[headOfRow(row)] / factor;
          distance = static_cast<float>(
              firstKey + static_cast<int>(lane() % 4 * 2) - positionOfRow(row));
        }
#pragma unroll
        for (int j = 0; j < kKeys / 8; ++j)
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            float &score = scores[i][j][2 * half + e];
            if constexpr (kSignature.softcap)
              score = tanhOf(score * capScale);
            if constexpr (kSignature.alibi)
              score += slope * (distance + static_cast<float>(8 * j + e));
            if constexpr (!kConfig.optimizedSoftmax)
              score *= factor;
          }
      }
  }

  /// Minus infinity for keys that a row does not see.
  void mask(Scores &scores, int firstKey) const {
    int laneKey = firstKey + static_cast<int>(lane() % 4 * 2);
#pragma unroll
    for (int i = 0; i < kTilesM; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        int token = (place.firstRow + rowOf(i, half)) / place.pack;
        int end =
            keyLimitOf(reach(), token, place.queries.count, place.keys.count) -
            laneKey;
        int begin = 0;
        if constexpr (kSignature.mask == AttentionMask::Window)
          begin = firstKeyOf(reach(), token, place.queries.count,
                             place.keys.count) -
                  laneKey;
#pragma unroll
        for (int j = 0; j < kKeys / 8; ++j)
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            bool hidden = 8 * j + e >= end;
            if constexpr (kSignature.mask == AttentionMask::Window)
              hidden |= 8 * j + e < begin;
            if (hidden)
              scores[i][j][2 * half + e] = minusInfinity();
          }
      }
  }

  /// From scores to the powers that O is a sum with: what O and the sum have so
  /// far is brought to the new greatest score. A thread has its own columns'
  /// part of the sum.
  void softmax(Scores &scores, Probabilities &p) {
    float scale = kConfig.optimizedSoftmax ? factor * kLog2e : kLog2e;
#pragma unroll
    for (int i = 0; i < kTilesM; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float most = greatest[i][half];
#pragma unroll
        for (int j = 0; j < kKeys / 8; ++j)
          most = fmaxf(
              most, fmaxf(scores[i][j][2 * half], scores[i][j][2 * half + 1]));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
        float before = greatest[i][half];
        greatest[i][half] = most;
        // A row that sees no key yet: its powers are 0, not NaN.
        float reference = kMasked && most == minusInfinity() ? 0.0f : most;
        float correction = ptx::ex2ApproxFtz((before - reference) * scale);
        sum[i][half] *= correction;
#pragma unroll
        for (int j = 0; j < 2 * kTilesO; ++j) {
          output[i][j][2 * half] *= correction;
          output[i][j][2 * half + 1] *= correction;
        }
        float offset = reference * scale;
#pragma unroll
        for (int j = 0; j < kKeys / 8; ++j) {
          float &a = scores[i][j][2 * half], &b = scores[i][j][2 * half + 1];
          if constexpr (kConfig.optimizedSoftmax) {
            a = ptx::ex2ApproxFtz(fmaf(a, scale, -offset));
            b = ptx::ex2ApproxFtz(fmaf(b, scale, -offset));
          } else {
            a = ptx::ex2ApproxFtz((a - reference) * scale);
            b = ptx::ex2ApproxFtz((b - reference) * scale);
          }
          sum[i][half] += a + b;
          p[i][j / 2][j % 2 * 2 + half] = packPair<kSignature.q>(a, b);
        }
      }
  }

  //===--------------------------------------------------------------------===//
  // The end
  //===--------------------------------------------------------------------===//

  /// Normalises O and stores it, and the logarithms of the sums.
  void finish() {
    // O takes the room of Q, whose rows other warps may still read.
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kTilesM; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        int row = rowOf(i, half);
        float inverse = finishRow(row, greatest[i][half], sum[i][half]);
#pragma unroll
        for (int j = 0; j < 2 * kTilesO; ++j)
          ptx::stShared32(
              queryTile + tileOffset<kValueShape>(row, j * 16 + lane() % 4 * 4),
              packPair<kSignature.out>(output[i][j][2 * half] * inverse,
                                       output[i][j][2 * half + 1] * inverse));
      }
    __syncwarp();
    storeOutput();
  }

  /// What a row of O is to be multiplied by; stores its LSE.
  float finishRow(int row, float most, float part) const {
    float total = part + __shfl_xor_sync(~0u, part, 1);
    total += __shfl_xor_sync(~0u, total, 2);
    bool exists = place.firstRow + row < place.queries.count * place.pack;
    float greatestLog2 =
        most * (kConfig.optimizedSoftmax ? factor * kLog2e : kLog2e);
    float inverse = 0, lse = minusInfinity();
    if (total > 0) {
      float weight = 1;
      if (kSignature.sinks && exists) {
        float sink = params.sinks[headOfRow(row)] * kLog2e;
        float both = fmaxf(greatestLog2, sink);
        weight = ptx::ex2ApproxFtz(greatestLog2 - both);
        total = total * weight + ptx::ex2ApproxFtz(sink - both);
        greatestLog2 = both;
      }
      inverse = weight / total;
      lse = (greatestLog2 + log2f(total)) / kLog2e;
    }
    if constexpr (kSignature.lse)
      if (lane() % 4 == 0 && exists)
        params.lse[lseOffset<kSignature>(
            params, place.sequence, place.queries, headOfRow(row),
            (place.firstRow + row) / place.pack)] = lse;
    return inverse;
  }

  /// Each warp stores its own rows.
  void storeOutput() const {
    constexpr int kUnits = kValueShape.rowBytes() / kVector;
    constexpr int kLowest = kUnits & -kUnits;
    constexpr int kLanes = kLowest < 16 ? kLowest : 16;
    constexpr int kRowsPerPass = 32 / kLanes;
#pragma unroll 4
    for (int pass = 0; pass < kWarpRows / kRowsPerPass; ++pass) {
      int row = warpRow() + pass * kRowsPerPass + lane() / kLanes;
      int at = place.firstRow + row;
      if (at >= place.queries.count * place.pack)
        continue;
      int token = at / place.pack;
      char *target = static_cast<char *>(params.o) +
                     2 * queryOffset<kSignature>(
                             params.oStrides, place.sequence, place.queries,
                             place.head + at % place.pack, token);
#pragma unroll
      for (int unit = 0; unit < kUnits; unit += kLanes) {
        int byte = (unit + lane() % kLanes) * kVector;
        if (kValueShape.dim == kSignature.valueDim ||
            byte < 2 * kSignature.valueDim)
          storeWords<kVector>(
              target + byte,
              loadShared(queryTile + tileOffset<kValueShape>(row, byte)));
      }
    }
  }

  static Words<kVector> loadShared(unsigned shared) {
    if constexpr (kVector == 16) {
      uint4 words = ptx::ldShared128(shared);
      return {words.x, words.y, words.z, words.w};
    } else if constexpr (kVector == 8)
      return {ptx::ldShared32(shared), ptx::ldShared32(shared + 4)};
    else
      return {ptx::ldShared32(shared)};
  }

  const AttentionParams &params;
  const Place &place;
  unsigned queryTile, keyTile, valueTile;
  FragmentAddress<kKeyShape> queryAt, keyAt;
  FragmentAddress<kValueShape> valueAt;
  /// Scores times this are those of the problem.
  float factor, capScale;
  float greatest[kTilesM][2], sum[kTilesM][2]; // (row tiles, halves)
  Output output;
};

template <AttentionSignature kSignature, MmaAttentionConfig kConfig>
void mmaAttention(const AttentionParams &params) {
  MmaAttention<kSignature, kConfig>::run(params);
}

} // namespace kiln
