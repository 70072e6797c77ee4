//===- attention/Sm90Attention.cuh - warp-specialised wgmma attention -----===//
//
// Problem: for a block of keys the two products keep the tensor cores of an SM
// busy for 2048 clocks (128 rows, 128 keys, 128 elements). The exponentials and
// maxima take nearly as long on other units, and each side needs the other's
// result.
//
// Choice: a consumer issues the scores of the next block of keys before the
// product of this block's probabilities with V, and makes probabilities of
// those scores while that product runs: the tensor cores always have work. The
// scores, the probabilities (as first operand of wgmma) and the sums stay in
// registers; consumers are independent of each other. With `ordered`, consumers
// issue in turns, so that their softmaxes do not coincide; this pays for short
// rows, where the softmax takes longest.
//
// One thread of a producer loads Q and the blocks of K and V. K and V have
// stages and barriers of their own, because scores need K one step before the
// sums need V. Blocks of the grid are persistent, and tiles follow each other
// without a gap: the scores of the next tile's first block are issued before
// the last product of this tile, whose sums are stored while the other
// consumers multiply.
//
// Keys are read from the last block to the first. The blocks with a mask come
// first, and give nearly every row a greatest score. From there on weights are
// made over it, without maxima, unless they grow too much
// (AttentionSoftmax.cuh). A warp that needs scores again, because fp32 does not
// hold the weights, computes them on its own by mma.sync: so K and Q are given
// back behind that test, warp by warp.
//
// Rejected: the softmaxes of consumers one after the other (10 % slower),
// polynomials for a part of the exponentials (slower throughout), K and V
// multicast to clusters of two blocks (L2 has room for twice the traffic).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/Sm90AttentionConsumer.cuh"
#include "attention/Sm90AttentionTiles.cuh"
#include "attention/Sm90AttentionTransposer.cuh"
#include "common/Dependent.cuh"
#include "common/Ring.cuh"

namespace kiln {

template <AttentionSignature kSignature, Sm90AttentionConfig kConfig>
class Sm90Attention {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");
  static_assert(__CUDA_ARCH__ == 900, "wgmma needs sm_90a");

  static constexpr int kConsumers = kConfig.consumers;
  static constexpr int kWarps = 4 * kConsumers; ///< all consumers' warps
  static constexpr int kBlock = kConfig.blockN;
  static constexpr int kQueries = kConfig.queryBuffers(kSignature);
  static constexpr int kKeySlabs = kConfig.keySlabs(kSignature);
  static constexpr int kValueSlabs = kConfig.valueSlabs(kSignature);
  static constexpr int kSlabElements = kConfig.slabElements(kSignature);
  static constexpr bool kTransposes = kConfig.transposesValues(kSignature);
  static constexpr bool kPaged = kSignature.pages != AttentionPages::None;

  using Shared = Sm90AttentionShared<kSignature, kConfig>;
  using Walk = Sm90AttentionWalk<kSignature, kConfig>;
  using Tile = Sm90AttentionTile;
  using Place = RingCount<kConfig.stages>;
  using Queries = RingCount<kQueries>;
  using Seam = Sm90AttentionSeam<kSignature, kConfig>;

public:
  static void run(const Sm90AttentionParams &params) {
    extern __shared__ __align__(16) unsigned char sharedMemory[];
    constexpr unsigned kMask = Sm90AttentionConfig::kAlignment - 1;
    Shared shared{(ptx::sharedAddress(sharedMemory) + kMask) & ~kMask};
    // The shuffle tells the compiler that all lanes of a warp have the same
    // value.
    int warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
    int role = warp / 4;
    allowSuccessor();
    if (warp == 4 * kConsumers && ptx::electOne()) {
      prefetchMaps(params);
      setUp(shared);
    }
    awaitPredecessor();
    __syncthreads();
    if (role == kConsumers) {
      if constexpr (kConfig.tradesRegisters())
        ptx::setmaxnregDec<kConfig.producerRegisters()>();
      if (warp % 4 == 0 && ptx::electOne())
        produce(params, shared);
      if constexpr (kTransposes)
        if (warp % 4 != 0)
          Sm90AttentionTransposer<kSignature, kConfig>(shared).run();
      __syncwarp();
    } else {
      if constexpr (kConfig.tradesRegisters())
        ptx::setmaxnregInc<kConfig.consumerRegisters()>();
      Sm90AttentionConsumer<kSignature, kConfig>(params, shared, role).run();
    }
  }

private:
  static void prefetchMaps(const Sm90AttentionParams &params) {
    ptx::prefetchTensorMap(&params.q);
    ptx::prefetchTensorMap(&params.k);
    ptx::prefetchTensorMap(&params.v);
  }

