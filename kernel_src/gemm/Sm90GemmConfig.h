//===- gemm/Sm90GemmConfig.h - knobs of the wgmma GEMM --------------------===//
#pragma once

#include "common/Slab.h"
#include "gemm/GemmSignature.h"

namespace kiln {

/// Warp-specialised wgmma kernel for sm_90a: bf16, fp16, fp32 data in tf32
/// mode, fp8 and int8. One producer feeds a ring of `stages` tiles by TMA, and
/// `consumers` warpgroups multiply them. Blocks are persistent and walk over
/// tiles of blockM x blockN.
///
/// A tile has a *row side* (the m of wgmma, 64 rows an instruction) and a
/// *column side* (its n, 8 to 256 in steps of 8): rows are those of D and
/// columns are those of D, unless swapAB exchanges them. Consumers divide the
/// rows of a tile, or its columns.
struct Sm90GemmConfig {
  int blockM = 128, blockN = 256, blockK = 64;
  int stages = 4;
  int consumers = 2;
  int pingPong = 0; ///< 1: each consumer has a tile of its own, in turns
  int swapAB = 0;
  int clusterM = 1;     ///< blocks stacked along m that share tiles of B
  int clusterN = 1;     ///< blocks side by side along n that share tiles of A
  int splits = 0;       ///< blocks that share a tile's k, all at once; 0: one
  int columnShared = 0; ///< 1: consumers divide columns, not rows
  int staging = 0;      ///< results wait for their stores: 0 in two buffers a
                        ///< consumer, 1 in one, 2 in two where the ring was
  int rasterGroup = 8;  ///< run-time value
  int rasterAlongN = 0; ///< run-time value; 1: groups of tile columns
  int hints = 0;        ///< run-time value; 1: B leaves L2 first, A stays
  int promotion = 2; ///< run-time value; L2 promotion: 1 none, 2 128 B, 3 256 B
  int tilesFirst = 0; ///< run-time value; 1: neighbours are the tiles of one
                      ///< split, not the splits of one tile

  static constexpr const char *kName = "sm90";
  static constexpr bool kTakesGroups = true; ///< for GemmTemplate.h

  template <class F> static constexpr void forEachField(F &&f) {
    f("bm", "blockM", &Sm90GemmConfig::blockM, 128);
    f("bn", "blockN", &Sm90GemmConfig::blockN, 256);
    f("bk", "blockK", &Sm90GemmConfig::blockK, 64);
    f("st", "stages", &Sm90GemmConfig::stages, 4);
    f("wg", "consumers", &Sm90GemmConfig::consumers, 2);
    f("pp", "pingPong", &Sm90GemmConfig::pingPong, 0);
    f("sw", "swapAB", &Sm90GemmConfig::swapAB, 0);
    f("cm", "clusterM", &Sm90GemmConfig::clusterM, 1);
    f("cn", "clusterN", &Sm90GemmConfig::clusterN, 1);
    f("sk", "splits", &Sm90GemmConfig::splits, 0);
    f("cs", "columnShared", &Sm90GemmConfig::columnShared, 0);
    f("sg", "staging", &Sm90GemmConfig::staging, 0);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&f) {
    f("rg", "rasterGroup", &Sm90GemmConfig::rasterGroup, 8);
    f("rn", "rasterAlongN", &Sm90GemmConfig::rasterAlongN, 0);
    f("hi", "hints", &Sm90GemmConfig::hints, 0);
    f("pr", "promotion", &Sm90GemmConfig::promotion, 2);
    f("tf", "tilesFirst", &Sm90GemmConfig::tilesFirst, 0);
  }

  static constexpr int kWarpgroup = 128;
  /// Rows of one wgmma.
  static constexpr int kUnit = 64;
  /// The most columns of a piece that the epilogue stages. Wider pieces (136
  /// columns have no other divisor) would take the ring's place.
  static constexpr int kMostPiece = 128;

