//===- gemm/Sm90Gemm.cuh - warp-specialised wgmma GEMM --------------------===//
//
// Problem: wgmma multiplies 64 x n x 16 from shared memory in n / 2 clocks, so
// an SM finishes a 128 x 256 x 64 step in half a microsecond, and other work of
// a multiplying thread must not cost issue slots or registers.
//
// Choice: one thread of a producer copies tiles by TMA into a ring of stages.
// Consumers wait for a stage, issue its wgmmas, and release the stage before it
// while these run; full and empty barriers are all that they exchange. The
// producer's loop sets the pace of small tiles, so its thread is an elected
// one: a copy is then one instruction and no loop over lanes (up to 4 %).
// Blocks are persistent: the producer runs ahead into the next tile while the
// last one's sums are stored, and with pingPong two consumers alternate, one
// multiplying while the other stores. Blocks of a cluster that share a tile
// load a half of it each, for both. Layouts differ in boxes and descriptors
// only.
//
// A block with one tile may stage results in the place of the ring, which can
// then be deeper: behind a barrier of all consumers, when no load is left. Such
// a grid has a block for each tile, whatever the number of SMs.
//
// Further threads beside the producer, one for each consumer, fetch C and the
// residual piece by piece to the place where the epilogue stages its pieces:
// the products hide their latency.
//
// Split-K: splits of a tile exchange sums through L2, and each finishes a part
// of it. Sums are added in a fixed order, and the reduction is as parallel as
// the products. Splits wait for each other, so the launch is cooperative: all
// of its blocks run at once, or the launch fails.
//
// Rejected: several small blocks an SM without a producer (two with three
// stages collapse); clusters of four (30 fit where 33 would be needed); a
// fix-up by the last split to arrive (0.81 of the speed where one counter for
// all splits had 0.91).
//
// Sums of fp8 keep 13 bits in the tensor core. Every 128 steps of k they are
// added to sums in registers, times the block scales if there are any. This
// goes by parts of the columns, so that the tensor core has one part while
// another is added.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Dependent.cuh"
#include "common/Ring.cuh"
#include "common/SlabTile.cuh"
#include "common/Swizzle.cuh"
#include "common/Wgmma.cuh"
#include "gemm/Sm90BlockScales.cuh"
#include "gemm/Sm90Epilogue.cuh"
#include "gemm/Sm90Tiles.cuh"

