//===- attention/DecodeRows.cuh - a warp's rows of queries ----------------===//
//
// The computation of one warp: scores of a tile of keys by mma.sync, the
// softmax with its running maximum, and the sums of O, all in registers. Row r
// of a block belongs to query r / group and to the r % group-th head of the
// group. The rows are the instruction's M side, padded to 16; with 8 rows only
// the products include the lower half of each tile.
//
// e4m3 is multiplied as fp16. A lane loads four neighbouring elements of K at
// once, so Q is loaded in that order and nothing moves between lanes. For V it
// loads pairs of columns of two keys, which byte permutations turn into the
// operands for even and for odd columns.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/AttentionRanges.h"
#include "attention/DecodeAttentionConfig.h"
#include "attention/Softcap.cuh"
#include "common/Convert.cuh"

namespace kiln {

/// The rows of a block: rows [begin, end) of all rows of one head of K.
struct DecodeBlockRows {
  AttentionTokens queries;
  int keys; ///< of the sequence
  int sequence, kvHead, group;
  int begin, end;

  /// Decoding with one query needs no division.
  int queryOf(int row) const { return queries.count == 1 ? 0 : row / group; }
  int headOf(int row) const {
    return kvHead * group + row - queryOf(row) * group;
  }
  /// The queries that have a row.
  AttentionRange range() const {
    return {queryOf(begin), queryOf(end - 1) + 1};
  }
};

namespace detail {

/// Converts four e4m3 in memory order to pairs of fp16, which are too small by
/// a factor of 256 before sm_89. NaN stays NaN.
inline void e4m3ToFp16(unsigned four, unsigned &low, unsigned &high) {
  if constexpr (__CUDA_ARCH__ >= 890) {
    low = ptx::cvtRnF16x2E4m3x2(static_cast<unsigned short>(four));
    high = ptx::cvtRnF16x2E4m3x2(static_cast<unsigned short>(four >> 16));
  } else {
    auto widen = [](unsigned two) {
      unsigned size = two >> 1 & 0x3f803f80u;
      // The sum reaches bit 14 for NaN (0x7f) alone, and gives an exponent of
      // ones.
      unsigned nan = (size + 0x00800080u) & 0x40004000u;
      return (two & 0x80008000u) | size | nan;
    };
    low = widen(__byte_perm(four, 0, 0x1404));
    high = widen(__byte_perm(four, 0, 0x3424));
  }
}

/// The factor that e4m3ToFp16 leaves out.
constexpr float e4m3Unit() { return __CUDA_ARCH__ >= 890 ? 1.0f : 256.0f; }

} // namespace detail

template <AttentionSignature kSignature, DecodeAttentionConfig kConfig>
class DecodeRows {
public:
  static constexpr bool kNarrow = bytesOf(kSignature.kv) == 1;
  static constexpr DType kMath = kNarrow ? DType::FP16 : kSignature.kv;
  static constexpr bool kMasked = kSignature.mask != AttentionMask::None;
  static constexpr int kRowTiles = kConfig.rowTiles();
  static constexpr int kHalves = kConfig.rows == 8 ? 1 : 2;
  static constexpr int kKeySteps = DecodeAttentionConfig::keySteps(kSignature);
  static constexpr int kCols = kConfig.partCols(kSignature); ///< of O
  static constexpr int kValueTiles = kCols / 8;
  static constexpr int kAllCols = DecodeAttentionConfig::valueCols(kSignature);
  /// The last parts have fewer columns, or none.
  static constexpr bool kIsRagged = kCols * kConfig.partCount() > kAllCols;
  static constexpr int kTile = kConfig.tile;
  static constexpr float kLog2E = 1.4426950408889634f;

