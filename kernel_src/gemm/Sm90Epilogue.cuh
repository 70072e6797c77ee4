//===- gemm/Sm90Epilogue.cuh - from wgmma's sums to D ---------------------===//
//
// A consumer finishes its sums piece by piece: 64 rows of wgmma by as many
// columns as a 128-byte row of D has. A piece goes through a swizzled staging
// buffer in shared memory, so that D is written in whole lines; two buffers
// alternate, one filling while the other is read. Where D is aligned to 16
// bytes one thread stores the piece by TMA, which also leaves out what is
// outside of D; where it is not, rows are shifted to the alignment that each
// has in D, so that all but their ends are 16-byte stores all the same.
//
// With swapAB the rows of wgmma are columns of D: stores to the staging buffer
// are transposed, the rest is the same.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Swizzle.cuh"
#include "gemm/GemmEpilogue.cuh"
#include "gemm/Sm90Tiles.cuh"

namespace kiln {

template <GemmSignature kSignature, Sm90GemmConfig kConfig>
class Sm90Epilogue {
  static constexpr DType kOut = kSignature.out;
  static constexpr int kOutBytes = bytesOf(kOut);
  static constexpr int kThreads = Sm90GemmConfig::kWarpgroup;
  static constexpr int kUnit = Sm90GemmConfig::kUnit;
  static constexpr int kUnits = kConfig.units(), kColumns = kConfig.columns();
  static constexpr int kPiece = kConfig.pieceColumns(kSignature);
  static constexpr int kPieces = kColumns / kPiece; ///< of a unit
  static constexpr bool kSwap = kConfig.swapAB;
  /// A staged piece is one or two boxes of rows of D, one after the other.
  static constexpr int kBoxRows = kSwap ? kPiece : kUnit;
  static constexpr int kRowBytes =
      kSwap ? Sm90GemmConfig::kSlabBytes : kPiece * kOutBytes;
  static constexpr int kBoxes = kSwap ? kUnit * kOutBytes / kRowBytes : 1;
  static constexpr int kBoxColumns = kRowBytes / kOutBytes;
  static constexpr int kBoxBytes = kBoxRows * kRowBytes;
  static constexpr int kBufferBytes =
      kConfig.stagingBytes(kSignature) / kConfig.consumers /
      Sm90GemmConfig::kStagingBuffers;
  /// D's rows begin at multiples of 16 bytes, as TMA wants them.
  static constexpr bool kByTma = kSignature.alignD == 16;

  using Shared = Sm90Shared<kSignature, kConfig>;
  using Walk = Sm90Walk<kConfig>;
  using Accumulators = float[kUnits][kColumns / 2];

public:
  Sm90Epilogue(const Sm90GemmParams &params, const Shared &shared, int consumer)
      : params(params), shared(shared), consumer(consumer),
        staging(shared.staging(consumer)) {}

  /// Finishes this consumer's part of \p tile; returns with stores under way.
  void store(const Sm90Tile &tile, const Walk &walk, Accumulators &sums) {
    if constexpr (kConfig.splits)
      if (walk.splits > 1)
        exchange(tile, walk, sums);
    EpilogueOperands operands =
        epilogueOperands<kSignature>(params.gemm, tile.batch);
    int rowBegin =
        tile.rowBegin + (kConfig.pingPong ? 0 : consumer * kUnits * kUnit);
#pragma unroll
    for (int unit = 0; unit < kUnits; ++unit)
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) {
        if constexpr (kConfig.splits)
          if (!owns(walk, unit * kPieces + piece))
            continue;
        storePiece(operands, tile.batch, rowBegin + unit * kUnit,
                   tile.columnBegin + piece * kPiece,
                   sums[unit] + piece * (kPiece / 2));
      }
  }

  /// Waits until no store reads shared memory any more.
  void finish() {
    if constexpr (kByTma)
      if (thread() == 0)
        ptx::bulkWaitRead<0>();
  }

private:
  static int thread() { return threadIdx.x % kThreads; }
  static int lane() { return threadIdx.x % 32; }
  static int warp() { return threadIdx.x % kThreads / 32; }

  /// A barrier of this consumer's threads; 0 is the block's.
  void barrier() const { ptx::barSync(1 + consumer, kThreads); }

  //===--------------------------------------------------------------------===//
  // Splits
  //===--------------------------------------------------------------------===//

  static bool owns(const Walk &walk, int piece) {
    return walk.splits == 1 || piece % walk.splits == walk.splitRank();
  }