  // The two sides of a tile.
  constexpr int rows() const { return swapAB ? blockN : blockM; }
  constexpr int columns() const { return swapAB ? blockM : blockN; }
  constexpr bool isRowSideKMajor(const GemmSignature &signature) const {
    return isRowSideAlongK(signature) || copiesRows(signature);
  }
  constexpr bool isColumnSideKMajor(const GemmSignature &signature) const {
    return isColumnSideAlongK(signature) || copiesColumns(signature);
  }
  /// Whether the row side comes from registers. wgmma takes tf32 and bytes
  /// along k only. A step before the product transposes other operands, except
  /// a row side of tf32, which is loaded to registers.
  constexpr bool rowsFromRegisters(const GemmSignature &signature) const {
    return signature.in == DType::FP32 && !isRowSideAlongK(signature);
  }
  constexpr bool copiesRows(const GemmSignature &signature) const {
    return bytesOf(signature.in) == 1 && !isRowSideAlongK(signature);
  }
  constexpr bool copiesColumns(const GemmSignature &signature) const {
    return bytesOf(signature.in) != 2 && !isColumnSideAlongK(signature);
  }
  /// Whether a step before the product transposes A or B.
  constexpr bool transposesA(const GemmSignature &signature) const {
    return swapAB ? copiesColumns(signature) : copiesRows(signature);
  }
  constexpr bool transposesB(const GemmSignature &signature) const {
    return swapAB ? copiesRows(signature) : copiesColumns(signature);
  }
  /// Whether the product reads A or B along k.
  constexpr bool readsKMajorA(const GemmSignature &signature) const {
    return swapAB ? isColumnSideKMajor(signature) : isRowSideKMajor(signature);
  }
  constexpr bool readsKMajorB(const GemmSignature &signature) const {
    return swapAB ? isRowSideKMajor(signature) : isColumnSideKMajor(signature);
  }
  /// Blocks of a cluster along the row side, which share the column side's
  /// tiles, and blocks along the column side.
  constexpr int clusterRows() const { return swapAB ? clusterN : clusterM; }
  constexpr int clusterColumns() const { return swapAB ? clusterM : clusterN; }
  constexpr int multicastBlocks() const { return clusterM * clusterN; }
  constexpr int splitK() const { return splits > 1 ? splits : 1; }

  /// Consumers that read each stage.
  constexpr int readers() const { return pingPong ? 1 : consumers; }
  /// Consumers that divide the rows of a tile, or its columns.
  constexpr int rowSharers() const { return columnShared ? 1 : readers(); }
  constexpr int columnSharers() const { return columnShared ? readers() : 1; }
  /// The part of a tile of one consumer, and the wgmmas stacked in it.
  constexpr int consumerRows() const { return rows() / rowSharers(); }
  constexpr int consumerColumns() const { return columns() / columnSharers(); }
  constexpr int units() const { return consumerRows() / kUnit; }
  constexpr int accumulators() const { return units() * consumerColumns() / 2; }