  /// Loads the rows of Q with all threads of the block; shared queries go to
  /// \p shared. \p seen: the block's keys; \p part: this warp's part of the
  /// columns of O.
  DecodeRows(const AttentionParams &params, const DecodeBlockRows &rows,
             AttentionRange seen, int part, unsigned shared)
      : reach(reachOf(kSignature.mask, params.left, params.right)),
        queryCount(rows.queries.count), keyCount(rows.keys), range(seen),
        part(part), sharedQueries(shared + lane() * 16) {
    float scale = params.scale;
    if constexpr (kNarrow)
      scale *= detail::e4m3Unit();
    if constexpr (kSignature.scales)
      scale *= scaleOf(params, params.qScale, rows.sequence, rows.kvHead) *
               scaleOf(params, params.kScale, rows.sequence, rows.kvHead);
    if constexpr (kSignature.softcap) {
      tanhScale = scale / params.softcap * (2 * kLog2E);
      unit = params.softcap * kLog2E;
    } else
      unit = scale * kLog2E;
    open = seen;
    if constexpr (kMasked) {
      AttentionRange all = keysOfAll(reach, rows.range(), queryCount, keyCount);
      open = {max(seen.begin, all.begin), min(seen.end, all.end)};
    }
    const char *q[kRowTiles][2];
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        int row = rows.begin + tile * 16 + half * 8 + lane() / 4;
        bool exists = half < kHalves && row < rows.end;
        row = exists ? row : rows.begin;
        int query = rows.queryOf(row), head = rows.headOf(row);
        q[tile][half] =
            exists ? static_cast<const char *>(params.q) +
                         queryOffset<kSignature>(params.qStrides, rows.sequence,
                                                 rows.queries, head, query) *
                             bytesOf(kSignature.q)
                   : nullptr;
        if constexpr (kMasked || kSignature.alibi)
          queryOf[tile][half] = query;
        if constexpr (kSignature.alibi)
          slope[tile][half] = params.alibi[head] * kLog2E / unit;
        greatest[tile][half] = -infinity();
        total[tile][half] = 0;
      }
    loadQueries(q);
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile)
#pragma unroll
      for (int column = 0; column < kValueTiles; ++column)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          sums[tile][column][i] = 0;
  }

  /// Processes the tile of keys from \p first on, whose K and V are in shared
  /// memory; rows of V lie \p valuePitch bytes apart.
  void take(unsigned keyTile, unsigned valueTile, int valuePitch, int first) {
    float scores[kRowTiles][kTile / 8][4];
    multiplyKeys(scores, keyTile);
    bool open = isOpen(first);
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile) {
      adjust(scores[tile], tile, first);
      if (!open)
        mask(scores[tile], tile, first);
      soften(scores[tile], tile);
    }
    multiplyValues(scores, valueTile, valuePitch);
  }

  /// Adds the partial totals that four lanes have of a row.
  void joinTotals() {
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile)
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        float &sum = total[tile][half];
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      }
  }

  /// Calls \p visit(row, column, count, values) for each run of columns of this
  /// lane's sums.
  template <class F> void forEachSum(F &&visit) const {
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile)
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        int row = tile * 16 + half * 8 + lane() / 4;
        if constexpr (kNarrow) {
#pragma unroll
          for (int c = 0; c < kValueTiles; c += 2) {
            if (!hasColumn(c))
              break;
            const float(&even)[4] = sums[tile][c];
            const float(&odd)[4] = sums[tile][c + 1];
            visit(row, part * kCols + c * 8 + lane() % 4 * 4,
                  float4{even[2 * half], odd[2 * half], even[2 * half + 1],
                         odd[2 * half + 1]});
          }
        } else {
#pragma unroll
          for (int c = 0; c < kValueTiles; ++c) {
            if (!hasColumn(c))
              break;
            visit(row, part * kCols + c * 8 + lane() % 4 * 2,
                  float2{sums[tile][c][2 * half], sums[tile][c][2 * half + 1]});
          }
        }
      }
  }

  /// Calls \p visit(row, greatest, total) for each of this lane's rows.
  template <class F> void forEachRow(F &&visit) const {
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile)
#pragma unroll
      for (int half = 0; half < kHalves; ++half)
        visit(tile * 16 + half * 8 + lane() / 4, greatest[tile][half],
              total[tile][half]);
  }

  /// Scores times this are exponents of 2.
  float scoreUnit() const { return unit; }

  static float infinity() { return __uint_as_float(0x7f800000u); }