  /// Partial sums of one piece of this consumer: a thread's vectors of four lie
  /// kThreads vectors apart.
  float4 *partials(const Sm90Tile &tile, int splits, int split,
                   int piece) const {
    constexpr long long kTileFloats =
        static_cast<long long>(kConfig.blockM) * kConfig.blockN;
    return reinterpret_cast<float4 *>(
               params.gemm.partials +
               (tile.index * splits + split) * kTileFloats +
               (consumer * kUnits * kPieces + piece) * (kUnit * kPiece)) +
           thread();
  }

  /// Publishes the pieces that other splits own and adds theirs to this
  /// split's own, in the order of the splits.
  void exchange(const Sm90Tile &tile, const Walk &walk, Accumulators &sums) {
#pragma unroll
    for (int i = 0; i < kUnits * kPieces; ++i)
      if (!owns(walk, i))
        publish(partials(tile, walk.splits, walk.splitRank(), i),
                sums[i / kPieces] + i % kPieces * (kPiece / 2));
    barrier();
    if (thread() < walk.splits)
      ptx::mbarrierArriveReleaseCluster(
          ptx::mapaSharedCluster(shared.split(), thread()));
    ptx::mbarrierWaitCluster(shared.split(), splitPhase);
    splitPhase ^= 1;
#pragma unroll
    for (int i = 0; i < kUnits * kPieces; ++i)
      if (owns(walk, i))
#pragma unroll 1
        for (int other = 1; other < walk.splits; ++other) {
          int split = walk.splitRank() + other;
          if (split >= walk.splits)
            split -= walk.splits;
          add(sums[i / kPieces] + i % kPieces * (kPiece / 2),
              partials(tile, walk.splits, split, i));
        }
  }

  static void publish(float4 *partial, const float *sums) {
#pragma unroll
    for (int i = 0; i < kPiece / 8; ++i)
      ptx::stGlobalCg(partial + i * kThreads, {sums[4 * i], sums[4 * i + 1],
                                               sums[4 * i + 2],
                                               sums[4 * i + 3]});
  }

  static void add(float *sums, const float4 *partial) {
#pragma unroll
    for (int i = 0; i < kPiece / 8; ++i) {
      float4 part = ptx::ldGlobalCg(partial + i * kThreads);
      sums[4 * i] += part.x;
      sums[4 * i + 1] += part.y;
      sums[4 * i + 2] += part.z;
      sums[4 * i + 3] += part.w;
    }
  }

  //===--------------------------------------------------------------------===//
  // Pieces
  //===--------------------------------------------------------------------===//

  /// Finishes and stores a piece whose first sum is of (row, column) on the
  /// tile's sides.
  void storePiece(const EpilogueOperands &operands, int batch, int row,
                  int column, const float *sums) {
    unsigned buffer = staging + next * kBufferBytes;
    next ^= 1;
    if constexpr (kByTma) {
      // The store before the last has left this buffer.
      if (thread() == 0)
        ptx::bulkWaitRead<Sm90GemmConfig::kStagingBuffers - 1>();
      barrier();
    }
    stage(operands, row, column, sums, buffer);
    int rowOfD = kSwap ? column : row, columnOfD = kSwap ? row : column;
    if constexpr (kByTma) {
      ptx::fenceProxyAsync();
      barrier();
      if (thread() == 0) {
#pragma unroll
        for (int box = 0; box < kBoxes; ++box)
          ptx::tmaStore(&params.d, buffer + box * kBoxBytes,
                        columnOfD + box * kBoxColumns, rowOfD, batch);
        ptx::bulkCommit();
      }
    } else {
      // Whoever passes has finished reading the other buffer.
      barrier();
#pragma unroll
      for (int box = 0; box < kBoxes; ++box)
        storeShifted(operands.d, buffer + box * kBoxBytes, rowOfD,
                     columnOfD + box * kBoxColumns);
    }
  }