  /// Promoted sums are added to registers of their own after this many steps of
  /// k, which share a scale.
  static constexpr int kPromotedDepth = 128;
  /// The products of a unit are promoted in this many parts of its columns. Two
  /// sets of sums alternate: the tensor core has one set while the other is
  /// added. 0: no number fits registers. Wide parts are better. But if a stage
  /// is one group of the widest parts, a single reader's tensor core has no
  /// work left during additions, and with block scales there are not enough
  /// registers.
  constexpr int promotedParts(const GemmSignature &signature) const {
    constexpr int kWide = 128;
    const bool mayBeOneGroup = readers() == 2 && !signature.hasBlockScales();
    for (int parts = 1; parts <= 4; parts *= 2) {
      bool isWide = parts == 1 && units() == 1 && consumerColumns() >= kWide;
      if (consumerColumns() % (8 * parts) == 0 && (!isWide || mayBeOneGroup) &&
          accumulators() + promotedSums(parts) <= mostSums(signature))
        return parts;
    }
    return 0;
  }
  /// Registers of the two sets of sums.
  constexpr int promotedSums(int parts) const {
    return consumerColumns() / parts; // half as many a thread, twice
  }
  /// Columns of a part.
  constexpr int promotedColumns(const GemmSignature &signature) const {
    int parts = promotedParts(signature);
    return parts ? consumerColumns() / parts : consumerColumns();
  }
  /// True where the columns of each part share one block scale of B: parts
  /// begin at multiples of their width, which divides a block.
  constexpr bool columnsHaveOneScale(const GemmSignature &signature) const {
    return signature.hasBlockScales() && !swapAB &&
           kPromotedDepth % promotedColumns(signature) == 0;
  }
  /// Columns that share a scale, in whole parts, where each part has one scale:
  /// a block, or all columns of a consumer.
  constexpr int columnsOfOneScale() const {
    return consumerColumns() < kPromotedDepth ? consumerColumns()
                                              : kPromotedDepth;
  }
  /// All sums of a thread.
  constexpr int sums(const GemmSignature &signature) const {
    int parts = signature.isPromoted() ? promotedParts(signature) : 0;
    return accumulators() + (parts ? promotedSums(parts) : 0);
  }

  /// With one consumer, two warps feed its stages and its epilogue. More
  /// consumers trade registers with a whole warpgroup, which has a warp for
  /// each consumer and one for the stages.
  constexpr bool tradesRegisters() const { return consumers > 1; }
  constexpr int threads() const {
    return consumers * kWarpgroup + (tradesRegisters() ? kWarpgroup : 64);
  }
  constexpr int minBlocks() const { return 1; }
  constexpr int producerRegisters() const { return consumers > 2 ? 32 : 40; }
  constexpr int consumerRegisters() const { return consumers > 2 ? 160 : 232; }

  /// Whether a block of \p threads has enough registers to give \p producers
  /// and \p consumers to each thread of those roles. A block trades within its
  /// registers at launch, the same number for each thread: a request for more
  /// never returns.
  static constexpr bool isTrade(int threads, int producers, int consumers) {
    constexpr int kRegisters = 65536, kUnit = 8;
    int given = kRegisters / threads / kUnit * kUnit * threads;
    return kWarpgroup * producers + (threads - kWarpgroup) * consumers <= given;
  }

  /// Elements of a row of a slab.
  static constexpr int slabElements(const GemmSignature &signature) {
    return Slab::elements(bytesOf(signature.in));
  }
  /// Rows that come from registers are read across a slab of 32, in an order in
  /// which the lanes of a warp (8 rows of 4 k) use all banks. The result is the
  /// row of a unit that is the first one of thread \p thread of a warpgroup.
  /// Its second row lies kSecondFromRegisters further.
  static constexpr unsigned rowFromRegisters(unsigned thread) {
    unsigned warp = thread / 32, row = thread % 32 / 4;
    return warp / 2 * 32 + row / 4 * 16 + warp % 2 * 8 + row % 4;
  }
  static constexpr int kSecondFromRegisters = 4;

  constexpr int rowTileBytes(const GemmSignature &signature) const {
    if (signature.isPacked())
      return packedTileBytes(signature);
    return rows() * blockK * bytesOf(signature.in);
  }
  constexpr int columnTileBytes(const GemmSignature &signature) const {
    return columns() * blockK * bytesOf(signature.in);
  }
  constexpr int stageBytes(const GemmSignature &signature) const {
    return rowTileBytes(signature) + columnTileBytes(signature);
  }

