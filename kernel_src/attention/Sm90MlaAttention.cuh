//===- attention/Sm90MlaAttention.cuh - MLA by wgmma ----------------------===//
//
// Problem: in MLA (multi-head latent attention) rows of Q and K have 576
// elements, and V is the first 512 of K, the same for all heads. With many
// heads the tensor cores are the limit: 64 rows and 64 keys take 2176 clocks of
// an SM. But 64 rows of O are 128 KB of registers, all that two warpgroups have
// beside a block of scores, and two blocks of keys with Q fill shared memory.
//
// Choice: two consumers. Each has half of the columns of O, and makes the
// scores and the probabilities of every other block of keys. It multiplies its
// own probabilities from registers, and those of the other consumer from shared
// memory. The greatest scores are passed along with the probabilities, so both
// halves of O are rescaled alike. While one consumer makes probabilities, the
// other multiplies: one buffer of probabilities is enough, because its reader
// is the writer of the next ones.
//
// The keys of both products are the same bytes: slabs of 64 elements of a row.
// The scores run along the rows, and the sums across them. One thread of a
// producer loads them by TMA in groups of slabs, as the products with V give
// them back: with only two buffers the next block has to be loaded under the
// products with this one.
//
// Blocks of rows of one sequence may form a cluster. Each loads a part of the
// keys for all, which halves the traffic of L2.
//
// Keys of a sequence are split, found and merged as in `decode`.
//
// Rejected: scores of 32 keys by each consumer (Q is read twice, and shared
// memory takes longer than the tensor cores); three buffers of 32 keys (for the
// same reason).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/Sm90MlaConsumer.cuh"
#include "attention/Sm90MlaTiles.cuh"
#include "common/Dependent.cuh"

namespace kiln {

template <AttentionSignature kSignature, Sm90MlaConfig kConfig>
class Sm90MlaAttention {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");
  static_assert(__CUDA_ARCH__ == 900, "wgmma needs sm_90a");

  static constexpr int kConsumers = Sm90MlaConfig::kConsumers;
  static constexpr int kCluster = kConfig.cluster;
  static constexpr int kLoaded = kConfig.loadedKeys();
  static constexpr bool kPaged = kSignature.pages != AttentionPages::None;

  using Shared = Sm90MlaShared<kSignature, kConfig>;

public:
  static void run(const Sm90MlaParams &params) {
    extern __shared__ __align__(16) unsigned char sharedMemory[];
    constexpr unsigned kMask = Sm90MlaConfig::kAlignment - 1;
    Shared shared{(ptx::sharedAddress(sharedMemory) + kMask) & ~kMask};
    // The shuffle tells the compiler that all lanes of a warp have the same
    // value.
    int warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
    int role = warp / 4;
    if (warp == 4 * kConsumers && ptx::electOne()) {
      ptx::prefetchTensorMap(&params.k);
      setUp(shared);
    }
    awaitPredecessor();
    Sm90MlaWork work = workOf<kSignature, kConfig>(params.attention);
    if (!work.hasWork)
      return;
    meet();
    if (role == kConsumers) {
      ptx::setmaxnregDec<Sm90MlaConfig::kProducerRegisters>();
      if (warp % 4 == 0 && ptx::electOne())
        produce(params, shared, work);
      __syncwarp();
    } else {
      ptx::setmaxnregInc<Sm90MlaConfig::kConsumerRegisters>();
      if (role == 0)
        Sm90MlaConsumer<kSignature, kConfig, 0>(params.attention, shared, work)
            .run();
      else
        Sm90MlaConsumer<kSignature, kConfig, 1>(params.attention, shared, work)
            .run();
    }
    allowSuccessor();
    // Other blocks load keys to this block, and give theirs back to it.
    if constexpr (kCluster > 1)
      meet();
  }

private:
  /// Waits for all threads of the cluster.
  static void meet() {
    if constexpr (kCluster > 1) {
      __syncwarp(); // the barrier needs converged warps
      ptx::barrierClusterArriveRelease();
      ptx::barrierClusterWait();
    } else {
      __syncthreads();
    }
  }

  static void setUp(const Shared &shared) {
    for (int stage = 0; stage < Sm90MlaConfig::kStages; ++stage)
      for (int group = 0; group < kConfig.groups(); ++group) {
        ptx::mbarrierInit(shared.full(stage, group), 1);
        ptx::mbarrierInit(shared.empty(stage, group), kCluster);
      }
    ptx::fenceMbarrierInit();
  }

  //===--------------------------------------------------------------------===//
  // The producer
  //===--------------------------------------------------------------------===//

  /// The numbers of the pages of a block's keys.
  struct Pages {
    int number[kConfig.mostBoxes()];
  };