private:
  static int lane() { return threadIdx.x % 32; }

  /// Whether this warp's part includes tile \p column of its columns.
  bool hasColumn(int column) const {
    return !kIsRagged || part * kCols + column * 8 < kAllCols;
  }

  /// Whether a row of Q may end within the elements of four lanes, since it
  /// need not be whole chunks.
  static constexpr bool kEndsInside = kSignature.align < 16;

  static void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                       unsigned b1) {
    if constexpr (kMath == DType::BF16)
      ptx::mmaBf16(d, a, b0, b1);
    else
      ptx::mmaFp16(d, a, b0, b1);
  }

  /// \p q: the addresses of the rows; null for a row that does not exist, which
  /// becomes zeros.
  void loadQueries(const char *const (&q)[kRowTiles][2]) {
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile)
      if constexpr (kConfig.sharedQueries) {
#pragma unroll 1
        for (int step = threadIdx.x / 32; step < kKeySteps;
             step += kConfig.warps) {
          unsigned a[4];
          loadStep(a, q[tile], step);
          ptx::stShared128(sharedQueries + (tile * kKeySteps + step) * 32 * 16,
                           a);
        }
      } else {
#pragma unroll
        for (int step = 0; step < kKeySteps; ++step)
          loadStep(queries[tile][step], q[tile], step);
      }
    if constexpr (kConfig.sharedQueries)
      __syncthreads();
  }

  /// Loads one step of two rows; a[0] and a[2] belong to the upper one.
  static void loadStep(unsigned (&a)[4], const char *const (&rows)[2],
                       int step) {
    constexpr int kElementBytes = bytesOf(kSignature.q);
#pragma unroll
    for (int half = 0; half < 2; ++half)
      if constexpr (kNarrow) {
        int column = step * 16 + lane() % 4 * 4;
        float q[4] = {};
        if (rows[half] &&
            (kEndsInside ? column : step * 16) < kSignature.headDim)
          loadFour(q, rows[half] + column * kElementBytes);
        a[half] = packPair<DType::FP16>(q[0], q[1]);
        a[half + 2] = packPair<DType::FP16>(q[2], q[3]);
      } else {
#pragma unroll
        for (int part = 0; part < 2; ++part) {
          int column = step * 16 + part * 8;
          const char *at =
              rows[half] + (column + lane() % 4 * 2) * kElementBytes;
          int first = kEndsInside ? column + lane() % 4 * 2 : column;
          a[half + 2 * part] = rows[half] && first < kSignature.headDim
                                   ? *reinterpret_cast<const unsigned *>(at)
                                   : 0;
        }
      }
  }

  /// Four elements of Q.
  static void loadFour(float (&q)[4], const char *at) {
    constexpr int kBytes = bytesOf(kSignature.q);
    if constexpr (kSignature.align >= 4 * kBytes)
      loadFloats<kSignature.q, 4>(q, at);
    else {
      float low[2], high[2];
      loadFloats<kSignature.q, 2>(low, at);
      loadFloats<kSignature.q, 2>(high, at + 2 * kBytes);
      q[0] = low[0], q[1] = low[1], q[2] = high[0], q[3] = high[1];
    }
  }

  /// Q of one step; shared queries are loaded again each time.
  void queryStep(unsigned (&a)[4], int tile, int step) const {
    if constexpr (kConfig.sharedQueries) {
      uint4 loaded =
          ptx::ldShared128(sharedQueries + (tile * kKeySteps + step) * 32 * 16);
      a[0] = loaded.x, a[1] = loaded.y, a[2] = loaded.z, a[3] = loaded.w;
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        a[i] = queries[tile][step][i];
    }
  }

  void multiplyKeys(float (&scores)[kRowTiles][kTile / 8][4],
                    unsigned keyTile) {
    constexpr int kPitch =
        DecodeAttentionConfig::pitch(kSignature.headDim, kSignature.kv);
    // The matrices of one load: keys 0 to 7 in two chunks, then keys 8 to 15.
    unsigned at = keyTile + DecodeAttentionConfig::chunkOffset(
                                kSignature.headDim, kSignature.kv,
                                lane() / 16 * 8 + lane() % 8, lane() / 8 % 2);
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile)
#pragma unroll
      for (int j = 0; j < kTile / 8; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          scores[tile][j][i] = 0;
    constexpr int kStepsOfLoad = kNarrow ? 2 : 1;
#pragma unroll
    for (int step = 0; step < kKeySteps; step += kStepsOfLoad) {
      unsigned q[kRowTiles][kStepsOfLoad][4];
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile)
#pragma unroll
        for (int i = 0; i < kStepsOfLoad; ++i)
          queryStep(q[tile][i], tile, step + i);
#pragma unroll
      for (int j = 0; j < kTile / 16; ++j) {
        unsigned b[4];
        ptx::ldmatrixX4(b, DecodeAttentionConfig::furtherChunk(
                               kSignature.headDim, kSignature.kv, at,
                               step / kStepsOfLoad * 2) +
                               j * 16 * kPitch);
        if constexpr (kNarrow) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            unsigned low, high;
            detail::e4m3ToFp16(b[i], low, high);
#pragma unroll
            for (int tile = 0; tile < kRowTiles; ++tile)
              multiply(scores[tile][2 * j + i / 2], q[tile][i % 2], low, high);
          }
        } else {
#pragma unroll
          for (int tile = 0; tile < kRowTiles; ++tile) {
            multiply(scores[tile][2 * j], q[tile][0], b[0], b[1]);
            multiply(scores[tile][2 * j + 1], q[tile][0], b[2], b[3]);
          }
        }
      }
    }
  }

  /// Applies softcap and slopes. Without them scores stay as they are: their
  /// factors are in `unit`.
  void adjust(float (&scores)[kTile / 8][4], int tile, int first) {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      float bias = 0;
      if constexpr (kSignature.alibi)
        bias = slope[tile][half] *
               (first + lane() % 4 * 2 -
                positionOf(queryOf[tile][half], queryCount, keyCount));
#pragma unroll
      for (int j = 0; j < kTile / 8; ++j)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float &score = scores[j][2 * half + i];
          if constexpr (kSignature.softcap)
            score = detail::tanhOfExponent(score * tanhScale);
          if constexpr (kSignature.alibi)
            score += bias + slope[tile][half] * (j * 8 + i);
        }
    }
  }

  /// Whether all rows see all keys of the tile from \p first on.
  bool isOpen(int first) const {
    return first >= open.begin && first + kTile <= open.end;
  }

  void mask(float (&scores)[kTile / 8][4], int tile, int first) {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      int begin = range.begin, end = range.end;
      if constexpr (kMasked) {
        AttentionRange own =
            keysOf(reach, queryOf[tile][half], queryCount, keyCount);
        begin = max(begin, own.begin);
        end = min(end, own.end);
      }
#pragma unroll
      for (int j = 0; j < kTile / 8; ++j)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          int key = first + lane() % 4 * 2 + j * 8 + i;
          if (key < begin || key >= end)
            scores[j][2 * half + i] = -infinity();
        }
    }
  }

  /// Turns scores into exponentials relative to the greatest score so far, and
  /// rescales the earlier sums to it.
  void soften(float (&scores)[kTile / 8][4], int tile) {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      float before = greatest[tile][half], now = before;
#pragma unroll
      for (int j = 0; j < kTile / 8; ++j)
        now = fmaxf(now, fmaxf(scores[j][2 * half], scores[j][2 * half + 1]));
      now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 1));
      now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 2));
      greatest[tile][half] = now;
      // A row that has seen no key yet has exponentials of 0, not NaN.
      float origin = kMasked && now == -infinity() ? 0 : now * unit;
      float factor = ptx::ex2ApproxFtz(before * unit - origin);
      float sum = 0;