  /// Writes the finished piece to \p buffer. Lane l has of each 8 columns the
  /// two from 2 (l % 4) on, of rows l / 4 and l / 4 + 8 of its warp's 16.
  void stage(const EpilogueOperands &operands, int row, int column,
             const float *sums, unsigned buffer) const {
    long long ownRow = row + warp() * 16 + lane() / 4;
    long long ownColumn = column + lane() % 4 * 2;
#pragma unroll
    for (int j = 0; j < kPiece / 8; j += 2) {
      constexpr int kStep = kPiece >= 16 ? 2 : 1;
      unsigned words[4];
#pragma unroll
      for (int i = 0; i < 2 * kStep; ++i) {
        float pair[2] = {sums[(j + i / 2) * 4 + i % 2 * 2],
                         sums[(j + i / 2) * 4 + i % 2 * 2 + 1]};
        finishPair(operands, ownRow + i % 2 * 8, ownColumn + (j + i / 2) * 8,
                   pair);
        if constexpr (kOutBytes == 2)
          words[i] = packPair<kOut>(pair[0], pair[1]);
        else
          stageFloats(buffer, warp() * 16 + lane() / 4 + i % 2 * 8,
                      (j + i / 2) * 8 + lane() % 4 * 2, pair);
      }
      if constexpr (kOutBytes == 2)
        stageWords(buffer, j, words);
    }
  }

  /// Offset in a staged piece of byte \p byte of row \p row, as TMA swizzles.
  static unsigned stagedOffset(unsigned row, unsigned byte) {
    return swizzledOffset<kRowBytes, SwizzleFor::Ldmatrix>(row, byte);
  }

  /// Stores the 16 x 16 (16 x 8 where a piece has no more) results from column
  /// block \p j on.
  static void stageWords(unsigned buffer, int j, const unsigned (&words)[4]) {
    int matrix = lane() / 8, within = lane() % 8;
    int rowBlock = warp() * 2 + matrix % 2, columnBlock = j + matrix / 2;
    if constexpr (!kSwap)
      ptx::stmatrixX4(
          buffer + stagedOffset(rowBlock * 8 + within, columnBlock * 16),
          words);
    else if constexpr (kPiece % 16 == 0)
      ptx::stmatrixX4Trans(
          buffer + stagedOffset(columnBlock * 8 + within, rowBlock * 16),
          words);
    else {
      // A last block of 8 columns; the upper lanes' addresses are not used.
      bool isLast = j * 8 + 8 == kPiece;
      if (!isLast)
        ptx::stmatrixX4Trans(
            buffer + stagedOffset(columnBlock * 8 + within, rowBlock * 16),
            words);
      else
        ptx::stmatrixX2Trans(buffer +
                                 stagedOffset(j * 8 + within, rowBlock * 16),
                             words[0], words[1]);
    }
  }

  /// Stores two results of one row on the tile's sides.
  static void stageFloats(unsigned buffer, int row, int column,
                          const float (&pair)[2]) {
    if constexpr (!kSwap)
      ptx::stShared64(buffer + stagedOffset(row, column * 4),
                      __float_as_uint(pair[0]), __float_as_uint(pair[1]));
    else {
      unsigned box = buffer + row / kBoxColumns * kBoxBytes;
#pragma unroll
      for (int i = 0; i < 2; ++i)
        ptx::stShared32(box +
                            stagedOffset(column + i, row % kBoxColumns * 4),
                        __float_as_uint(pair[i]));
    }
  }

  //===--------------------------------------------------------------------===//
  // The chain
  //===--------------------------------------------------------------------===//

  /// Applies alpha, C and the chain to two sums of one row and neighbouring
  /// columns, on the tile's sides.
  void finishPair(const EpilogueOperands &operands, long long row,
                  long long column, float (&pair)[2]) const {
    constexpr PointwiseChain kChain = kSignature.pointwise;
    constexpr bool kBias = kChain.contains(PointwiseOp::Bias);
    constexpr bool kResidual = kChain.contains(PointwiseOp::Residual);
    float bias[2] = {}, residual[2] = {};
    if constexpr (kBias)
      loadPair(bias, operands.bias, 0, 0, row, column);
    if constexpr (kResidual)
      loadPair(residual, operands.residual, params.gemm.ldResidual, 1, row,
               column);
    pair[0] *= operands.alpha;
    pair[1] *= operands.alpha;
    if constexpr (kSignature.readsC)
      if (operands.beta != 0.0f) {
        float c[2];
        loadPair(c, operands.c, params.gemm.ldc, 1, row, column);
        pair[0] += operands.beta * c[0];
        pair[1] += operands.beta * c[1];
      }
    applyChainToPair<kChain>(
        pair[0], pair[1], sharedOperands<kChain>(bias[0], residual[0]),
        sharedOperands<kChain>(bias[1], residual[1]));
  }