  /// Accumulator columns that a consumer stages at once: 64 rows by this many.
  /// With swapAB they are rows of D, as many as make pieces of equal width;
  /// else a line of D, or a half or a quarter of it. Splits divide a tile by
  /// pieces, so there is at least one for each, if 16 columns allow it.
  ///
  /// Where pieces may overlap, the last piece of a unit begins before the one
  /// ahead of it ends: two pieces of 64 for 112 columns instead of seven of 16
  /// (0.6 us less on an H200). Widths that are multiples of 32 do not overlap:
  /// 224 columns took 0.25 us more that way. With three consumers multiples of
  /// 16 do not overlap either, since their larger buffers would take a stage
  /// from the ring.
  constexpr int pieceColumns(const GemmSignature &signature) const {
    int all = consumerColumns(), joined = signature.columnsPerOutput();
    int width = swapAB ? kUnit : joined * Slab::kBytes / bytesOf(signature.out);
    if (swapAB && (splitK() == 1 || all % 16 != 0))
      return mayOverlap(signature) ? evenPiece(all, width)
                                   : dividingPiece(all, width);
    bool overlaps = mayOverlap(signature) && all % (consumers > 2 ? 16 : 32);
    while (width > 16 * joined && (overlaps ? width > all : !isPiece(width)))
      width /= 2;
    return width;
  }
  /// True where results may be stored twice: no operand of D's shape is read,
  /// since it may be overwritten by D, and no split finishes them. (Splits add
  /// in an order that begins with the storing split, so bits would depend on
  /// the tile.)
  constexpr bool mayRepeat(const GemmSignature &signature) const {
    return !signature.readsC && splitK() == 1 &&
           !signature.pointwise.contains(PointwiseOp::Residual);
  }
  /// True where pieces of a tile may have results in common.
  constexpr bool mayOverlap(const GemmSignature &signature) const {
    return mayRepeat(signature) && signature.columnsPerOutput() == 1;
  }
  /// True where a result's last bits depend on its neighbour's sum in the same
  /// pair on the column side: activations of both share a reciprocal. A result
  /// then has to be computed with the same neighbour everywhere, even if that
  /// neighbour lies outside of D.
  static constexpr bool finishesPairs(const GemmSignature &signature) {
    return signature.columnsPerOutput() == 1 &&
           (signature.pointwise.contains(PointwiseOp::GeluTanh) ||
            signature.pointwise.contains(PointwiseOp::Silu));
  }
  /// Pieces of \p width in a unit, and where each begins. (\p width is
  /// pieceColumns(), which kernels keep as a constant: compilers do not see
  /// through it.)
  constexpr int unitPieces(int width) const {
    return (consumerColumns() + width - 1) / width;
  }
  constexpr int pieceBegin(int piece, int width) const {
    int last = consumerColumns() - width;
    return piece * width < last ? piece * width : last;
  }
  constexpr int pieceBytes(const GemmSignature &signature) const {
    return roundUp(kUnit * pieceColumns(signature) * bytesOf(signature.out) /
                   signature.columnsPerOutput());
  }
  /// Bytes of a row of D in a staged piece: a line where the piece has it.
  constexpr int stagedRowBytes(const GemmSignature &signature) const {
    int all = (swapAB ? kUnit : pieceColumns(signature)) /
              signature.columnsPerOutput() * bytesOf(signature.out);
    return swapAB && all > Slab::kBytes ? Slab::kBytes : all;
  }
  /// True where D is stored by TMA: its rows begin and end at multiples of 16
  /// bytes, and follow one another. (In a grouped GEMM only tiles that lie
  /// wholly in a group are.)
  constexpr bool storesByTma(const GemmSignature &signature) const {
    return signature.alignD == 16 && !signature.scatters;
  }
  /// Rows of D in a box that one thread stores. With the rows of a warp, warps
  /// need not meet: up to 3 % on an H200. But a consumer that stores many
  /// pieces while no other multiplies waits for TMA, which takes whole pieces
  /// faster (0.5 %); and with swapAB a warp has a quarter of each line of D.
  constexpr int storedRows(const GemmSignature &signature) const {
    if (swapAB)
      return pieceColumns(signature);
    // Rows that come from registers are not in the order of warps.
    bool waits =
        rowsFromRegisters(signature) || (!pingPong && pieces(signature) >= 4);
    return waits ? kUnit : kUnit / 4;
  }
  /// Matrices of D's shape that TMA loads piece by piece: C, residual.
  constexpr int fetchedOperands(const GemmSignature &signature) const {
    if (!storesByTma(signature) || signature.columnsPerOutput() != 1)
      return 0;
    return signature.readsC +
           signature.pointwise.contains(PointwiseOp::Residual);
  }
  /// Pieces of a tile that a consumer finishes, one after the other.
  constexpr int pieces(const GemmSignature &signature) const {
    return units() * unitPieces(pieceColumns(signature));
  }
  /// Staging buffers of a consumer: one fills while another is stored, unless
  /// the ring needs the room of the second. Fetched operands are loaded to
  /// where the piece is staged, so more buffers have them there before the
  /// epilogue begins; a second operand has as many buffers of its own.
  constexpr int stagingBuffers(const GemmSignature &signature) const {
    const int kLeast = staging == 1 ? 1 : 2;
    int fetched = fetchedOperands(signature);
    int most = fetched == 0 ? kLeast : fetched == 1 ? 4 : 3;
    int all = pieces(signature);
    if (all < kLeast)
      return kLeast;
    return all < most ? all : most;
  }
  constexpr int stagingBytes(const GemmSignature &signature) const {
    int operands = fetchedOperands(signature);
    return consumers * stagingBuffers(signature) * pieceBytes(signature) *
           (operands > 1 ? operands : 1);
  }
  /// True where pieces are staged in the place of the ring, which cannot be
  /// used again: a block has one tile.
  constexpr bool stagesInRing() const { return staging == 2; }
  /// Bytes of the ring, and of the ring with staging that is in it or behind
  /// it.
  constexpr int ringBytes(const GemmSignature &signature) const {
    return stages * stageBytes(signature);
  }
  constexpr int tileBytes(const GemmSignature &signature) const {
    return ringBytes(signature) +
           (stagesInRing() ? 0 : stagingBytes(signature));
  }
  /// Full and empty barriers of each stage and of each consumer's fetched
  /// pieces, and two barriers for turns.
  constexpr int barrierBytes(const GemmSignature &signature) const {
    return (2 * stages + 2 * stagingBuffers(signature) * consumers + 2) * 8;
  }
  constexpr int sharedBytes(const GemmSignature &signature) const {
    return kAlignment + tileBytes(signature) + barrierBytes(signature) +
           (signature.isPacked() ? sharedSumBytes() : 0) +
           signature.groupTableBytes();
  }
  /// Alignment of swizzled tiles; the hardware aligns dynamic shared memory to
  /// 16 bytes.
  static constexpr int kAlignment = 1024;

