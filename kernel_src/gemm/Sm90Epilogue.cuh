//===- gemm/Sm90Epilogue.cuh - from wgmma's sums to D ---------------------===//
//
// A consumer finishes its sums piece by piece: 64 rows of wgmma by as many
// columns as a 128-byte row of D has. A piece goes through a swizzled staging
// buffer in shared memory, so that D is written in whole lines; buffers
// alternate, one filling while another is read. Where rows of D begin and end
// at multiples of 16 bytes TMA stores the piece, or each warp's rows of it, and
// leaves out elements outside of D. Otherwise rows are shifted to their
// alignment in D, so that all but their ends are 16-byte stores.
//
// C and the residual are loaded by TMA where D is aligned: into the buffer in
// which the piece is staged, where each thread's results replace the values
// that it has read. fetch() is the role of the thread that loads them.
//
// With swapAB the rows of wgmma are columns of D: stores to the staging buffer
// are transposed, and the rest is unchanged.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Ring.cuh"
#include "common/Swizzle.cuh"
#include "gemm/GemmEpilogue.cuh"
#include "gemm/ShiftedRows.cuh"
#include "gemm/Sm90Exchange.cuh"
#include "gemm/Sm90Tiles.cuh"
#include "gemm/Sm90Vectors.cuh"

namespace kiln {

template <GemmSignature kSignature, Sm90GemmConfig kConfig> class Sm90Epilogue {
  static constexpr DType kOut = kSignature.out;
  static constexpr int kOutBytes = bytesOf(kOut);
  static constexpr int kThreads = Sm90GemmConfig::kWarpgroup;
  static constexpr int kUnit = Sm90GemmConfig::kUnit;
  static constexpr int kBuffers = kConfig.stagingBuffers(kSignature);
  static constexpr int kUnits = kConfig.units();
  static constexpr int kColumns = kConfig.consumerColumns();
  static constexpr int kPiece = kConfig.pieceColumns(kSignature);
  static constexpr int kPieces = kConfig.unitPieces(kPiece);
  static constexpr bool kSwap = kConfig.swapAB;
  /// Distance from a thread's first row to its second.
  static constexpr int kSecondRow = kConfig.rowsFromRegisters(kSignature)
                                        ? Sm90GemmConfig::kSecondFromRegisters
                                        : 8;
  static constexpr int kSplits = kConfig.splitK();
  /// Columns of a piece for each column of D.
  static constexpr int kJoined = kSignature.columnsPerOutput();
  /// A staged piece is one or two boxes of rows of D, one after the other.
  static constexpr int kBoxRows = kSwap ? kPiece : kUnit;
  static constexpr int kRowBytes = kConfig.stagedRowBytes(kSignature);
  static constexpr int kBoxes =
      kSwap ? kUnit / kJoined * kOutBytes / kRowBytes : 1;
  static constexpr int kBoxColumns = kRowBytes / kOutBytes;
  static constexpr int kBoxBytes = kBoxRows * kRowBytes;
  static constexpr int kStoredRows = kConfig.storedRows(kSignature);
  static constexpr bool kByTma = kConfig.storesByTma(kSignature);
  static constexpr bool kResidual =
      kSignature.pointwise.contains(PointwiseOp::Residual);
  static constexpr int kFetched = kConfig.fetchedOperands(kSignature);
  /// Whether each warp stores its own rows, instead of one thread all rows.
  static constexpr bool kByWarp = kByTma && kStoredRows < kBoxRows;
  static constexpr int kStorers = kByWarp ? 4 : 1;

  using Shared = Sm90Shared<kSignature, kConfig>;
  using Walk = Sm90Walk<kSignature, kConfig>;
  using Exchange = Sm90Exchange<kConfig, kPiece>;
  using Vectors = Sm90Vectors<kSignature, kConfig>;
  using VectorsPiece = typename Vectors::Piece;
  using Accumulators = float[kUnits][kColumns / 2];

public:
  /// The epilogue of a thread in warp \p warp of \p consumer.
  Sm90Epilogue(const Sm90GemmParams &params, const Shared &shared, int consumer,
               int warp)
      : params(params), shared(shared), consumer(consumer), warp(warp) {}

  /// Called before the products of the first tile.
  void warmUp(const Walk &walk) const {
    if constexpr (kSplits > 1)
      if (!walk.isDone())
        Exchange(params, walk.tile(), numberOf(consumer, 0), walk.splitRank())
            .warmUp();
  }

  /// Called before the products of \p tile.
  void prepare(const Sm90Tile &tile) {
    EpilogueOperands operands =
        epilogueAddresses<kSignature>(params.gemm, tile.batch);
    vectors.load(operands, params.gemm, rowOf(tile, consumer, 0),
                 columnOf(tile, consumer, 0), tile.groupEnd);
    if constexpr (kSignature.hasGroups()) {
      groupEnd = tile.groupEnd;
      int first = kSwap ? tile.columnBegin : tile.rowBegin;
      isWhole = first + kConfig.blockM <= groupEnd;
    }
  }

  /// Finishes this consumer's part of \p tile; returns with stores in flight.
  void store(const Sm90Tile &tile, const Walk &walk, Accumulators &sums) {
    EpilogueOperands operands =
        epilogueOperands<kSignature>(params.gemm, tile.batch);
    // The last piece of the tile before was stored during the products.
    if constexpr (kFetched > 0)
      if (isStorer())
        release<0>();
    if constexpr (kSplits > 1)
      storeOwned(operands, tile, walk, sums);
    else
#pragma unroll
      for (int i = 0; i < kUnits * kPieces; ++i)
        storePiece(operands, tile.batch, rowOf(tile, consumer, i),
                   columnOf(tile, consumer, i), pieceOf(sums, i),
                   vectors.piece(i));
  }

  /// Waits until no store reads shared memory any more.
  void finish() {
    if constexpr (kByTma)
      if (isStorer())
        ptx::bulkWaitRead<0>();
  }

  //===--------------------------------------------------------------------===//
  // Fetching C and the residual
  //===--------------------------------------------------------------------===//

  static void prefetchMaps(const Sm90GemmParams &params) {
    if constexpr (kSignature.readsC)
      ptx::prefetchTensorMap(&params.c);
    if constexpr (kResidual)
      ptx::prefetchTensorMap(&params.residual);
  }

  static void setUp(const Shared &shared) {
    for (int consumer = 0; consumer < kConfig.consumers; ++consumer)
      for (int buffer = 0; buffer < kBuffers; ++buffer) {
        ptx::mbarrierInit(shared.fetchFull(consumer, buffer), 1);
        ptx::mbarrierInit(shared.fetchEmpty(consumer, buffer), kStorers);
      }
  }

  /// Loads the operands of \p consumer's pieces, in their order.
  static void fetch(const Sm90GemmParams &params, const Shared &shared,
                    Walk walk, int consumer) {
    RingPlace<kBuffers> place;
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
    int row = rowOf(tile, consumer, piece);
    int column = columnOf(tile, consumer, piece);
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

  /// Number of a consumer's piece among all pieces of a tile.
  static int numberOf(int consumer, int piece) {
    return kConfig.pingPong ? piece : consumer * kUnits * kPieces + piece;
  }
  /// Start of the piece, on the tile's sides.
  static int rowOf(const Sm90Tile &tile, int consumer, int piece) {
    int first = kConfig.rowSharers() > 1 ? consumer * kUnits : 0;
    return tile.rowBegin + (first + piece / kPieces) * kUnit;
  }
  static int columnOf(const Sm90Tile &tile, int consumer, int piece) {
    int first = kConfig.columnSharers() > 1 ? consumer * kColumns : 0;
    return tile.columnBegin + first +
           kConfig.pieceBegin(piece % kPieces, kPiece);
  }
  static const float *pieceOf(const Accumulators &sums, int piece) {
    return sums[piece / kPieces] +
           kConfig.pieceBegin(piece % kPieces, kPiece) / 2;
  }

  static int thread() { return threadIdx.x % kThreads; }

  /// A barrier of this consumer's threads; barrier 0 belongs to the block.
  void barrier() const { ptx::barSync(1 + consumer, kThreads); }

  /// A barrier of the threads whose results one thread stores.
  void meet() const {
    if constexpr (kByWarp)
      __syncwarp();
    else
      barrier();
  }
  bool isStorer() const { return (kByWarp || warp == 0) && ptx::electOne(); }

  /// Publishes the pieces that other splits own. Then adds the others' sums to
  /// its own pieces, and stores these.
  void storeOwned(const EpilogueOperands &operands, const Sm90Tile &tile,
                  const Walk &walk, const Accumulators &sums) {
    int rank = walk.splitRank();
#pragma unroll
    for (int i = 0; i < kUnits * kPieces; ++i)
      if (!walk.owns(numberOf(consumer, i)))
        Exchange(params, tile, numberOf(consumer, i), rank)
            .publish(pieceOf(sums, i));
#pragma unroll 1
    for (int i = 0; i < kUnits * kPieces; ++i) {
      if (!walk.owns(numberOf(consumer, i)))
        continue;
      // The piece is copied to registers of its own, so that all pieces share
      // code.
      float own[kPiece / 2];
      VectorsPiece ownVectors;
#pragma unroll
      for (int other = 0; other < kUnits * kPieces; ++other)
        if (other == i) {
#pragma unroll
          for (int j = 0; j < kPiece / 2; ++j)
            own[j] = pieceOf(sums, other)[j];
          ownVectors = vectors.piece(other);
        }
      Exchange exchange(params, tile, numberOf(consumer, i), rank);
      exchange.addOthers(own);
      storePiece(operands, tile.batch, rowOf(tile, consumer, i),
                 columnOf(tile, consumer, i), own, ownVectors);
      exchange.clearOthers();
    }
  }

  //===--------------------------------------------------------------------===//
  // Pieces
  //===--------------------------------------------------------------------===//

  /// Finishes and stores a piece whose first sum is at (row, column) on the
  /// tile's sides.
  void storePiece(const EpilogueOperands &operands, int batch, int row,
                  int column, const float *sums, const VectorsPiece &entries) {
    unsigned buffer = shared.staging(consumer, place.stage);
    if constexpr (kFetched > 0) {
      ptx::mbarrierWait(shared.fetchFull(consumer, place.stage), place.phase);
      __syncwarp();
    } else if constexpr (kByTma) {
      // Waits until the last store from this buffer has left it.
      if (isStorer())
        ptx::bulkWaitRead<kBuffers - 1>();
      meet();
    } else if constexpr (kBuffers == 1) {
      barrier(); // the storing threads have read the piece before
    }
    if constexpr (kSwap && kJoined == 2)
      stageJoinedRows(operands, row, column, sums, buffer);
    else
      stage(operands, row, column, sums, entries, buffer);
    int rowOfD = kSwap ? column : row;
    int columnOfD = (kSwap ? row : column) / kJoined;
    if constexpr (kByTma && kSignature.hasGroups())
      if (!isWhole) {
        storePart(operands, buffer, rowOfD, columnOfD);
        return;
      }
    if constexpr (kByTma) {
      ptx::fenceProxyAsync();
      meet();
      if (isStorer()) {
        int first = kByWarp ? warp * kStoredRows : 0;
#pragma unroll
        for (int box = 0; box < kBoxes; ++box)
          ptx::tmaStore(&params.d, buffer + box * kBoxBytes + first * kRowBytes,
                        columnOfD + box * kBoxColumns, rowOfD + first,
                        kSignature.hasFlatRows() ? 0 : batch);
        ptx::bulkCommit();
        if constexpr (kFetched > 0) {
          release<1>();
          stored = place.stage;
        }
      }
    } else {
      // Behind the barrier no thread reads the other buffer any more.
      barrier();
#pragma unroll
      for (int box = 0; box < kBoxes; ++box)
        storeRows(operands.d, buffer + box * kBoxBytes, rowOfD,
                  columnOfD + box * kBoxColumns);
    }
    place.next();
  }

  /// Stores a staged piece that lies only partly in the tile's group: the rows
  /// of the group alone.
  void storePart(const EpilogueOperands &operands, unsigned buffer, int rowOfD,
                 int columnOfD) {
    barrier();
#pragma unroll
    for (int box = 0; box < kBoxes; ++box)
      storeRows(operands.d, buffer + box * kBoxBytes, rowOfD,
                columnOfD + box * kBoxColumns);
    if constexpr (kFetched > 0)
      ptx::fenceProxyAsync(); // TMA fills the buffer next
    barrier();                // each warp may fill its part of the buffer next
    if (isStorer()) {
      if constexpr (kFetched > 0) {
        release<0>();
        ptx::mbarrierArrive(shared.fetchEmpty(consumer, place.stage));
      } else
        ptx::bulkCommit(); // an empty group: waits count pieces
    }
    place.next();
  }

  /// For a storing thread: gives the last stored piece's buffer to fetch()
  /// again, once all but the latest kPending stores have left theirs.
  template <int kPending> void release() {
    if (stored >= 0) {
      ptx::bulkWaitRead<kPending>();
      ptx::mbarrierArrive(shared.fetchEmpty(consumer, stored));
      stored = -1;
    }
  }

  /// Writes the finished piece to \p buffer. Lane l has two of every 8 columns,
  /// from 2 (l % 4) on, in two rows.
  void stage(const EpilogueOperands &operands, int row, int column,
             const float *sums, const VectorsPiece &entries,
             unsigned buffer) const {
    // These are computed again for each piece: kept, they would cost registers
    // that the sums of later pieces need.
    unsigned thread = threadIdx.x % kThreads;
    ptx::opaque(thread);
    int rowInPiece = thread / 32 * 16 + thread % 32 / 4;
    if constexpr (kConfig.rowsFromRegisters(kSignature))
      rowInPiece = Sm90GemmConfig::rowFromRegisters(thread);
    int columnInPiece = thread % 4 * 2;
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
        int r = rowInPiece + i % 2 * kSecondRow,
            c = columnInPiece + (j + i / 2) * 8;
        float pairBias[2] = {};
        entries.bias.ofPair(pairBias, j + i / 2, i % 2);
        if constexpr (kSignature.hasZeroPointsA())
          entries.subtractZeroPoints(operands, j + i / 2, i % 2, pair);
        entries.scale(j + i / 2, i % 2, pair);
        finishPair(operands, row, column, r, c, pairBias, pair);
        if constexpr (kSignature.hasRowWeights && kJoined == 1) {
          float weights[2];
          entries.rowWeights.ofPair(weights, j + i / 2, i % 2);
          pair[0] *= weights[0];
          pair[1] *= weights[1];
        }
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

  /// stage() where the chain joins rows of wgmma, which are columns of D.
  /// Neighbouring rows are four lanes apart. Each lane gives the sums of one of
  /// its two rows and takes those of the neighbour of the other one.
  void stageJoinedRows(const EpilogueOperands &operands, int row, int column,
                       const float *sums, unsigned buffer) const {
    constexpr int kNeighbour = 4;
    unsigned thread = threadIdx.x % kThreads;
    ptx::opaque(thread);
    const int rowInPiece = thread / 32 * 16 + thread % 32 / 4;
    const int columnInPiece = thread % 4 * 2;
    const bool isOdd = rowInPiece % 2 != 0;
    // The first row of the pair that this lane joins.
    const int r = isOdd ? rowInPiece - 1 + kSecondRow : rowInPiece;
#pragma unroll
    for (int block = 0; block < kPiece / 8; ++block)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float first = sums[block * 4 + i],
                    second = sums[block * 4 + 2 + i];
        const float other =
            __shfl_xor_sync(~0u, isOdd ? first : second, kNeighbour);
        float pair[2] = {isOdd ? other : first, isOdd ? second : other};
        const int c = columnInPiece + block * 8 + i;
        const int left = static_cast<int>(params.gemm.n) - (row + r);
        if (column + c < static_cast<int>(params.gemm.m) && left > 0)
          computeRun<kSignature>(operands, params.gemm, column + c, row + r,
                                 left, pair);
        stageOne(buffer + stagedOffset(c, r / 2 * kOutBytes), pair[0]);
      }
  }

  static void stageOne(unsigned target, float value) {
    if constexpr (kOutBytes == 2)
      ptx::stShared16(target, packPair<kOut>(value, 0.0f));
    else
      ptx::stShared32(target, __float_as_uint(value));
  }

  /// Offset of byte \p byte of row \p row in a staged piece, swizzled as by
  /// TMA.
  static unsigned stagedOffset(unsigned row, unsigned byte) {
    return swizzledOffset<kRowBytes, SwizzleFor::Ldmatrix>(row, byte);
  }

  /// Stages the 16 x 16 results (16 x 8 at the end of a piece) from column
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
      // In a last block of 8 columns, the upper lanes' addresses are unused.
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

  /// Stages two results of one row on the tile's sides.
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

  /// Applies alpha, C and the chain to two sums, of row \p r and of columns
  /// \p c and the next, in the piece that begins at (row, column) on the tile's
  /// sides. \p bias: their entries of the bias. Where the chain joins columns,
  /// pair[0] is the one result.
  void finishPair(const EpilogueOperands &operands, int row, int column, int r,
                  int c, const float (&bias)[2], float (&pair)[2]) const {
    constexpr PointwiseChain kChain = kSignature.pointwise;
    if constexpr (kJoined == 2) { // computeRun has its own rows, columns and
                                  // links
      int left = static_cast<int>(params.gemm.n) - (column + c);
      if (row + r < static_cast<int>(params.gemm.m) && left > 0)
        computeRun<kSignature>(operands, params.gemm, row + r, column + c, left,
                               pair);
    } else {
      float residual[2] = {}, ofC[2] = {};
      if constexpr (kResidual)
        readPair(residual, operands.residual, params.gemm.ldResidual,
                 kSignature.readsC, true, row, column, r, c);
      // beta may be a device scalar that turns out to be 0; then C is ignored.
      if constexpr (kSignature.readsC)
        readPair(ofC, operands.c, params.gemm.ldc, 0, operands.beta != 0.0f,
                 row, column, r, c);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        pair[i] *= operands.alpha;
        if constexpr (kSignature.readsC)
          pair[i] += operands.beta * ofC[i];
      }
      // The shuffles keep ptxas from starting all error functions of a piece at
      // once.
      if constexpr (kChain.contains(PointwiseOp::GeluErf) &&
                    (kSwap || !kAddsBias<kSignature>))
        pair[0] = __shfl_sync(~0u, pair[0], threadIdx.x % 32);
      // The neighbour of a group's last row belongs to another group.
      if constexpr (kSignature.hasGroups() && kSwap) {
#pragma unroll
        for (int i = 0; i < 2; ++i)
          pair[i] = applyChain<kChain>(pair[i], bias[i], residual[i]);
      } else
        applyChainToPair<kChain>(pair[0], pair[1],
                                 sharedOperands<kChain>(bias[0], residual[0]),
                                 sharedOperands<kChain>(bias[1], residual[1]));
    }
  }

  /// Reads the pair's elements of a matrix of D's shape, from the fetched
  /// operand \p operand or from memory; 0 unless \p counts.
  void readPair(float (&out)[2], const char *matrix, long long ld, int operand,
                bool counts, int row, int column, int r, int c) const {
    if constexpr (kFetched == 0)
      loadPair(out, matrix, ld, counts, row + r, column + c);
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
      // Selected without a branch, so that later reads do not wait.
#pragma unroll
      for (int i = 0; i < 2; ++i)
        out[i] = counts ? out[i] : 0.0f;
    }
  }