namespace kiln {

template <GemmSignature kSignature, Sm90GemmConfig kConfig> class Sm90Gemm {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");
  static_assert(__CUDA_ARCH__ == 900, "wgmma needs sm_90a");
  static_assert(!kConfig.tradesRegisters() ||
                    kConfig.isTrade(kConfig.threads(),
                                    kConfig.producerRegisters(),
                                    kConfig.consumerRegisters()),
                "consumers would wait for registers for ever");

  static constexpr int kStages = kConfig.stages, kBlockK = kConfig.blockK;
  static constexpr int kConsumers = kConfig.consumers;
  static constexpr int kRows = kConfig.rows(), kColumns = kConfig.columns();
  static constexpr int kUnits = kConfig.units();
  static constexpr int kOwnColumns = kConfig.consumerColumns();
  static constexpr int kMulticast = kConfig.multicastBlocks();
  static constexpr bool kRowsKMajor = kConfig.isRowSideKMajor(kSignature);
  static constexpr bool kColumnsKMajor = kConfig.isColumnSideKMajor(kSignature);
  static constexpr bool kFetches = kConfig.fetchedOperands(kSignature) > 0;

  using Shared = Sm90Shared<kSignature, kConfig>;
  static constexpr int kBytes = bytesOf(kSignature.in);
  /// Elements along k of one wgmma.
  static constexpr int kDepth = ptx::wgmmaDepth(kSignature.in);

  using RowTile = SlabTile<kRowsKMajor, kRows, kBlockK, kBytes>;
  using ColumnTile = SlabTile<kColumnsKMajor, kColumns, kBlockK, kBytes>;
  using Place = RingPlace<kStages>;
  using Walk = Sm90Walk<kSignature, kConfig>;
  using Accumulators = float[kUnits][kOwnColumns / 2];
  using BlockScales = Sm90BlockScales<kSignature, kConfig>;
  using Epilogue = Sm90Epilogue<kSignature, kConfig>;

public:
  static void run(const Sm90GemmParams &params) {
    extern __shared__ __align__(16) unsigned char sharedMemory[];
    constexpr unsigned kMask = Sm90GemmConfig::kAlignment - 1;
    Shared shared{(ptx::sharedAddress(sharedMemory) + kMask) & ~kMask};
    // The shuffle tells the compiler that all lanes of a warp have the same
    // value.
    int warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
    int role = warp / 4;
    bool isProducer = warp == 4 * kConsumers;
    allowSuccessor();
    if (isProducer && ptx::electOne())
      prefetchMaps(params);
    int *groupTable = nullptr;
    if constexpr (kSignature.hasGroups()) {
      groupTable = reinterpret_cast<int *>(
          sharedMemory + (shared.base - ptx::sharedAddress(sharedMemory)) +
          Shared::kGroupTable);
      awaitPredecessor(); // it may produce the groups' sizes
      if (warp == 0)
        GroupTable<kSignature.groups>(params.gemm, groupTable)
            .build(Walk::kTableRows);
      __syncthreads();
    }
    Walk walk(params, groupTable);
    begin(shared, isProducer);
    if (role == kConsumers) {
      if constexpr (kConfig.tradesRegisters())
        ptx::setmaxnregDec<kConfig.producerRegisters()>();
      int feeder = warp % 4;
      if (feeder == 0 && ptx::electOne())
        produce(params, shared, walk);
      if constexpr (kFetches)
        if (feeder > 0 && feeder <= kConsumers && ptx::electOne()) {
          awaitPredecessor();
          Epilogue::fetch(params, shared, walk, feeder - 1);
        }
      __syncwarp();
    } else {
      if constexpr (kConfig.tradesRegisters())
        ptx::setmaxnregInc<kConfig.consumerRegisters()>();
      consume(params, shared, walk, role, warp % 4);
    }
  }

private:
  /// Called at the very start: the first copies wait for the maps to arrive
  /// from memory.
  static void prefetchMaps(const Sm90GemmParams &params) {
    ptx::prefetchTensorMap(&params.a);
    ptx::prefetchTensorMap(&params.b);
    // The map of D is included: the first store happens when no other work is
    // left.
    if constexpr (kConfig.storesByTma(kSignature))
      ptx::prefetchTensorMap(&params.d);
    if constexpr (kFetches)
      Epilogue::prefetchMaps(params);
  }

  /// The producer's warp sets up the barriers and goes on; the others wait for
  /// it, and blocks of a cluster for each other's producers.
  static void begin(const Shared &shared, bool isProducer) {
    if (isProducer && ptx::electOne())
      setUp(shared);
    __syncwarp();
    if constexpr (kMulticast > 1) {
      // Relaxed, because the fence in setUp has released the barriers.
      ptx::barrierClusterArriveRelaxed();
      ptx::barrierClusterWait();
    } else if (isProducer) {
      ptx::barArrive(0, kConfig.threads());
    } else {
      ptx::barSync(0, kConfig.threads());
    }
  }

  static void setUp(const Shared &shared) {
    for (int stage = 0; stage < kStages; ++stage) {
      ptx::mbarrierInit(shared.full(stage), 1);
      ptx::mbarrierInit(shared.empty(stage), kConfig.readers() * kMulticast);
    }
    ptx::mbarrierInit(shared.turn(0), 1);
    ptx::mbarrierInit(shared.turn(1), 1);
    if constexpr (kFetches)
      Epilogue::setUp(shared);
    ptx::fenceMbarrierInit();
  }

  //===--------------------------------------------------------------------===//
  // The producer
  //===--------------------------------------------------------------------===//

  /// Loads the tiles of every k step of every tile to the ring.
  static void produce(const Sm90GemmParams &params, const Shared &shared,
                      const Walk &walk) {
    if (params.hints)
      produce<true>(params, shared, walk);
    else
      produce<false>(params, shared, walk);
  }

  template <bool kHints>
  static void produce(const Sm90GemmParams &params, const Shared &shared,
                      Walk walk) {
    unsigned long long policyA = 0, policyB = 0; // none
    if constexpr (kHints) {
      policyA = ptx::createPolicyEvictLast();
      policyB = ptx::createPolicyEvictFirst();
    }
    const TensorMap *rowMap = kConfig.swapAB ? &params.b : &params.a;
    const TensorMap *columnMap = kConfig.swapAB ? &params.a : &params.b;
    unsigned long long rowPolicy = kConfig.swapAB ? policyB : policyA;
    unsigned long long columnPolicy = kConfig.swapAB ? policyA : policyB;
    int rowStep = kConfig.swapAB ? params.batchStepB : params.batchStepA;
    int columnStep = kConfig.swapAB ? params.batchStepA : params.batchStepB;
    auto loadRows = [&](const Sm90Tile &tile, int k, int stage) {
      RowTile::template load<kHints, kConfig.clusterColumns()>(
          shared.rowTile(stage), rowMap, shared.full(stage), tile.rowBegin, k,
          tile.batch * rowStep, walk.multicastRank(), rowPolicy);
    };
    auto loadColumns = [&](const Sm90Tile &tile, int k, int stage) {
      ColumnTile::template load<kHints, kConfig.clusterRows()>(
          shared.columnTile(stage), columnMap, shared.full(stage),
          tile.columnBegin, k, tile.batch * columnStep, walk.multicastRank(),
          columnPolicy);
    };
    Place place;
    // Steps of the first tile whose copies are issued while the ring is empty.
    int issued = 0;
    if (params.gemm.early && !walk.isDone()) {
      constexpr int kEarlyRows = kConfig.swapAB ? kEarlyB : kEarlyA;
      constexpr int kEarlyColumns = kConfig.swapAB ? kEarlyA : kEarlyB;
      Sm90Tile tile = walk.tile();
      issued = min(kStages, walk.kCount);
#pragma unroll 1
      for (int pass = 0; pass < 2; ++pass) {
        if (pass == 1)
          awaitPredecessor();
        int operands = pass == 0 ? params.gemm.early : ~params.gemm.early;
#pragma unroll 1
        for (int step = 0; step < issued; ++step) {
          if (pass == 0)
            ptx::mbarrierArriveExpectTx(shared.full(step), params.stageBytes);
          if (operands & kEarlyRows)
            loadRows(tile, walk.kBegin(step), step);
          if (operands & kEarlyColumns)
            loadColumns(tile, walk.kBegin(step), step);
        }
      }
      place.skip(issued);
    } else {
      awaitPredecessor();
    }
#pragma unroll 1
    for (; !walk.isDone(); walk.next()) {
      Sm90Tile tile = walk.tile();
#pragma unroll 1
      for (int step = issued; step < walk.kCount; ++step) {
        int k = walk.kBegin(step);
        ptx::mbarrierWait(shared.empty(place.stage), place.phase ^ 1);
        ptx::mbarrierArriveExpectTx(shared.full(place.stage),
                                    params.stageBytes);
        loadRows(tile, k, place.stage);
        loadColumns(tile, k, place.stage);
        place.next();
      }
      issued = 0;
    }
    // No block leaves while another one may still arrive at its barriers.
    if constexpr (kMulticast > 1)
#pragma unroll 1
      for (int i = 0; i < kStages; ++i) {
        ptx::mbarrierWait(shared.empty(place.stage), place.phase ^ 1);
        place.next();
      }
  }

  //===--------------------------------------------------------------------===//
  // The consumers
  //===--------------------------------------------------------------------===//

  static void consume(const Sm90GemmParams &params, const Shared &shared,
                      Walk walk, int consumer, int warp) {
    awaitPredecessor();
    Epilogue epilogue(params, shared, consumer, warp);
    epilogue.warmUp(walk);
    Place place;
    unsigned turn = consumer == 0; // the first turn is open
    if constexpr (kConfig.pingPong)
      if (consumer == 1) {
        walk.next();
        place.skip(walk.kCount);
      }
    Accumulators sums;
#pragma unroll 1
    while (!walk.isDone()) {
      Sm90Tile tile = walk.tile();
      if constexpr (kConfig.pingPong) {
        ptx::mbarrierWait(shared.turn(consumer), turn);
        turn ^= 1;
      }
      epilogue.prepare(tile);
      multiply(params, shared, consumer, walk, place, sums);
      // Results are staged only after all consumers have read the whole ring.
      if constexpr (kConfig.stagesInRing())
        ptx::barSync(1 + kConsumers, kConsumers * Sm90GemmConfig::kWarpgroup);
      epilogue.store(tile, walk, sums);
      walk.next();
      if constexpr (kConfig.pingPong) {
        walk.next();
        place.skip(walk.kCount);
      }
    }
    epilogue.finish();
  }

  /// Sums the products of the tile's stages, at least one, from \p place on.
  static void multiply(const Sm90GemmParams &params, const Shared &shared,
                       int consumer, const Walk &walk, Place &place,
                       Accumulators &sums) {
    if constexpr (kConfig.rowsFromRegisters(kSignature))
      multiplyFragments(shared, consumer, walk.kCount, place, sums);
    else if constexpr (kSignature.isPromoted())
      multiplyPromoted(params, shared, consumer, walk, place, sums);
    else if constexpr (kSignature.in == DType::INT8) {
      int products[kUnits][kOwnColumns / 2];
      multiplyTiles(shared, consumer, walk.kCount, place, products);
#pragma unroll
      for (int unit = 0; unit < kUnits; ++unit)
#pragma unroll
        for (int i = 0; i < kOwnColumns / 2; ++i)
          // The epilogue handles zero points, and takes the sums' bits for
          // that.
          sums[unit][i] = kSignature.hasZeroPointsA()
                              ? __int_as_float(products[unit][i])
                              : static_cast<float>(products[unit][i]);
    } else
      multiplyTiles(shared, consumer, walk.kCount, place, sums);
  }

  /// Descriptors of a consumer's tiles in stage 0; stages are a constant apart.
  struct Descriptors {
    unsigned long long rows, columns;

    Descriptors(const Shared &shared, int consumer) {
      int rowOffset =
          kConfig.rowSharers() > 1 ? consumer * kUnits * unitBytes() : 0;
      int columnOffset = kConfig.columnSharers() > 1
                             ? consumer * ColumnTile::pieceBytes(kOwnColumns)
                             : 0;
      rows = RowTile::descriptor(shared.rowTile(0) + rowOffset);
      columns = ColumnTile::descriptor(shared.columnTile(0) + columnOffset);
    }
  };

  /// One wgmma of kWidth columns.
  template <int kWidth, class Sum>
  static void product(Sum (&sums)[kWidth / 2], unsigned long long rows,
                      unsigned long long columns, int accumulate) {
    constexpr DType kA = kSignature.in, kB = kSignature.typeB();
    if constexpr (kBytes == 1)
      ptx::wgmmaBytes<kConfig.swapAB ? kB : kA, kConfig.swapAB ? kA : kB,
                      kWidth>(sums, rows, columns, accumulate);
    else
      ptx::wgmma<kA, kWidth, !kRowsKMajor, !kColumnsKMajor>(sums, rows, columns,
                                                            accumulate);
  }

  template <class Sum>
  static void multiplyTiles(const Shared &shared, int consumer, int steps,
                            Place &place,
                            Sum (&sums)[kUnits][kOwnColumns / 2]) {
    const Descriptors base(shared, consumer);
    int accumulate = 0, before = -1;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      ptx::mbarrierWait(shared.full(place.stage), place.phase);
      ptx::wgmmaFence();
      unsigned offset = place.stage * (kConfig.stageBytes(kSignature) >> 4);
#pragma unroll
      for (int k = 0; k < kBlockK; k += kDepth) {
#pragma unroll
        for (int unit = 0; unit < kUnits; ++unit)
          product<kOwnColumns>(
              sums[unit],
              base.rows + offset + (unit * unitBytes() >> 4) +
                  RowTile::stepOffset(k),
              base.columns + offset + ColumnTile::stepOffset(k), accumulate);
        accumulate = 1;
      }
      ptx::wgmmaCommit();
      // One group stays in flight: the products of the stage before are done.
      ptx::wgmmaWait<1>();
      if (before >= 0)
        release(shared, before);
      before = place.stage;
      place.next();
    }
    finishProducts(shared, consumer, before);
  }