  /// Whether wgmma multiplies these inputs in this mode.
  static constexpr bool hasInstruction(const GemmSignature &signature) {
    if (signature.isPacked())
      return false;
    return bytesOf(signature.in) == 1 || signature.in == DType::BF16 ||
           signature.in == DType::FP16 ||
           (signature.in == DType::FP32 &&
            signature.compute == ComputeMode::TF32);
  }

  /// Limits of the template itself; the pruner knows the limits of an
  /// architecture.
  constexpr bool isValid(const GemmSignature &signature) const {
    if (!hasInstruction(signature))
      return false;
    if (!signature.isWellFormed() || splits < 0 || splits == 1 ||
        rasterGroup < 1 || swapAB > 1 || pingPong > 1 || stages < 2 ||
        stages > 16)
      return false;
    if (rasterAlongN > 1 || hints > 1 || promotion < 1 || promotion > 3 ||
        tilesFirst > 1 || (tilesFirst && splitK() == 1))
      return false;
    if (consumers < 1 || consumers > 3 || (pingPong && consumers != 2))
      return false;
    // Consumers that divide columns have whole instructions of them, and leave
    // splits no pieces to own.
    if (columnShared > 1 || staging > 2 ||
        (columnShared && (consumers < 2 || pingPong || splitK() > 1)))
      return false;
    // The number of tiles is not known ahead.
    if (signature.hasGroups() && (splitK() > 1 || stagesInRing()))
      return false;
    // Splits add floats, but zero points are subtracted from complete int32
    // sums.
    if (signature.hasZeroPointsA() && splitK() > 1)
      return false;
    // Rows of one slab or two.
    int slab = slabElements(signature);
    if (blockK != slab && blockK != 2 * slab)
      return false;
    return isTileValid(signature) && isClusterValid(signature) &&
           isStagingValid(signature);
  }