  static void produce(const Sm90MlaParams &params, const Shared &shared,
                      const Sm90MlaWork &work) {
    int rank = kCluster > 1 ? static_cast<int>(ptx::clusterCtaRank()) : 0;
    int blocks = work.blocks.size();
    Pages pages;
    if constexpr (kPaged) {
      lookUp(params, work, rank, 0, pages);
      note(shared, 0, pages);
    }
#pragma unroll 1
    for (int number = 0; number < blocks; ++number) {
      // The numbers for the next block are loaded from memory during this
      // block.
      if constexpr (kPaged)
        lookUp(params, work, rank, number + 1, pages);
      load(params, shared, work, rank, number);
      if constexpr (kPaged)
        note(shared, number + 1, pages);
    }
  }

  static int firstKey(const Sm90MlaWork &work, int rank, int number) {
    return (work.blocks.end - 1 - number) * Sm90MlaConfig::kKeys +
           rank * kLoaded;
  }

  /// Looks up pages. A division takes as long as many loads, and all warps wait
  /// for this one thread: there are two divisions for a block of keys.
  static void lookUp(const Sm90MlaParams &params, const Sm90MlaWork &work,
                     int rank, int number, Pages &pages) {
    // A box behind the last key lies outside of all pages, so that TMA gives
    // zeros.
    constexpr int kNoPage = 0x7fffffff;
    bool exists = number < work.blocks.size();
    int first = firstKey(work, rank, number);
    int keys = exists ? min(kLoaded, work.keys.count - first) : 0;
    // Each box is a page, or there is one box.
    int page = exists ? first / params.attention.pageSize : 0;
#pragma unroll
    for (int box = 0; box < kConfig.mostBoxes(); ++box) {
      pages.number[box] = kNoPage;
      if (box * params.boxKeys < keys)
        pages.number[box] =
            pageNumber<kSignature>(params.attention, work.sequence, page + box);
    }
  }
  static void note(const Shared &shared, int number, const Pages &pages) {
#pragma unroll
    for (int box = 0; box < kConfig.mostBoxes(); ++box)
      ptx::stShared32(shared.page(number & 1, box), pages.number[box]);
  }

  static void load(const Sm90MlaParams &params, const Shared &shared,
                   const Sm90MlaWork &work, int rank, int number) {
    int stage = number % Sm90MlaConfig::kStages;
    unsigned phase = number / Sm90MlaConfig::kStages & 1;
    int first = firstKey(work, rank, number);
    int within = kPaged && params.attention.pageSize > params.boxKeys
                     ? first % params.attention.pageSize
                     : 0;
#pragma unroll 1
    for (int group = 0; group < kConfig.groups(); ++group) {
      unsigned full = shared.full(stage, group);
      int slabs = kConfig.slabCount(kSignature, group);
      int slab = kConfig.firstSlab(kSignature, group);
      ptx::mbarrierWait(shared.empty(stage, group), phase ^ 1);
      ptx::mbarrierArriveExpectTx(full, slabs * Sm90MlaConfig::kSlabBytes);
#pragma unroll 1
      for (int i = slab; i < slab + slabs; ++i) {
        unsigned to = shared.key(stage) + i * Sm90MlaConfig::kSlabBytes +
                      rank * kLoaded * Slab::kBytes;
        if constexpr (kPaged)
          loadPages(params, shared, work, full, to, i, within, number & 1);
        else
          loadBox(params, full, to, i, work.keys.first + first, work.kvHead,
                  work.sequence * params.batchStepK);
      }
    }
  }

  static void loadPages(const Sm90MlaParams &params, const Shared &shared,
                        const Sm90MlaWork &work, unsigned full, unsigned to,
                        int slab, int within, int parity) {
    unsigned page = shared.page(parity, 0);
#pragma unroll 1
    for (int row = 0; row < kLoaded; row += params.boxKeys, page += 4)
      loadBox(params, full, to + row * Slab::kBytes, slab, within, work.kvHead,
              static_cast<int>(ptx::ldShared32(page)));
  }

  static void loadBox(const Sm90MlaParams &params, unsigned full, unsigned to,
                      int slab, int token, int head, int batch) {
    if constexpr (kCluster > 1)
      ptx::tmaLoadMulticast(to, &params.k, full, slab * Slab::kElements, token,
                            head, batch, (1 << kCluster) - 1);
    else
      ptx::tmaLoad(to, &params.k, full, slab * Slab::kElements, token, head,
                   batch);
  }
};

template <AttentionSignature kSignature, Sm90MlaConfig kConfig>
void sm90MlaAttention(const Sm90MlaParams &params) {
  Sm90MlaAttention<kSignature, kConfig>::run(params);
}

} // namespace kiln