  static void setUp(const Shared &shared) {
    for (int buffer = 0; buffer < kQueries; ++buffer) {
      ptx::mbarrierInit(shared.queryFull(buffer), 1);
      ptx::mbarrierInit(shared.queryEmpty(buffer), kWarps);
    }
    for (int stage = 0; stage < kConfig.stages; ++stage) {
      ptx::mbarrierInit(shared.keyFull(stage), 1);
      ptx::mbarrierInit(shared.keyEmpty(stage), kWarps);
      constexpr int kTransposers = Sm90AttentionConfig::kTransposers;
      ptx::mbarrierInit(shared.valueFull(stage),
                        kTransposes ? kTransposers : 1);
      ptx::mbarrierInit(shared.valueEmpty(stage), kConsumers);
      if constexpr (kTransposes) {
        ptx::mbarrierInit(shared.storedFull(stage), 1);
        ptx::mbarrierInit(shared.storedEmpty(stage), kTransposers);
      }
    }
    ptx::fenceMbarrierInit();
  }

  //===--------------------------------------------------------------------===//
  // The producer
  //===--------------------------------------------------------------------===//

  /// Whether the next tile's Q is loaded during this tile.
  static constexpr bool kAhead = Seam::kBringsQueriesAhead;

  /// The operands that the producer loads next.
  struct Load {
    Place block;    ///< of K and V, which go in step
    Queries number; ///< of the tile
  };

  static void produce(const Sm90AttentionParams &params, const Shared &shared) {
    Load load;
    Walk walk(params);
    announce(params, shared, walk, load.number);
#pragma unroll 1
    for (;; load.number = load.number.next()) {
      Tile tile = readTile(shared.note(load.number.count));
      bool hasKeys = tile.blocks.size() > 0;
      if (hasKeys) {
        loadBlocks<true>(params, shared, load);
      } else if constexpr (!kAhead) {
        loadQueries(params, shared, load.number);
      }
      if (tile.batch < 0) {
        if constexpr (kTransposes)
          announceValues(shared, 0, 0, load.block);
        return;
      }
      walk.next();
      announce(params, shared, walk, load.number.next());
      if constexpr (kAhead)
        if (hasKeys)
          loadBlocks<false>(params, shared, load);
    }
  }

  /// Announces the contents of a stage of V: \p keys keys, of \p bytes bytes.
  static void announceValues(const Shared &shared, int keys, unsigned bytes,
                             Place at) {
    ptx::mbarrierWait(shared.storedEmpty(at.stage()), at.phase() ^ 1);
    if constexpr (kTransposes)
      ptx::stShared32(shared.count(at.stage()), static_cast<unsigned>(keys));
    ptx::mbarrierArriveExpectTx(shared.storedFull(at.stage()), bytes);
  }

  /// Writes the note of tile \p number, the first tile of \p walk that has
  /// rows. With a buffer to spare its Q is loaded at once.
  static void announce(const Sm90AttentionParams &params, const Shared &shared,
                       Walk &walk, Queries number) {
    Tile tile;
#pragma unroll 1
    for (; !walk.isDone(); walk.next()) {
      tile = walk.tile();
      // Sequences may have fewer rows than the longest sequence.
      if (tile.token < tile.queries.count)
        break;
      tile = {};
    }
    if constexpr (kAhead)
      ptx::mbarrierWait(shared.queryEmpty(number.stage()), number.phase() ^ 1);
    writeTile(shared.note(number.count), tile);
    if constexpr (Seam::kSkips)
      writeParts<kSignature, kConfig>(shared.note(number.count),
                                      params.attention, tile);
    if constexpr (kAhead)
      loadQueries(params, shared, number);
  }

  /// Loads Q of tile \p number, whose note is written, and signals that both
  /// are there.
  static void loadQueries(const Sm90AttentionParams &params,
                          const Shared &shared, Queries number) {
    int stage = number.stage();
    unsigned full = shared.queryFull(stage);
    Tile tile = readTile(shared.note(number.count));
    if constexpr (!kAhead)
      ptx::mbarrierWait(shared.queryEmpty(stage), number.phase() ^ 1);
    if (tile.blocks.size() == 0) {
      ptx::mbarrierArriveExpectTx(full, 0);
      return;
    }
    ptx::mbarrierArriveExpectTx(full, kConsumers * kKeySlabs *
                                          kConfig.boxRows() * Slab::kBytes);
    int head = 0, unit = tile.head / kConfig.packed;
    if constexpr (kConfig.ragged) {
      int group = params.attention.heads / params.attention.kvHeads;
      unit = tile.head / group;
      head = tile.head - unit * group;
    }
#pragma unroll
    for (int consumer = 0; consumer < kConsumers; ++consumer)
#pragma unroll
      for (int slab = 0; slab < kKeySlabs; ++slab)
        ptx::tmaLoad(shared.query(stage, consumer) +
                         slab * Sm90AttentionConfig::kSlabBytes,
                     &params.q, full, slab * kSlabElements, head,
                     tile.queries.first + tile.token +
                         consumer * kConfig.consumerTokens(),
                     unit, tile.batch * params.batchStepQ);
  }