  /// The most rows of a tile, and sums of a thread, for which setmaxnreg leaves
  /// a consumer enough registers for addresses and the epilogue.
  constexpr int mostRows() const { return columnShared ? 384 : 256; }
  /// (With promoted sums and three consumers few registers are left for
  /// addresses: consumers have one unit each.)
  constexpr int mostSums(const GemmSignature &signature) const {
    return consumers < 3 ? 192 : signature.isPromoted() ? 128 : 100;
  }
  /// columns() is a multiple of this. Rows of D are staged in at least 32
  /// bytes, of results whose two columns belong to one thread.
  constexpr int columnStep(const GemmSignature &signature) const {
    bool isFree = swapAB ? splitK() == 1 || consumerColumns() <= kUnit
                         : mayOverlap(signature);
    int own = isFree ? 8 : 16 * signature.columnsPerOutput();
    // From 32 columns on int8 has only multiples of 16.
    if (signature.in == DType::INT8 && consumerColumns() > 24 && own < 16)
      own = 16;
    bool hasSlabs = !isColumnSideKMajor(signature);
    return columnSharers() * (hasSlabs ? slabElements(signature) : own);
  }

  /// Blocks that work on the same tiles in step: a cluster, or all splits.
  constexpr int groupBlocks() const { return multicastBlocks() * splitK(); }
  constexpr long long tilesM(long long m) const {
    return (m + blockM - 1) / blockM;
  }
  constexpr long long tilesN(long long n) const {
    return (n + blockN - 1) / blockN;
  }
  /// Groups of blocks with which each would have one piece of work.
  constexpr long long groups(long long m, long long n, long long batch) const {
    return (tilesM(m) + clusterM - 1) / clusterM *
           ((tilesN(n) + clusterN - 1) / clusterN) * batch;
  }
  /// Blocks of a non-persistent grid; the launch has fewer.
  constexpr long long blocks(long long m, long long n, long long batch) const {
    return groups(m, n, batch) * groupBlocks();
  }
  /// Bytes of GemmParams::partials without counters: all splits of all tiles.
  constexpr long long zeroedBytes(long long m, long long n,
                                  long long batch) const {
    return splitK() == 1 ? 0 : blocks(m, n, batch) * blockM * blockN * 4;
  }
  constexpr long long partialBytes(long long, long long, long long) const {
    return 0;
  }

  friend constexpr bool operator==(const Sm90GemmConfig &,
                                   const Sm90GemmConfig &) = default;

  /// Packed weights: sums that consumers with turns along k add to each other.
  constexpr int sharedSumBytes() const {
    return pingPong ? accumulators() * kWarpgroup * 4 : 0;
  }
  // A tile of packed weights (Sm90PackedGemm.cuh): blocks of weights, then
  // scales, then zero points, each ordered by their 64 rows.
  constexpr int packedBytes(const GemmSignature &signature) const {
    return rows() * blockK / 8 * bitsOf(signature.typeB());
  }
  constexpr int packedGroups(const GemmSignature &signature) const {
    return signature.groupB ? blockK / signature.groupB : 0;
  }
  constexpr int packedScaleBytes(const GemmSignature &signature) const {
    return rows() * packedGroups(signature) * bytesOf(signature.scaleTypeB);
  }
  constexpr int packedStageBytes(const GemmSignature &signature) const {
    int zeros = signature.zeroB ? rows() * packedGroups(signature) : 0;
    return packedBytes(signature) + packedScaleBytes(signature) + zeros;
  }
  constexpr int packedTileBytes(const GemmSignature &signature) const {
    return roundUp(packedStageBytes(signature));
  }

private:
  // The sides as they are stored.
  constexpr bool isRowSideAlongK(const GemmSignature &signature) const {
    return swapAB ? signature.isKMajorB() : signature.isKMajorA();
  }
  constexpr bool isColumnSideAlongK(const GemmSignature &signature) const {
    return swapAB ? signature.isKMajorA() : signature.isKMajorB();
  }