  /// Loads what belongs to the pair from an operand of D's shape, or with
  /// \p rowScale 0 from a row of it; 0 outside of D.
  void loadPair(float (&out)[2], const char *operand, long long ld,
                int rowScale, long long row, long long column) const {
    out[0] = out[1] = 0.0f;
    if constexpr (kSwap) {
      // Two rows of D, one column.
      if (row < params.gemm.n)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          if (column + i < params.gemm.m)
            loadOne(out[i], operand, (column + i) * rowScale * ld + row);
    } else if (row < params.gemm.m) {
      long long at = row * rowScale * ld + column;
      if constexpr (kSignature.alignD >= 2 * kOutBytes) {
        if (column + 1 < params.gemm.n) {
          loadFloats<kOut>(out, operand + at * kOutBytes);
          return;
        }
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
        if (column + i < params.gemm.n)
          loadOne(out[i], operand, at + i);
    }
  }

  static void loadOne(float &out, const char *operand, long long at) {
    float one[1];
    loadFloats<kOut>(one, operand + at * kOutBytes);
    out = one[0];
  }

  //===--------------------------------------------------------------------===//
  // Stores to an unaligned D
  //===--------------------------------------------------------------------===//

  /// Stores the staged box as the rows of D from (row, column) on. A row begins
  /// `shift` bytes past a multiple of 16, so each vector of it takes the ends of
  /// two staged ones, and its two ends, 16 bytes together, go one by one.
  void storeShifted(char *d, unsigned box, long long row,
                    long long column) const {
    constexpr int kVectors = kRowBytes / 16 - 1; // within a row
    constexpr int kSingles = 16 / kOutBytes;     // at its ends
    int rows = min(leftOf(params.gemm.m, row), kBoxRows);
    int bytes = min(leftOf(params.gemm.n, column), kBoxColumns) * kOutBytes;
    if (bytes <= 0)
      return;
    char *first = d + (row * params.gemm.ldd + column) * kOutBytes;
    long long pitch = params.gemm.ldd * kOutBytes;
#pragma unroll 1
    for (int i = thread(); i < rows * kSingles; i += kThreads) {
      int r = i / kSingles;
      char *target = first + r * pitch;
      int byte = i % kSingles * kOutBytes;
      if (byte >= 16 - shiftOf(target))
        byte += kRowBytes - 16;
      if (byte < bytes)
        storeOne(target + byte, box + stagedOffset(r, byte));
    }
#pragma unroll 1
    for (int i = thread(); i < rows * kVectors; i += kThreads) {
      int r = i / kVectors, vector = i % kVectors;
      char *target = first + r * pitch;
      int shift = shiftOf(target);
      int begin = vector * 16 + 16 - shift;
      if (begin + 16 <= bytes)
        storeVector(target + begin, box + stagedOffset(r, vector * 16),
                    box + stagedOffset(r, vector * 16 + 16), 16 - shift);
      else
        for (int byte = begin; byte < bytes; byte += kOutBytes)
          storeOne(target + byte, box + stagedOffset(r, byte));
    }
  }

  static int shiftOf(const char *target) {
    return static_cast<int>(reinterpret_cast<unsigned long long>(target) & 15);
  }

  static void storeOne(char *target, unsigned staged) {
    if constexpr (kOutBytes == 2)
      *reinterpret_cast<unsigned short *>(target) = ptx::ldShared16(staged);
    else
      *reinterpret_cast<unsigned *>(target) = ptx::ldShared32(staged);
  }

  /// Stores the 16 bytes that begin \p skip bytes into two staged vectors.
  static void storeVector(char *target, unsigned low, unsigned high, int skip) {
    uint4 a = ptx::ldShared128(low), b = ptx::ldShared128(high);
    unsigned words[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    // Shift by 4, 2 and 1 words, then by half a word.
#pragma unroll
    for (int distance = 4; distance >= 1; distance /= 2)
      if (skip & distance * 4)
#pragma unroll
        for (int i = 0; i + distance < 8; ++i)
          words[i] = words[i + distance];
    if constexpr (kOutBytes == 2)
      if (skip & 2)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          words[i] = __funnelshift_r(words[i], words[i + 1], 16);
    *reinterpret_cast<uint4 *>(target) = {words[0], words[1], words[2],
                                          words[3]};
  }

  const Sm90GemmParams &params;
  Shared shared;
  int consumer;
  unsigned staging;
  int next = 0;
  unsigned splitPhase = 0;
};

} // namespace kiln