  /// multiplyTiles() with promoted sums: while a group of products runs, the
  /// sums of the group before are added. (That group has ended when the next
  /// one begins: with two in flight ptxas would wait for each product.)
  static void multiplyPromoted(const Sm90GemmParams &params,
                               const Shared &shared, int consumer,
                               const Walk &walk, Place &place,
                               Accumulators &sums) {
    constexpr int kInterval = Sm90GemmConfig::kPromotedDepth;
    constexpr int kParts = kConfig.promotedParts(kSignature);
    constexpr int kWidth = kConfig.promotedColumns(kSignature);
    constexpr int kGroups = kUnits * kParts;
    constexpr int kAll = kBlockK / kInterval * kGroups; // of a stage
    // Sets alternate, so with an odd number of groups a round has two stages.
    constexpr int kRound = kAll % 2 == 0 ? 1 : 2;
    const Descriptors base(shared, consumer);
    BlockScales scales(params.gemm, walk.tile(), consumer);
    scales.load(walk.kBegin(0) / kInterval);
    float partial[2][kWidth / 2];
    // The condition is always true, but the compiler cannot know: additions
    // behind a branch stay there. Otherwise ptxas mixes them with the issue of
    // products, and the tensor core runs dry.
    const bool isTile = params.gemm.m > 0;
#pragma unroll
    for (int unit = 0; unit < kUnits; ++unit)
#pragma unroll
      for (int i = 0; i < kOwnColumns / 2; ++i)
        sums[unit][i] = 0;
    // Adds the products of group \p number of a stage, which are in \p set,
    // behind the wait for them.
    auto promote = [&](int number, float(&set)[kWidth / 2]) {
      int unit = number % kGroups / kParts, part = number % kParts;
      ptx::wgmmaArrived(set);
      scales.template add<kWidth>(unit, part, set,
                                  sums[unit] + part * (kWidth / 2));
    };
    int before = -1;
    // Multiplies stage \p step, which is number \p turn in its round.
    auto multiplyStage = [&](int step, int turn) {
      ptx::mbarrierWait(shared.full(place.stage), place.phase);
      unsigned offset = place.stage * (kConfig.stageBytes(kSignature) >> 4);
#pragma unroll
      for (int number = 0; number < kAll; ++number) {
        int unit = number % kGroups / kParts, part = number % kParts;
        int set = (turn * kAll + number) % 2;
        ptx::wgmmaWait<0>();
        ptx::wgmmaFence();
#pragma unroll
        for (int k = 0; k < kInterval; k += kDepth) {
          int at = number / kGroups * kInterval + k;
          product<kWidth>(partial[set],
                          base.rows + offset + (unit * unitBytes() >> 4) +
                              RowTile::stepOffset(at),
                          base.columns + offset +
                              (ColumnTile::pieceBytes(kWidth) * part >> 4) +
                              ColumnTile::stepOffset(at),
                          k > 0);
        }
        ptx::wgmmaCommit();
        if (number == 0 && before >= 0)
          release(shared, before);
        if (number > 0 ? isTile : step > 0)
          promote((number + kAll - 1) % kAll, partial[1 - set]);
        // From here on additions belong to this block of k.
        if (number % kGroups == 0) {
          scales.take();
          int next = number / kGroups + 1;
          scales.load(next < kBlockK / kInterval
                          ? walk.kBegin(step) / kInterval + next
                          : walk.kBegin(step + 1) / kInterval);
        }
      }
      before = place.stage;
      place.next();
    };
#pragma unroll 1
    for (int step = 0; step < walk.kCount; step += kRound) {
      multiplyStage(step, 0);
      if constexpr (kRound == 2)
        if (step + 1 < walk.kCount)
          multiplyStage(step + 1, 1);
    }
    finishProducts(shared, consumer, before);
    if (kRound == 1 || walk.kCount % 2 == 0)
      promote(kAll - 1, partial[1]);
    else
      promote(kAll - 1, partial[0]);
  }