  /// The width of pieces that cover \p all with as few pieces of up to \p most
  /// columns as possible, all of one width.
  static constexpr int evenPiece(int all, int most) {
    int pieces = (all + most - 1) / most;
    return (all / 8 + pieces - 1) / pieces * 8;
  }
  /// The widest piece of up to \p most columns that divides \p all; if it is
  /// narrow (88 and 104 have pieces of 8 only), the next wider one. (Wide
  /// pieces are multiples of 16: 160 sums in pieces of 40 were spilled.)
  static constexpr int dividingPiece(int all, int most) {
    constexpr int kNarrow = 16;
    int width = all < most ? all : most;
    while (all % width != 0)
      width -= all % 32 == 0 ? 16 : 8;
    if (width > kNarrow || width == all)
      return width;
    for (width = most + 8; all % width != 0;)
      width += 8;
    return width;
  }
  /// Whether pieces of \p width columns make up a consumer's part, with at
  /// least one piece for each split.
  constexpr bool isPiece(int width) const {
    return consumerColumns() % width == 0 &&
           rows() / kUnit * (columns() / width) >= splitK();
  }

  static constexpr int roundUp(int bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  constexpr bool isTileValid(const GemmSignature &signature) const {
    if (rows() < kUnit || rows() > mostRows() ||
        rows() % (kUnit * rowSharers()) != 0)
      return false;
    if (columns() > 256 || columns() % columnStep(signature) != 0)
      return false;
    int joined = signature.columnsPerOutput();
    if (swapAB && joined != 1)
      return false;
    if (consumerColumns() < (swapAB ? 8 : 16 * joined) ||
        pieceColumns(signature) > kMostPiece)
      return false;
    if (signature.isPromoted() && !isPromotionValid(signature))
      return false;
    return accumulators() <= mostSums(signature);
  }

  /// A part of columns has one block scale or two, where blocks have 128
  /// columns.
  constexpr bool isPromotionValid(const GemmSignature &signature) const {
    return promotedParts(signature) > 0 && promotedColumns(signature) <= 128;
  }

  constexpr bool isClusterValid(const GemmSignature &signature) const {
    if (clusterM < 1 || clusterN < 1 || multicastBlocks() > 2)
      return false;
    // Splits of a tile wait for each other, and each has one tile at a time.
    if (splitK() > 1 && (multicastBlocks() != 1 || pingPong))
      return false;
    // Each block loads its share of a shared tile in whole boxes.
    int columnUnit =
        isColumnSideKMajor(signature) ? 8 : slabElements(signature);
    int rowUnit = isRowSideKMajor(signature) ? 8 : slabElements(signature);
    return columns() % (columnUnit * clusterRows()) == 0 &&
           rows() % (rowUnit * clusterColumns()) == 0;
  }

  /// Fetched operands are loaded during the products, so they need buffers of
  /// their own. Staging in the place of the ring also excludes turns and
  /// split-K, where one consumer or split stages while another uses its ring,
  /// and clusters, whose blocks use each other's rings.
  constexpr bool isStagingValid(const GemmSignature &signature) const {
    if (staging == 0)
      return true;
    if (fetchedOperands(signature) > 0)
      return false;
    return !stagesInRing() ||
           (!pingPong && splitK() == 1 && multicastBlocks() == 1 &&
            stagingBytes(signature) <= ringBytes(signature));
  }
};

} // namespace kiln