#pragma unroll
      for (int j = 0; j < kTile / 8; ++j)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float &score = scores[j][2 * half + i];
          score = ptx::ex2ApproxFtz(score * unit - origin);
          sum += score;
        }
      total[tile][half] = total[tile][half] * factor + sum;
#pragma unroll
      for (int column = 0; column < kValueTiles; ++column) {
        sums[tile][column][2 * half] *= factor;
        sums[tile][column][2 * half + 1] *= factor;
      }
    }
  }

  void multiplyValues(const float (&scores)[kRowTiles][kTile / 8][4],
                      unsigned valueTile, int pitch) {
    // The matrices of one load: keys 0 to 7 and 8 to 15 of one chunk, then of
    // the next chunk.
    constexpr int kBytes = kCols * bytesOf(kSignature.kv);
    const int row = lane() % 16;
    unsigned at = valueTile + part * kBytes + row * pitch +
                  (lane() / 16 ^ DecodeAttentionConfig::phase(
                                     kSignature.valueDim, kSignature.kv, row)) *
                      16;
#pragma unroll
    for (int j = 0; j < kTile / 16; ++j) {
      unsigned p[kRowTiles][4];
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          p[tile][i] =
              i % 2 < kHalves
                  ? packPair<kMath>(scores[tile][2 * j + i / 2][i % 2 * 2],
                                    scores[tile][2 * j + i / 2][i % 2 * 2 + 1])
                  : 0;
      constexpr int kTilesOfLoad = kNarrow ? 4 : 2;
#pragma unroll
      for (int column = 0; column < kValueTiles; column += kTilesOfLoad) {
        if (!hasColumn(column))
          break;
        unsigned b[4];
        ptx::ldmatrixX4Trans(b, DecodeAttentionConfig::furtherChunk(
                                    kSignature.valueDim, kSignature.kv, at,
                                    column / kTilesOfLoad * 2) +
                                    j * 16 * pitch);
        if constexpr (kNarrow) {
#pragma unroll
          for (int chunk = 0; chunk < 2; ++chunk)
            multiplyPairs(p, column + 2 * chunk, b[2 * chunk],
                          b[2 * chunk + 1]);
        } else {
#pragma unroll
          for (int tile = 0; tile < kRowTiles; ++tile) {
            multiply(sums[tile][column], p[tile], b[0], b[1]);
            multiply(sums[tile][column + 1], p[tile], b[2], b[3]);
          }
        }
      }
    }
  }

  /// \p low and \p high have pairs of columns of keys 0 to 7 and 8 to 15, two
  /// neighbouring keys each, so that the lower bytes of the halves are the even
  /// columns.
  void multiplyPairs(const unsigned (&p)[kRowTiles][4], int column,
                     unsigned low, unsigned high) {
    unsigned low0, low1, high0, high1;
    detail::e4m3ToFp16(low, low0, low1);
    detail::e4m3ToFp16(high, high0, high1);
    unsigned even[2] = {__byte_perm(low0, low1, 0x5410),
                        __byte_perm(high0, high1, 0x5410)};
    unsigned odd[2] = {__byte_perm(low0, low1, 0x7632),
                       __byte_perm(high0, high1, 0x7632)};
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile) {
      multiply(sums[tile][column], p[tile], even[0], even[1]);
      multiply(sums[tile][column + 1], p[tile], odd[0], odd[1]);
    }
  }

  // All members below belong to this lane: rows lane / 4 and lane / 4 + 8 of
  // each tile.
  unsigned queries[kRowTiles][kKeySteps][4]; ///< unless they are shared
  float sums[kRowTiles][kValueTiles][4];
  float greatest[kRowTiles][2], total[kRowTiles][2];
  int queryOf[kRowTiles][2];
  float slope[kRowTiles][2];
  AttentionReach reach;
  int queryCount, keyCount;
  AttentionRange range; ///< of the block's keys
  int part;             ///< of the columns of O
  AttentionRange open;  ///< of those that all rows see
  float unit, tanhScale = 0;
  unsigned sharedQueries; ///< this lane's
};

} // namespace kiln
