//===- gemm/Sm90PackedGemm.cuh - W4A16 and W8A16 by wgmma -----------------===//
//
// Problem: a 4-bit weight is a quarter of a bf16 one, so an SM has a quarter of
// the time for each, and has to decode it, too. A warp that also computes
// addresses and waits for its own loads is too slow for that.
//
// Choice: as in Sm90Gemm.cuh a producer fills a ring in shared memory. A stage
// has blocks of weights in the order of memory, by one bulk copy for 64 rows;
// their scales and zero points likewise; and rows of A in boxes. Consumers read
// weights, 16 bytes a lane, decode them (WeightDecoder.cuh) and multiply them
// from registers: the order of the weights (common/PackedWeights.h) is that of
// wgmma's fragments. The weights are its 64 rows and the rows of A its columns,
// of which there may be 8 to 256. Each weight is decoded once for all columns
// of a tile.
//
// While products of 32 k run, the next weights are decoded to other registers.
// So no product is waited for before the next one is issued, except at the end
// of a tile.
//
// Codes go to the tensor core as exact numbers. The sums of a quantisation
// group are multiplied by its scale and added to others in fp32: one
// multiplication for each sum and group, none for each weight, and no rounding
// of a scaled weight. In narrow tiles two sets of such sums alternate; in wide
// ones the other consumer's products cover the additions. Scales of rows
// multiply finished sums.
//
// Tiles, split-K and the epilogue are those of the wgmma GEMM with exchanged
// sides (Sm90Tiles.cuh, Sm90Exchange.cuh, Sm90Epilogue.cuh). With kShared a
// tile has 64 rows, and two consumers alternate along k, so that each SM has a
// tile where rows are few.
//
// Padding: codes beyond n make rows that are never stored; codes beyond k are
// multiplied by rows of A that TMA fills with zeros. Shared memory may hold
// anything there: every code is finite. Scales need not be, so scales of groups
// that do not exist are not read.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Dependent.cuh"
#include "common/Ring.cuh"
#include "common/SlabTile.cuh"
#include "common/WgmmaRegisters.cuh"
#include "gemm/PackedWeight.cuh"
#include "gemm/Sm90Epilogue.cuh"
#include "gemm/Sm90PackedConfig.h"
#include "gemm/Sm90PackedStage.cuh"
#include "gemm/Sm90Tiles.cuh"
#include "gemm/WeightDecoder.cuh"

namespace kiln {

template <GemmSignature kSignature, Sm90PackedConfig kConfig>
class Sm90PackedGemm {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");
  static_assert(__CUDA_ARCH__ == 900, "wgmma needs sm_90a");
  static_assert(!kConfig.frame().tradesRegisters() ||
                    Sm90GemmConfig::isTrade(kConfig.threads(),
                                            kConfig.producerRegisters(),
                                            kConfig.consumerRegisters()),
                "consumers would wait for registers for ever");

  static constexpr Sm90GemmConfig kFrame = kConfig.frame();
  static constexpr int kStages = kConfig.stages, kBlockK = kConfig.blockK;
  static constexpr int kConsumers = kConfig.consumers;
  static constexpr int kUnits = kConfig.units(), kColumns = kConfig.vectors;
  static constexpr bool kShared = kConfig.kShared;
  static constexpr bool kFetches = kFrame.fetchedOperands(kSignature) > 0;
  static constexpr int kWarpgroup = Sm90GemmConfig::kWarpgroup;

  using Shared = Sm90Shared<kSignature, kFrame>;
  using Walk = Sm90Walk<kSignature, kFrame>;
  using Epilogue = Sm90Epilogue<kSignature, kFrame>;
  using Stage = Sm90PackedStage<kSignature, kConfig>;
  using ColumnTile = SlabTile<true, kColumns, kBlockK, 2>;
  using Place = RingPlace<kStages>;
  using Decoder = WeightDecoder<kSignature.typeB(), kSignature.in>;

  static constexpr bool kHasGroups = kSignature.groupB != 0;
  static constexpr bool kHasZeros = kSignature.zeroB;
  static constexpr int kDepth = 16; // of one product
  /// Products of a run, which is one unit in one quantisation group. A stage
  /// has kRuns runs, with the runs of one group next to each other.
  static constexpr int kRunSteps = Stage::kRunDepth / kDepth;
  static constexpr int kRuns = kBlockK / Stage::kRunDepth * kUnits;
  /// Products are issued in pairs, which use sets of fragments in turn.
  static constexpr int kRunPairs = kRunSteps / 2;
  static constexpr int kPairs = kRuns * kRunPairs; // in a stage
  static constexpr int kFragmentSets = kConfig.fragmentSets();
  static constexpr int kPartialSets = kConfig.partialSets(kSignature);
  /// A lane loads the words of 64 k, or of a run, at once.
  static constexpr int kChunkSteps = Stage::kChunkDepth / kDepth;
  static constexpr int kRunChunks = kRunSteps / kChunkSteps;
  static constexpr int kChunks = kRuns * kRunChunks;
  static_assert(kChunks % 2 == 0 && kPairs % kFragmentSets == 0 &&
                    (kPartialSets < 2 || kRuns % 2 == 0),
                "sets have the same places in every stage");