  /// Loads the first blocks of a tile, or the last ones, in the order in which
  /// consumers need them. The next tile is announced between the two: its Q is
  /// needed behind these last blocks, and drawing it earlier would balance
  /// tiles less well. (The note holds all that the producer needs of a tile, so
  /// few registers suffice.)
  template <bool kIsFirst>
  static void loadBlocks(const Sm90AttentionParams &params,
                         const Shared &shared, Load &load) {
    Tile tile = readTile(shared.note(load.number.count));
    int kvHead =
        tile.head / (params.attention.heads / params.attention.kvHeads);
    auto loadKeys = [&](int block, Place at) {
      Pages pages = pagesFrom(params, tile, block, 0);
      unsigned full = shared.keyFull(at.stage());
      ptx::mbarrierWait(shared.keyEmpty(at.stage()), at.phase() ^ 1);
      ptx::mbarrierArriveExpectTx(full, kConfig.keyBytes(kSignature));
      loadBlock<kKeySlabs>(params, params.k, shared.key(at.stage()), full, tile,
                           block, kvHead, params.batchStepK, pages);
    };
    auto loadValues = [&](int block, Place at) {
      Pages pages = pagesFrom(params, tile, block, 0);
      announceValues(shared, tile.keys - block * kBlock,
                     kConfig.valueBytes(kSignature), at);
      loadBlock<kValueSlabs>(params, params.v, shared.stored(at.stage()),
                             shared.storedFull(at.stage()), tile, block, kvHead,
                             params.batchStepV, pages);
    };
    constexpr int kLast = 2;
    int split = kAhead ? min(tile.blocks.end - 1, tile.blocks.begin + kLast)
                       : tile.blocks.begin;
    int block = kIsFirst ? tile.blocks.end - 1 : split - 1;
    int last = kIsFirst ? split : tile.blocks.begin;
    if constexpr (kIsFirst) {
      loadKeys(block, load.block);
      if constexpr (!kAhead)
        loadQueries(params, shared, load.number);
    }
#pragma unroll 1
    for (; block >= last; --block) {
      if (block > tile.blocks.begin)
        loadKeys(block - 1, load.block.next());
      loadValues(block, load.block);
      load.block = load.block.next();
    }
  }

  /// The page numbers of several boxes. They are read together: one after the
  /// other, the latencies for small pages would exceed the time of a step.
  struct Pages {
    static constexpr int kCount = 8;
    int number[kCount];
  };

  /// The page numbers for \p block from its row \p row on.
  static Pages pagesFrom(const Sm90AttentionParams &params, const Tile &tile,
                         int block, int row) {
    Pages pages;
    if constexpr (kPaged) {
      const AttentionParams &attention = params.attention;
      int first = block * kBlock + row;
      // A block consists of whole pages with a box each, or is one box within a
      // page.
      int page = first / attention.pageSize;
#pragma unroll
      for (int i = 0; i < Pages::kCount; ++i) {
        int ahead = i * params.pageRows;
        // A box behind the last key lies outside of all pages, so that TMA
        // gives zeros.
        constexpr int kNoPage = 0x7fffffff;
        pages.number[i] =
            row + ahead < kBlock && first + ahead < tile.keys
                ? pageNumber<kSignature>(attention, tile.batch, page + i)
                : kNoPage;
      }
    }
    return pages;
  }

  /// Loads the keys of \p block, or their values, slab by slab. \p pages: the
  /// numbers of its first pages.
  template <int kSlabs>
  static void loadBlock(const Sm90AttentionParams &params, const TensorMap &map,
                        unsigned shared, unsigned full, const Tile &tile,
                        int block, int kvHead, int batchStep, Pages &pages) {
    if constexpr (kPaged) {
      int rows = params.pageRows;
      int within = block * kBlock % params.attention.pageSize;
#pragma unroll 1
      for (int row = 0;;) {
#pragma unroll
        for (int i = 0; i < Pages::kCount; ++i) {
#pragma unroll
          for (int slab = 0; slab < kSlabs; ++slab)
            ptx::tmaLoad(shared + (slab * kBlock + row) * Slab::kBytes, &map,
                         full, slab * kSlabElements, within, kvHead,
                         pages.number[i]);
          row += rows;
          if (row >= kBlock)
            return;
        }
        pages = pagesFrom(params, tile, block, row);
      }
    } else {
#pragma unroll
      for (int slab = 0; slab < kSlabs; ++slab)
        ptx::tmaLoad(shared + slab * kBlock * Slab::kBytes, &map, full,
                     slab * kSlabElements, tile.firstKey + block * kBlock,
                     kvHead, tile.batch * batchStep);
    }
  }
};

template <AttentionSignature kSignature, Sm90AttentionConfig kConfig>
void sm90Attention(const Sm90AttentionParams &params) {
  Sm90Attention<kSignature, kConfig>::run(params);
}

} // namespace kiln