  /// Loads the pair's elements of a matrix of D's shape; 0 outside of D.
  void loadPair(float (&out)[2], const char *matrix, long long ld, bool counts,
                int row, int column) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      int rowOfD = kSwap ? column + i : row,
          columnOfD = kSwap ? row : column + i;
      bool exists = rowOfD < static_cast<int>(params.gemm.m) &&
                    columnOfD < static_cast<int>(params.gemm.n);
      out[i] = toFloat<kOut>(loadOrZero<kOut>(
          matrix + (rowOfD * ld + columnOfD) * kOutBytes, counts && exists));
    }
  }

  /// Stores the staged box as the rows of D from (row, column) on, where TMA
  /// cannot store it.
  void storeRows(char *d, unsigned box, long long row, long long column) const {
    int rows = min(leftOf(params.gemm.m, row), kBoxRows);
    if constexpr (kSignature.hasGroups())
      rows = min(groupEnd - static_cast<int>(row), kBoxRows);
    int bytes =
        min(leftOf(params.gemm.n / kJoined, column), kBoxColumns) * kOutBytes;
    if (bytes <= 0)
      return;
    auto rowAt = [&](int r) -> char * {
      long long at = rowInD<kSignature>(params.gemm, row + r);
      if (kSignature.scatters && at < 0)
        return nullptr;
      return d + (at * params.gemm.ldd + column) * kOutBytes;
    };
    using Rows = ShiftedRows<kRowBytes, kOutBytes, kThreads>;
    if constexpr (kSignature.alignD == 16)
      Rows::storeAligned(rowAt, box, rows, bytes, thread());
    else
      Rows::store(rowAt, box, rows, bytes, thread());
  }

  const Sm90GemmParams &params;
  Shared shared;
  int consumer, warp;
  Vectors vectors;           ///< of the tile
  int groupEnd = 0;          ///< of the tile's group, in rows of D
  bool isWhole = false;      ///< all rows of the tile are the group's
  RingPlace<kBuffers> place; ///< of the buffers
  int stored = -1;           ///< the buffer that a storer has not yet released
};

} // namespace kiln