  using Sums = float[kUnits][kColumns / 2];

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
      if constexpr (kFrame.tradesRegisters())
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
      if constexpr (kFrame.tradesRegisters())
        ptx::setmaxnregInc<kConfig.consumerRegisters()>();
      consume(params, shared, walk, role, warp % 4);
    }
  }

private:
  static void prefetchMaps(const Sm90GemmParams &params) {
    ptx::prefetchTensorMap(&params.a);
    if constexpr (kFrame.storesByTma(kSignature))
      ptx::prefetchTensorMap(&params.d);
    if constexpr (kFetches)
      Epilogue::prefetchMaps(params);
  }

  /// The producer's warp sets up the barriers and goes on; the others wait for
  /// it.
  static void begin(const Shared &shared, bool isProducer) {
    if (isProducer && ptx::electOne()) {
      for (int stage = 0; stage < kStages; ++stage) {
        ptx::mbarrierInit(shared.full(stage), 1);
        ptx::mbarrierInit(shared.empty(stage), kFrame.readers());
      }
      if constexpr (kFetches)
        Epilogue::setUp(shared);
      ptx::fenceMbarrierInit();
    }
    __syncwarp();
    if (isProducer)
      ptx::barArrive(0, kConfig.threads());
    else
      ptx::barSync(0, kConfig.threads());
  }

  //===--------------------------------------------------------------------===//
  // The producer
  //===--------------------------------------------------------------------===//

  /// Loads all operands of every step of every tile to the ring.
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
    unsigned long long keep = 0;
    if constexpr (kHints)
      keep = ptx::createPolicyEvictLast();
    const Stage stage(params.gemm, kHints ? ptx::createPolicyEvictFirst() : 0);
    auto loadColumns = [&](const Sm90Tile &tile, int k, int to) {
      ColumnTile::template load<kHints, 1>(
          shared.columnTile(to), &params.a, shared.full(to), tile.columnBegin,
          k, tile.batch * params.batchStepA, 0, keep);
    };
    Place place;
    // Steps of the first tile whose copies are issued while the ring is empty.
    int issued = 0;
    if (params.gemm.early && !walk.isDone()) {
      Sm90Tile tile = walk.tile();
      issued = min(kStages, walk.kCount);
#pragma unroll 1
      for (int pass = 0; pass < 2; ++pass) {
        if (pass == 1)
          awaitPredecessor();
        int operands = pass == 0 ? params.gemm.early : ~params.gemm.early;
#pragma unroll 1
        for (int step = 0; step < issued; ++step) {
          int k = walk.kBegin(step);
          if (pass == 0)
            ptx::mbarrierArriveExpectTx(shared.full(step),
                                        params.stageBytes +
                                            stage.bytes(tile.rowBegin, k));
          if (operands & kEarlyB)
            stage.template loadWeights<kHints>(shared.rowTile(step),
                                               shared.full(step), tile, k);
          if (operands & kEarlyA)
            loadColumns(tile, k, step);
          // The scales of B are not among the early operands.
          if (pass == 1)
            stage.loadScales(shared.rowTile(step), shared.full(step), tile, k);
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
        unsigned full = shared.full(place.stage);
        unsigned rows = shared.rowTile(place.stage);
        ptx::mbarrierWait(shared.empty(place.stage), place.phase ^ 1);
        ptx::mbarrierArriveExpectTx(full, params.stageBytes +
                                              stage.bytes(tile.rowBegin, k));
        stage.template loadWeights<kHints>(rows, full, tile, k);
        stage.loadScales(rows, full, tile, k);
        loadColumns(tile, k, place.stage);
        place.next();
      }
      issued = 0;
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
    Sums sums;
#pragma unroll 1
    for (int number = 0; !walk.isDone(); walk.next(), number ^= 1) {
      Sm90Tile tile = walk.tile();
      const bool isStorer = !kShared || number == consumer;
      if (isStorer)
        epilogue.prepare(tile);
      const RowFactors ofRows(params.gemm, tile, consumer);
      multiply(params, shared, consumer, walk, place, ofRows, sums);
      place.skip(walk.kCount);
      ofRows.scale(sums);
      if constexpr (kShared) {
        addShared(shared, number, isStorer, sums);
        if (!isStorer)
          continue;
      }
      epilogue.store(tile, walk, sums);
    }
    epilogue.finish();
  }

  /// Scales and zero points that all k of a row share, without quantisation
  /// groups.
  class RowFactors {
  public:
    RowFactors(const GemmParams &gemm, const Sm90Tile &tile, int consumer) {
      if constexpr (!kHasGroups) {
#pragma unroll
        for (int unit = 0; unit < kUnits; ++unit) {
          const int block =
              min(tile.rowBegin / Sm90GemmConfig::kUnit +
                      (kShared ? 0 : consumer * kUnits) + unit,
                  static_cast<int>(PackedWeights::blocksOf(gemm.n)) - 1);
          const long long at = tile.batch * packedScales<kSignature>(gemm) +
                               block * PackedWeights::kRows +
                               Stage::rowOfLane();
#pragma unroll
          for (int i = 0; i < 2; ++i)
            scales[unit][i] = packedScale<kSignature>(gemm, at + i);
          if constexpr (kHasZeros)
            zeros[unit] = *reinterpret_cast<const unsigned short *>(
                static_cast<const char *>(gemm.zeroB) + at);
        }
      }
    }

    void scale(Sums &sums) const {
      if constexpr (!kHasGroups) {
#pragma unroll
        for (int unit = 0; unit < kUnits; ++unit)
#pragma unroll
          for (int i = 0; i < kColumns / 2; ++i)
            sums[unit][i] *= scales[unit][i % 4 / 2];
      }
    }

    float scales[kUnits][2] = {};
    unsigned zeros[kUnits] = {};
  };

  /// Sums the products of the tile's stages from \p place on; with kShared, of
  /// every second stage.
  static void multiply(const Sm90GemmParams &params, const Shared &shared,
                       int consumer, const Walk &walk, Place place,
                       const RowFactors &ofRows, Sums &sums) {
    constexpr int kTurns = kShared ? 2 : 1;
    const int first = kShared ? consumer : 0;
    const Stage stage(params.gemm, consumer);
    const unsigned long long columnBase =
        ColumnTile::descriptor(shared.columnTile(0));
#pragma unroll
    for (int unit = 0; unit < kUnits; ++unit)
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i)
        sums[unit][i] = 0;
    if (first >= walk.kCount)
      return;
    if constexpr (kShared)
      if (consumer == 1)
        place.next();

    unsigned fragments[kFragmentSets][2][4];
    unsigned words[2][Stage::kChunkWords];
    unsigned addends[2] = {Decoder::addendOf(8), Decoder::addendOf(8)};
    unsigned nextZeros = 0;
    // Arrays have at least one element, even if none is used.
    constexpr int kSets = kPartialSets > 0 ? kPartialSets : 1;
    float partial[kSets][kColumns / 2];
    typename Stage::Scales scales[kSets];

    auto loadChunk = [&](unsigned at, int chunk,
                         unsigned(&to)[Stage::kChunkWords]) {
      const int run = chunk / kRunChunks;
      stage.readWords(to, at, run % kUnits, run / kUnits, chunk % kRunChunks);
      if constexpr (kHasGroups && kHasZeros)
        if (chunk % kRunChunks == 0)
          nextZeros = stage.readZeros(at, run % kUnits, run / kUnits);
    };
    // Adds the sums of run \p run of a stage, times their scales.
    auto promote = [&](int run) {
      auto &set = partial[run % kSets];
      ptx::wgmmaArrived(set);
      float factors[2];
      scales[run % kSets].toFloats(factors);
      float *to = sums[run % kUnits];
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i)
        to[i] = fmaf(set[i], factors[i % 4 / 2], to[i]);
    };
    // The condition is always true, but the compiler cannot know: additions
    // behind a branch stay there, between the issue of products.
    const bool isTile = params.gemm.m > 0;

    ptx::mbarrierWait(shared.full(place.stage), place.phase);
    loadChunk(shared.rowTile(place.stage), 0, words[0]);
    int before = -1;
