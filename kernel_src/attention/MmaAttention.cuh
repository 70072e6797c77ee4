//===- attention/MmaAttention.cuh - attention by mma.sync -----------------===//
//
// Problem: scores must never reach memory. A block keeps its rows of O in
// registers and walks over the keys from the last to the first, a tile at a
// time: S = Q K^T, a softmax relative to the greatest score so far, O = O *
// correction + P V. An accumulator of mma.sync has the layout of the next
// instruction's operand, so P never leaves the registers either.
//
// The knobs say how operands are loaded: through registers or by asynchronous
// copies; when they are needed or one product ahead (eagerLoads: K of the next
// tile is in flight under the softmax and PV, V under QK, each in its one
// buffer); in plain or permuted rows; and from shared memory to registers as
// whole tiles or step by step.
//
// Walking backwards puts the tiles that a causal mask or the end of the keys
// cuts first; whether a tile needs a mask is one uniform branch. Blocks that
// run together share K and V in L2: see MmaAttentionPlace.cuh.
//
// Limits: sm_80 and up, one buffer of K and V each, no splits of the keys. With
// 16 rows a warp each fragment of K and V serves two instructions and shared
// memory is the limit; with 32 rows it serves four.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/MmaAttentionSoftmax.cuh"
#include "attention/MmaAttentionTiles.cuh"
#include "common/Dependent.cuh"

namespace kiln {

template <AttentionSignature kSignature, MmaAttentionConfig kConfig>
class MmaAttention {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");
  static_assert(__CUDA_ARCH__ >= 800, "mma.sync with cp.async needs sm_80");

  static constexpr int kRows = kConfig.blockRows, kKeys = kConfig.blockKeys;
  static constexpr int kThreads = kConfig.threads();
  static constexpr int kTilesM = kConfig.rowTiles();
  static constexpr AttentionTileShape kKeyShape = kConfig.keyShape(kSignature);
  static constexpr AttentionTileShape kValueShape =
      kConfig.valueShape(kSignature);
  static constexpr int kStepsQk = kKeyShape.dim / 16; // of the head dimension
  static constexpr int kStepsPv = kKeys / 16;         // of the keys
  static constexpr int kTilesO = kValueShape.dim / 16;
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

  /// Number of sets of fragments for an operand with \p steps steps: one for
  /// each step, or as many as are in use at a time.
  static constexpr int slotsOf(int tiles, int steps) {
    return tiles == 0 ? steps : kConfig.doubleBuffer ? 2 : 1;
  }
  static constexpr int slotOf(int tiles, int step) {
    return tiles == 0 ? step : kConfig.doubleBuffer ? step % 2 : 0;
  }

  using Queries = unsigned[slotsOf(kConfig.queryTiles, kStepsQk)][kTilesM][4];
  using Place = MmaAttentionPlace<kSignature, kConfig>;
  using Softmax = MmaAttentionSoftmax<kSignature, kConfig>;
  using Scores = typename Softmax::Scores;
  using Probabilities = typename Softmax::Probabilities;
  using Output = typename Softmax::Output;

public:
  static void run(const AttentionParams &params) {
    extern __shared__ __align__(128) unsigned char sharedMemory[];
    allowSuccessor();
    awaitPredecessor();
    Place place;
    if (!place.locate(params))
      return;
    MmaAttention block(params, place, ptx::sharedAddress(sharedMemory));
    block.attend();
    // The place is computed again, which keeps it out of registers during the
    // loop.
    place.locate(params);
    block.finish();
  }

private:
  MmaAttention(const AttentionParams &params, const Place &place,
               unsigned shared)
      : params(params), place(place), queryTile(shared),
        keyTile(shared + sharedBytesOfQ()),
        valueTile(keyTile + kKeys * kKeyShape.pitch()),
        // Fragments of A go by rows, then columns; fragments of B by columns,
        // then rows.
        queryAt(queryTile, warpRow() + lane() % 16, lane() / 16),
        keyAt(keyTile, lane() / 16 * 8 + lane() % 8, lane() / 8 % 2),
        valueAt(valueTile, lane() % 16, lane() / 16), softmax(params, place) {
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
  static unsigned lane() { return Place::lane(); }
  static int warpRow() { return Place::warpRow(); }

  //===--------------------------------------------------------------------===//
  // The loop over the keys
  //===--------------------------------------------------------------------===//

  void attend() {
    AttentionReach reach = reachOf(kSignature.mask, params.left, params.right);
    AttentionRange tokens = place.tokens();
    AttentionRange blocks = blocksWith(
        keysOfAny(reach, tokens, place.queries.count, place.keys.count), kKeys);
    AttentionRange whole = blocksWithin(
        keysOfAll(reach, tokens, place.queries.count, place.keys.count), kKeys);
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
        __syncthreads(); // no warp reads the tile before
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
      softmax.shape(scores, block * kKeys);
      if (!whole.contains(block))
        softmax.mask(scores, block * kKeys);
      Probabilities p;
      softmax.weigh(scores, p, output);
      publish();
      if constexpr (kConfig.eagerLoads)
        if (block > blocks.begin)
          copyKeys(rows);
      multiplyPv(p);
    }
  }

  /// Waits for all copies. Behind it all threads see them, and have finished
  /// their reads.
  static void publish() {
    if constexpr (kConfig.asyncCopy) {
      ptx::cpAsyncCommit();
      ptx::cpAsyncWait<0>();
    }
    __syncthreads();
  }

  void copyQueries() const {
    int count = place.rowCount();
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

  /// Has \p load bring step \p step of an operand with \p kTiles at once where
  /// it is due. An operand that is loaded as a whole brings all steps first.
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
  // The end
  //===--------------------------------------------------------------------===//

  /// Normalises and stores O, and stores the logarithms of the sums.
  void finish() {
    // O takes the place of Q, whose rows other warps may still read.
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kTilesM; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        int row = Place::rowOf(i, half);
        float inverse = softmax.finishRow(i, half);
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

  /// Each warp stores its own rows.
  void storeOutput() const {
    constexpr int kUnits = kValueShape.rowBytes() / kVector;
    constexpr int kLowest = kUnits & -kUnits;
    constexpr int kLanes = kLowest < 16 ? kLowest : 16;
    constexpr int kRowsPerPass = 32 / kLanes;
#pragma unroll 4
    for (int pass = 0; pass < Place::kWarpRows / kRowsPerPass; ++pass) {
      int row = warpRow() + pass * kRowsPerPass + lane() / kLanes;
      if (place.firstRow + row >= place.rowCount())
        continue;
      char *target = static_cast<char *>(params.o) +
                     2 * queryOffset<kSignature>(
                             params.oStrides, place.sequence, place.queries,
                             place.headOf(row), place.tokenOf(row));
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
  Softmax softmax;
  Output output;
};

template <AttentionSignature kSignature, MmaAttentionConfig kConfig>
void mmaAttention(const AttentionParams &params) {
  MmaAttention<kSignature, kConfig>::run(params);
}

} // namespace kiln
