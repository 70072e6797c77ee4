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
// C and the residual come in by TMA into buffers of the same shape, where D is
// aligned; fetch() is the role of the thread that brings them.
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

template <GemmSignature kSignature, Sm90GemmConfig kConfig> class Sm90Epilogue {
  static constexpr DType kOut = kSignature.out;
  static constexpr int kOutBytes = bytesOf(kOut);
  static constexpr int kThreads = Sm90GemmConfig::kWarpgroup;
  static constexpr int kUnit = Sm90GemmConfig::kUnit;
  static constexpr int kBuffers = Sm90GemmConfig::kStagingBuffers;
  static constexpr int kUnits = kConfig.units(), kColumns = kConfig.columns();
  static constexpr int kPiece = kConfig.pieceColumns(kSignature);
  static constexpr int kPieces = kColumns / kPiece; ///< of a unit
  static constexpr bool kSwap = kConfig.swapAB;
  /// Columns of a piece that make one of D.
  static constexpr int kJoined = kSignature.columnsPerOutput();
  /// A staged piece is one or two boxes of rows of D, one after the other.
  static constexpr int kBoxRows = kSwap ? kPiece : kUnit;
  static constexpr int kRowBytes =
      kSwap ? Sm90GemmConfig::kSlabBytes : kPiece / kJoined * kOutBytes;
  static constexpr int kBoxes = kSwap ? kUnit * kOutBytes / kRowBytes : 1;
  static constexpr int kBoxColumns = kRowBytes / kOutBytes;
  static constexpr int kBoxBytes = kBoxRows * kRowBytes;
  static constexpr bool kByTma = kConfig.storesByTma(kSignature);
  /// Where the chain joins columns, computeRun reads what it needs.
  static constexpr bool kBias =
      kJoined == 1 && kSignature.pointwise.contains(PointwiseOp::Bias);
  static constexpr bool kResidual =
      kSignature.pointwise.contains(PointwiseOp::Residual);
  static constexpr int kFetched = kConfig.fetchedOperands(kSignature);

  using Shared = Sm90Shared<kSignature, kConfig>;
  using Walk = Sm90Walk<kConfig>;
  using Accumulators = float[kUnits][kColumns / 2];

public:
  Sm90Epilogue(const Sm90GemmParams &params, const Shared &shared, int consumer)
      : params(params), shared(shared), consumer(consumer) {}

  /// Finishes this consumer's part of \p tile; returns with stores under way.
  void store(const Sm90Tile &tile, const Walk &walk, Accumulators &sums) {
    if constexpr (kConfig.splits)
      if (walk.splits > 1)
        exchange(tile, walk, sums);
    EpilogueOperands operands =
        epilogueOperands<kSignature>(params.gemm, tile.batch);
#pragma unroll
    for (int i = 0; i < kUnits * kPieces; ++i)
      if (walk.owns(numberOf(consumer, i)))
        storePiece(operands, tile.batch, rowOf(tile, consumer, i),
                   columnOf(tile, i),
                   sums[i / kPieces] + i % kPieces * (kPiece / 2));
  }

  /// Waits until no store reads shared memory any more.
  void finish() {
    if constexpr (kByTma)
      if (thread() == 0)
        ptx::bulkWaitRead<0>();
  }

  //===--------------------------------------------------------------------===//
  // Fetching C and the residual
  //===--------------------------------------------------------------------===//

  static void setUp(const Sm90GemmParams &params, const Shared &shared) {
    for (int consumer = 0; consumer < kConfig.consumers; ++consumer)
      for (int buffer = 0; buffer < kBuffers; ++buffer) {
        ptx::mbarrierInit(shared.fetchFull(consumer, buffer), 1);
        ptx::mbarrierInit(shared.fetchEmpty(consumer, buffer), 1);
      }
  }

  /// Brings what \p consumer's pieces read, in the order in which they do.
  static void fetch(const Sm90GemmParams &params, const Shared &shared,
                    int consumer) {
    RingPlace<kBuffers> place;
    Walk walk(params);
    if (kConfig.pingPong && consumer == 1)
      walk.next();
#pragma unroll 1
    while (!walk.isDone()) {
      Sm90Tile tile = walk.tile();
#pragma unroll 1
      for (int i = 0; i < kUnits * kPieces; ++i)
        if (walk.owns(numberOf(consumer, i)))
          fetchPiece(params, shared, tile, consumer, i, place);
      walk.next();
      if constexpr (kConfig.pingPong)
        walk.next();
    }
  }

private:
  static void fetchPiece(const Sm90GemmParams &params, const Shared &shared,
                         const Sm90Tile &tile, int consumer, int piece,
                         RingPlace<kBuffers> &place) {
    int row = rowOf(tile, consumer, piece), column = columnOf(tile, piece);
    int rowOfD = kSwap ? column : row, columnOfD = kSwap ? row : column;
    unsigned full = shared.fetchFull(consumer, place.stage);
    ptx::mbarrierWait(shared.fetchEmpty(consumer, place.stage),
                      place.phase ^ 1);
    ptx::mbarrierArriveExpectTx(full, kFetched * kBoxes * kBoxBytes);
    int operand = 0;
    auto load = [&](const TensorMap &map, int batchStep) {
      unsigned target = shared.fetched(consumer, place.stage, operand++);
#pragma unroll
      for (int box = 0; box < kBoxes; ++box)
        ptx::tmaLoad(target + box * kBoxBytes, &map, full,
                     columnOfD + box * kBoxColumns, rowOfD,
                     tile.batch * batchStep);
    };
    if constexpr (kSignature.readsC)
      load(params.c, params.batchStepC);
    if constexpr (kResidual)
      load(params.residual, params.batchStepResidual);
    place.next();
  }

  /// Number of a consumer's piece among all of a tile.
  static int numberOf(int consumer, int piece) {
    return kConfig.pingPong ? piece : consumer * kUnits * kPieces + piece;
  }
  /// Where it begins, on the tile's sides.
  static int rowOf(const Sm90Tile &tile, int consumer, int piece) {
    int first = kConfig.pingPong ? 0 : consumer * kUnits;
    return tile.rowBegin + (first + piece / kPieces) * kUnit;
  }
  static int columnOf(const Sm90Tile &tile, int piece) {
    return tile.columnBegin + piece % kPieces * kPiece;
  }

  static int thread() { return threadIdx.x % kThreads; }

  /// A barrier of this consumer's threads; 0 is the block's.
  void barrier() const { ptx::barSync(1 + consumer, kThreads); }

  //===--------------------------------------------------------------------===//
  // Splits
  //===--------------------------------------------------------------------===//

  /// Partial sums of one piece of this consumer: a thread's vectors of four lie
  /// kThreads vectors apart.
  float4 *partials(const Sm90Tile &tile, int splits, int split,
                   int piece) const {
    constexpr long long kTileFloats =
        static_cast<long long>(kConfig.blockM) * kConfig.blockN;
    return reinterpret_cast<float4 *>(
               params.gemm.partials +
               (tile.index * splits + split) * kTileFloats +
               numberOf(consumer, piece) * (kUnit * kPiece)) +
           thread();
  }

  /// Publishes the pieces that other splits own and adds theirs to this
  /// split's own, from the next split around to the one before.
  void exchange(const Sm90Tile &tile, const Walk &walk, Accumulators &sums) {
    unsigned splits = walk.splits;
    unsigned *counter =
        params.gemm.counters + tile.index * kConfig.consumers + consumer;
#pragma unroll
    for (int i = 0; i < kUnits * kPieces; ++i)
      if (!walk.owns(numberOf(consumer, i)))
        publish(partials(tile, splits, walk.splitRank(), i),
                sums[i / kPieces] + i % kPieces * (kPiece / 2));
    barrier();
    if (thread() == 0) {
      __threadfence();
      ptx::atomAddAcqRel(counter, 1);
      while (ptx::ldAcquire(counter) < splits) {
      }
    }
    // Beyond this point all splits have published.
    barrier();
#pragma unroll
    for (int i = 0; i < kUnits * kPieces; ++i)
      if (walk.owns(numberOf(consumer, i)))
        addOthers(sums[i / kPieces] + i % kPieces * (kPiece / 2),
                  partials(tile, splits, 0, i), splits, walk.splitRank());
    // The last split to have seen the counter leaves it at zero.
    if (thread() == 0 && ptx::atomAddAcqRel(counter, 1) == 2 * splits - 1)
      *counter = 0;
  }

  static void publish(float4 *partial, const float *sums) {
#pragma unroll
    for (int i = 0; i < kPiece / 8; ++i)
      ptx::stGlobalCg(
          partial + i * kThreads,
          {sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]});
  }

  /// Adds the other splits' sums of a piece, whose first split's lie at
  /// \p partial. As many splits at once as registers allow: each round takes
  /// the latency of L2.
  static void addOthers(float *sums, const float4 *partial, unsigned splits,
                        unsigned rank) {
    constexpr int kVectors = kPiece / 8;
    constexpr int kRegisters = kConfig.consumers > 2 ? 112 : 176;
    constexpr int kFree =
        (kRegisters - kConfig.accumulators()) / (4 * kVectors);
    constexpr int kAtOnce = kFree < 1 ? 1 : kFree > 4 ? 4 : kFree;
    constexpr long long kTileVectors =
        static_cast<long long>(kConfig.blockM) * kConfig.blockN / 4;
#pragma unroll 1
    for (unsigned first = 1; first < splits; first += kAtOnce) {
      float4 parts[kAtOnce][kVectors];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        unsigned other = first + i;
        unsigned split =
            rank + other < splits ? rank + other : rank + other - splits;
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
          parts[i][v] = {};
          if (other < splits)
            parts[i][v] =
                ptx::ldGlobalCg(partial + split * kTileVectors + v * kThreads);
        }
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
          sums[4 * v] += parts[i][v].x;
          sums[4 * v + 1] += parts[i][v].y;
          sums[4 * v + 2] += parts[i][v].z;
          sums[4 * v + 3] += parts[i][v].w;
        }
    }
  }

  //===--------------------------------------------------------------------===//
  // Pieces
  //===--------------------------------------------------------------------===//

  /// Finishes and stores a piece whose first sum is of (row, column) on the
  /// tile's sides.
  void storePiece(const EpilogueOperands &operands, int batch, int row,
                  int column, const float *sums) {
    unsigned buffer = shared.staging(consumer, place.stage);
    if constexpr (kFetched > 0)
      ptx::mbarrierWait(shared.fetchFull(consumer, place.stage), place.phase);
    if constexpr (kByTma) {
      // The store before the last has left this buffer.
      if (thread() == 0)
        ptx::bulkWaitRead<kBuffers - 1>();
      barrier();
    }
    stage(operands, row, column, sums, buffer);
    int rowOfD = kSwap ? column : row;
    int columnOfD = kSwap ? row : column / kJoined;
    if constexpr (kByTma) {
      ptx::fenceProxyAsync();
      barrier();
      if (thread() == 0) {
        if constexpr (kFetched > 0)
          ptx::mbarrierArrive(shared.fetchEmpty(consumer, place.stage));
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
    place.next();
  }

  /// Writes the finished piece to \p buffer. Lane l has of each 8 columns the
  /// two from 2 (l % 4) on, of rows l / 4 and l / 4 + 8 of its warp's 16.
  void stage(const EpilogueOperands &operands, int row, int column,
             const float *sums, unsigned buffer) const {
    // Computed anew for each piece: kept, they would cost registers that the
    // sums of later pieces need.
    unsigned thread = threadIdx.x % kThreads;
    ptx::opaque(thread);
    int rowInPiece = thread / 32 * 16 + thread % 32 / 4;
    int columnInPiece = thread % 4 * 2;
    // All at once: their latencies overlap.
    float bias[kPiece / 8][2];
    if constexpr (kBias)
#pragma unroll
      for (int j = 0; j < kPiece / 8; ++j)
        if (!kSwap || j == 0)
          loadBias(bias[j], operands.bias, row + rowInPiece,
                   column + columnInPiece + j * 8);
#pragma unroll
    for (int j = 0; j < kPiece / 8; j += 2) {
      constexpr int kStep = kPiece >= 16 ? 2 : 1;
      unsigned words[4];
#pragma unroll
      for (int i = 0; i < 2 * kStep; ++i) {
        if (j + i / 2 >= kPiece / 8)
          break;
        float pair[2] = {sums[(j + i / 2) * 4 + i % 2 * 2],
                         sums[(j + i / 2) * 4 + i % 2 * 2 + 1]};
        int r = rowInPiece + i % 2 * 8, c = columnInPiece + (j + i / 2) * 8;
        float pairBias[2] = {};
        if constexpr (kBias) {
          // Of the rows of D as wgmma's columns each thread has two entries.
          pairBias[0] = kSwap ? bias[0][i % 2] : bias[j + i / 2][0];
          pairBias[1] = kSwap ? bias[0][i % 2] : bias[j + i / 2][1];
        }
        finishPair(operands, row, column, r, c, pairBias, pair);
        if constexpr (kJoined == 2)
          stageOne(buffer + stagedOffset(r, c / 2 * kOutBytes), pair[0]);
        else if constexpr (kOutBytes == 2)
          words[i] = packPair<kOut>(pair[0], pair[1]);
        else
          stageFloats(buffer, r, c, pair);
      }
      if constexpr (kOutBytes == 2 && kJoined == 1)
        stageWords(buffer, thread, j, words);
    }
  }

  static void stageOne(unsigned target, float value) {
    if constexpr (kOutBytes == 2)
      ptx::stShared16(target, packPair<kOut>(value, 0.0f));
    else
      ptx::stShared32(target, __float_as_uint(value));
  }

  /// Offset in a staged piece of byte \p byte of row \p row, as TMA swizzles.
  static unsigned stagedOffset(unsigned row, unsigned byte) {
    return swizzledOffset<kRowBytes, SwizzleFor::Ldmatrix>(row, byte);
  }

  /// Stores the 16 x 16 (16 x 8 where a piece has no more) results from column
  /// block \p j on.
  static void stageWords(unsigned buffer, unsigned thread, int j,
                         const unsigned (&words)[4]) {
    int matrix = thread % 32 / 8, within = thread % 8;
    int rowBlock = thread / 32 * 2 + matrix % 2, columnBlock = j + matrix / 2;
    if constexpr (!kSwap)
      ptx::stmatrixX4(buffer +
                          stagedOffset(rowBlock * 8 + within, columnBlock * 16),
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
        ptx::stShared32(box + stagedOffset(column + i, row % kBoxColumns * 4),
                        __float_as_uint(pair[i]));
    }
  }

  //===--------------------------------------------------------------------===//
  // The chain
  //===--------------------------------------------------------------------===//

  /// Applies alpha, C and the chain to two sums of row \p r and columns \p c
  /// and the next, with these entries of the bias, in the piece that begins at
  /// (row, column), on the tile's sides. Where the chain joins columns, pair[0]
  /// is the one result.
  void finishPair(const EpilogueOperands &operands, int row, int column, int r,
                  int c, const float (&bias)[2], float (&pair)[2]) const {
    constexpr PointwiseChain kChain = kSignature.pointwise;
    if constexpr (kJoined == 2) { // rows, columns and links of its own
      int left = static_cast<int>(params.gemm.n) - (column + c);
      if (row + r < static_cast<int>(params.gemm.m) && left > 0)
        computeRun<kSignature>(operands, params.gemm, row + r, column + c, left,
                               pair);
    } else {
      float residual[2] = {}, ofC[2] = {};
      if constexpr (kResidual)
        readPair(residual, operands.residual, params.gemm.ldResidual,
                 kSignature.readsC, row, column, r, c);
      pair[0] *= operands.alpha;
      pair[1] *= operands.alpha;
      if constexpr (kSignature.readsC)
        if (operands.beta != 0.0f) {
          readPair(ofC, operands.c, params.gemm.ldc, 0, row, column, r, c);
          pair[0] += operands.beta * ofC[0];
          pair[1] += operands.beta * ofC[1];
        }
      applyChainToPair<kChain>(pair[0], pair[1],
                               sharedOperands<kChain>(bias[0], residual[0]),
                               sharedOperands<kChain>(bias[1], residual[1]));
    }
  }

  /// Entries of the bias: those of \p column and the next, or with swapAB those
  /// of \p row and the eighth after it; 0 outside of D.
  void loadBias(float (&out)[2], const char *bias, int row, int column) const {
    constexpr int kApart = kSwap ? 8 : 1;
    int first = kSwap ? row : column;
    const char *at = bias + first * kOutBytes;
    int left = static_cast<int>(params.gemm.n) - first;
    out[0] = out[1] = 0.0f;
    if (kApart == 1 && kSignature.alignD >= 2 * kOutBytes && left > 1)
      loadFloats<kOut>(out, at);
    else {
      loadOne(out[0], at, left > 0);
      loadOne(out[1], at + kApart * kOutBytes, left > kApart);
    }
  }

  static void loadOne(float &out, const char *at, bool exists) {
    float one[1];
    if (exists) {
      loadFloats<kOut>(one, at);
      out = one[0];
    }
  }

  /// What belongs to a pair of a matrix of D's shape: the fetched operand
  /// number \p operand, or in memory.
  void readPair(float (&out)[2], const char *matrix, long long ld, int operand,
                int row, int column, int r, int c) const {
    if constexpr (kFetched == 0)
      loadPair(out, matrix, ld, row + r, column + c);
    else {
      unsigned piece = shared.fetched(consumer, place.stage, operand);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        unsigned at = kSwap
                          ? piece + r / kBoxColumns * kBoxBytes +
                                stagedOffset(c + i, r % kBoxColumns * kOutBytes)
                          : piece + stagedOffset(r, (c + i) * kOutBytes);
        if constexpr (kOutBytes == 4)
          out[i] = __uint_as_float(ptx::ldShared32(at));
        else if constexpr (kSwap)
          out[i] = toFloat<kOut>(ptx::ldShared16(at));
        else if (i == 0) // both columns in one word
          unpackPair<kOut>(out[0], out[1], ptx::ldShared32(at));
      }
    }
  }

  /// Loads what belongs to the pair from a matrix of D's shape; 0 outside of D.
  void loadPair(float (&out)[2], const char *matrix, long long ld, int row,
                int column) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      int rowOfD = kSwap ? column + i : row,
          columnOfD = kSwap ? row : column + i;
      loadOne(out[i], matrix + (rowOfD * ld + columnOfD) * kOutBytes,
              rowOfD < static_cast<int>(params.gemm.m) &&
                  columnOfD < static_cast<int>(params.gemm.n));
    }
  }

  //===--------------------------------------------------------------------===//
  // Stores to an unaligned D
  //===--------------------------------------------------------------------===//

  /// Stores the staged box as the rows of D from (row, column) on. A row begins
  /// `shift` bytes past a multiple of 16, so each vector of it takes the ends
  /// of two staged ones, and its two ends, 16 bytes together, go one by one.
  void storeShifted(char *d, unsigned box, long long row,
                    long long column) const {
    constexpr int kVectors = kRowBytes / 16 - 1; // within a row
    constexpr int kSingles = 16 / kOutBytes;     // at its ends
    int rows = min(leftOf(params.gemm.m, row), kBoxRows);
    int bytes =
        min(leftOf(params.gemm.n / kJoined, column), kBoxColumns) * kOutBytes;
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
  RingPlace<kBuffers> place; ///< of the buffers, staging and fetched
};

} // namespace kiln