#pragma unroll 1
    for (int step = first; step < walk.kCount; step += kTurns) {
      const unsigned at = shared.rowTile(place.stage);
      const unsigned long long columns =
          columnBase + place.stage * (kFrame.stageBytes(kSignature) >> 4);
      Place next = place;
      next.next();
      if constexpr (kShared)
        next.next();
      const int groupsLeft = stage.groupsLeft(walk.kBegin(step));
#pragma unroll
      for (int pair = 0; pair < kPairs; ++pair) {
        const int run = pair / kRunPairs, inRun = pair % kRunPairs;
        const int unit = run % kUnits, group = run / kUnits;
        const bool begins = inRun == 0; // of a run
        // The set of fragments that is written next has been read.
        ptx::wgmmaWait<kFragmentSets - 1>();
        if (pair == kFragmentSets - 1 && before >= 0)
          release(shared, before);
        if constexpr (kHasZeros)
          if (begins || !kHasGroups)
            Stage::addendsOf(addends,
                             kHasGroups ? nextZeros : ofRows.zeros[unit]);
        const int chunk = pair * 2 / kChunkSteps;
        if (pair * 2 % kChunkSteps == 0) {
          if (chunk + 1 < kChunks)
            loadChunk(at, chunk + 1, words[(chunk + 1) % 2]);
          else if (step + kTurns < walk.kCount) {
            ptx::mbarrierWait(shared.full(next.stage), next.phase);
            loadChunk(shared.rowTile(next.stage), 0, words[0]);
          }
        }
        auto &set = fragments[pair % kFragmentSets];
#pragma unroll
        for (int i = 0; i < 2; ++i)
          Stage::decode(set[i], words[chunk % 2], pair * 2 % kChunkSteps + i,
                        addends);
        // The sums of the run before are complete.
        const bool hasSums = run > 0 ? isTile : step > first;
        const int runBefore = (run + kRuns - 1) % kRuns;
        if constexpr (kPartialSets > 0)
          if (begins) {
            ptx::wgmmaWait<0>();
            if (kPartialSets == 1 && hasSums)
              promote(runBefore);
            scales[run % kSets] =
                stage.readScales(at, unit, group, group < groupsLeft);
          }
        ptx::wgmmaFence();
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const unsigned long long descriptor =
              columns + ColumnTile::stepOffset(group * Stage::kRunDepth +
                                               (inRun * 2 + i) * kDepth);
          if constexpr (kPartialSets > 0)
            product(partial[run % kSets], set[i], descriptor, inRun + i > 0);
          else
            product(sums[unit], set[i], descriptor, 1);
        }
        ptx::wgmmaCommit();
        if constexpr (kPartialSets == 2)
          if (begins && hasSums)
            promote(runBefore);
      }
      before = place.stage;
      place = next;
    }
    ptx::wgmmaWait<0>();
    release(shared, before);
    if constexpr (kPartialSets > 0)
      promote(kRuns - 1);
  }

  static void product(float (&sums)[kColumns / 2], const unsigned (&rows)[4],
                      unsigned long long columns, int accumulate) {
    ptx::wgmmaRegisters<kSignature.in, kColumns, 0>(sums, rows, columns,
                                                    accumulate);
  }

  /// Adds the sums of both consumers in the storing consumer's registers. Each
  /// thread has places of its own, which it reads before it writes them again:
  /// consumers take turns in storing tiles.
  static void addShared(const Shared &shared, int number, bool isStorer,
                        Sums &sums) {
    constexpr int kFilled = 2 + kConsumers; // behind the epilogue's barriers
    const unsigned to = shared.base + kFrame.tileBytes(kSignature) +
                        kFrame.barrierBytes(kSignature) +
                        kSignature.groupTableBytes() +
                        threadIdx.x % kWarpgroup * 16;
    if (!isStorer) {
#pragma unroll
      for (int i = 0; i < kColumns / 2; i += 4) {
        const unsigned four[4] = {
            __float_as_uint(sums[0][i]), __float_as_uint(sums[0][i + 1]),
            __float_as_uint(sums[0][i + 2]), __float_as_uint(sums[0][i + 3])};
        ptx::stShared128(to + i * (kWarpgroup * 4), four);
      }
      ptx::barArrive(kFilled + number, 2 * kWarpgroup);
      return;
    }
    ptx::barSync(kFilled + number, 2 * kWarpgroup);
#pragma unroll
    for (int i = 0; i < kColumns / 2; i += 4) {
      const uint4 four = ptx::ldShared128(to + i * (kWarpgroup * 4));
      sums[0][i] += __uint_as_float(four.x);
      sums[0][i + 1] += __uint_as_float(four.y);
      sums[0][i + 2] += __uint_as_float(four.z);
      sums[0][i + 3] += __uint_as_float(four.w);
    }
  }

  /// Tells the producer that \p stage has been read.
  static void release(const Shared &shared, int stage) {
    if (threadIdx.x % kWarpgroup == 0)
      ptx::mbarrierArrive(shared.empty(stage));
  }
};

/// Computes D = pointwise(alpha * A W^T + beta * C).
template <GemmSignature kSignature, Sm90PackedConfig kConfig>
void sm90PackedGemm(const Sm90GemmParams &params) {
  Sm90PackedGemm<kSignature, kConfig>::run(params);
}

} // namespace kiln