  /// Ends the last products of a tile, which read \p stage.
  static void finishProducts(const Shared &shared, int consumer, int stage) {
    // The other consumer's products may follow without a gap.
    if constexpr (kConfig.pingPong)
      if (threadIdx.x % Sm90GemmConfig::kWarpgroup == 0)
        ptx::mbarrierArrive(shared.turn(1 - consumer));
    ptx::wgmmaWait<0>();
    release(shared, stage);
  }

  /// multiplyTiles() with the row side's elements in registers. A group of
  /// products is two instructions deep. While it runs, the elements of the next
  /// group are loaded to the other of two sets.
  static void multiplyFragments(const Shared &shared, int consumer, int steps,
                                Place &place, Accumulators &sums) {
    constexpr int kGroup = 2 * kDepth, kGroups = kBlockK / kGroup;
    static_assert(kGroups % 2 == 0,
                  "a stage's first group is the second to wait, and each set "
                  "has the same groups of every stage");
    unsigned long long columnBase = ColumnTile::descriptor(
        shared.columnTile(0) +
        (kConfig.columnSharers() > 1
             ? consumer * ColumnTile::pieceBytes(kOwnColumns)
             : 0));
    unsigned rowBase = shared.rowTile(0);
    if constexpr (kConfig.rowSharers() > 1)
      rowBase += consumer * kUnits * unitBytes();
    unsigned elements[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      elements[i] = rowBase + elementOffset(i);
    unsigned fragments[2][kUnits][2][4];
    int accumulate = 0, before = -1;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      ptx::mbarrierWait(shared.full(place.stage), place.phase);
      unsigned offset = place.stage * kConfig.stageBytes(kSignature);
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        // One group stays in flight. The group before has read its set and,
        // behind the first group of a stage, the stage before.
        ptx::wgmmaWait<1>();
        if (group == 1 && before >= 0)
          release(shared, before);
        auto &set = fragments[group % 2];
#pragma unroll
        for (int unit = 0; unit < kUnits; ++unit)
#pragma unroll
          for (int i = 0; i < 2; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j)
              set[unit][i][j] = ptx::ldShared32(
                  elements[j] + offset +
                  (unit * unitBytes() +
                   (group * kGroup + i * kDepth) * Slab::kBytes));
        ptx::wgmmaFence();
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
          for (int unit = 0; unit < kUnits; ++unit)
            ptx::wgmmaTf32Registers<kOwnColumns>(
                sums[unit], set[unit][i],
                columnBase + (offset >> 4) +
                    ColumnTile::stepOffset(group * kGroup + i * kDepth),
                accumulate);
          accumulate = 1;
        }
        ptx::wgmmaCommit();
      }
      before = place.stage;
      place.next();
    }
    finishProducts(shared, consumer, before);
  }

  /// Offset of element \p i of this thread's first fragment in the row side's
  /// tile. Even elements are in its first row, odd ones in its second; elements
  /// 0 and 1 are at k = lane % 4, the others 4 further.
  static unsigned elementOffset(int i) {
    unsigned thread = threadIdx.x % Sm90GemmConfig::kWarpgroup;
    unsigned row = Sm90GemmConfig::rowFromRegisters(thread) +
                   i % 2 * Sm90GemmConfig::kSecondFromRegisters;
    return row / 32 * (kBlockK * Slab::kBytes) +
           swizzledOffset<Slab::kBytes, SwizzleFor::Ldmatrix>(
               thread % 4 + i / 2 * 4, row % 32 * kBytes);
  }

  /// Bytes between the tiles of two units of one k step.
  static constexpr int unitBytes() {
    return RowTile::pieceBytes(Sm90GemmConfig::kUnit);
  }

  /// Tells the producers of all blocks that fill \p stage that it has been
  /// read.
  static void release(const Shared &shared, int stage) {
    int thread = threadIdx.x % Sm90GemmConfig::kWarpgroup;
    if constexpr (kMulticast > 1) {
      if (thread < kMulticast)
        ptx::mbarrierArriveCluster(
            ptx::mapaSharedCluster(shared.empty(stage), thread));
    } else if (thread == 0)
      ptx::mbarrierArrive(shared.empty(stage));
  }
};

template <GemmSignature kSignature, Sm90GemmConfig kConfig>
void sm90Gemm(const Sm90GemmParams &params) {
  Sm90Gemm<kSignature, kConfig>::run(params);
}

} // namespace kiln
