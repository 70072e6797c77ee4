//===- allreduce/PushRows.cuh - all-reduce by stores to peers' memory -----===//
//
// Problem: the sums of a few KiB over the GPUs of a host, many times a step.
// Only latency counts: the bytes take a microsecond of NVLink, a barrier two
// crossings.
//
// Choice: each rank *pushes* its input into the memory of all peers, where
// words that are not 0 are there (ExchangeWords.cuh). The receiver polls its
// own L2: in all one crossing, no barrier and no flag. Every rank adds all
// inputs in the order of ranks in fp32, so all get the same bits. The residual
// add and the norm follow in registers.
//
// For large rows of more than two ranks that is (ranks - 1) times the traffic
// of the least. There each row has an *owner*, which receives all inputs, adds,
// and pushes the result to all: two crossings, for 2 (ranks - 1) / ranks of the
// bytes. Both forms round the sum, with the residual, once to the type of the
// operands, and normalise what was rounded: so their results are the same bits.
//
// Why two halves of exchange memory are enough. Launch e of a rank ends when
// it has received words of launch e of every peer. A peer pushes in launch e
// only when its launch e - 1 has ended and has left its half zero. So when
// launch e + 1 of the fastest rank begins, every rank has ended e - 1, and the
// half that e + 1 uses, that of e - 1, is free everywhere. This holds for any
// sizes and shapes of the launches, because each leaves its half zero. It needs
// halves that stay in their places: a launch with others is an error.
//
// Why no rank waits for ever. All blocks of a grid are there at once (the host
// takes no more than fit), and each pushes all its inputs before it waits for
// any. A rank that does not come ends the wait by the clock.
//
// Rejected: a barrier, then loads from peers: three crossings, of which a load
// has two. Flags beside the data: twice the bytes. Flags for lines of 128
// bytes: whole lines have to arrive at once, which nothing promises.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "allreduce/PushRowsConfig.h"
#include "allreduce/RowPieces.cuh"
#include "common/Dependent.cuh"
#include "rows/RowGroup.cuh"
#include "rows/RowMath.cuh"

namespace kiln {

template <AllReduceSignature kSignature, PushRowsConfig kConfig>
class PushRows {
  static_assert(kConfig.isValid(kSignature), "the host never asks for this");
  static constexpr int kThreads = kConfig.blockThreads;
  static constexpr int kVectors = kConfig.vectors;
  static constexpr int kBytes = ExchangeLayout::kVectorBytes;
  static constexpr int kElements = PushRowsConfig::elements(kSignature);
  static constexpr int kElementBytes = bytesOf(kSignature.type);
  static constexpr int kRanks = kSignature.ranks;
  static constexpr int kTogether = kConfig.together(kSignature);

public:
  static void run(const PushRowsParams &params) {
    allowSuccessor();
    awaitPredecessor();
    if (params.isAlone)
      return PushRows(params, /*launches=*/0, /*hasFailed=*/false)
          .reduceAlone();
    const char *head = params.exchange[params.rank];
    const char *counter =
        head + ExchangeLayout::kCounters + blockIdx.x * sizeof(unsigned);
    const unsigned launches = ptx::ldRelaxedSys32(counter);
    const uint4 words = ptx::ldRelaxedSys(head);
    PushRows(params, launches,
             words.x != 0 || haveMoved(/*halfVectors=*/words.y, params))
        .reduce();
  }

private:
  static_assert(ExchangeLayout::kHalfVectors == 4, "beside the error word");

  /// Whether halves are not where those of the first launch were.
  static bool haveMoved(unsigned halfVectors, const PushRowsParams &params) {
    return halfVectors != 0 &&
           halfVectors != ExchangeLayout::halfVectors(params.halfBytes);
  }

  /// Ranks that have lost each other (\p hasFailed) stay so until the host sets
  /// them up again: then nothing is sent or waited for, and results are not
  /// defined. Threads of a block may read different errors, so all of them go
  /// through all barriers.
  PushRows(const PushRowsParams &params, unsigned launches, bool hasFailed)
      : params(params), given(params.operands), launches(launches),
        half(ExchangeLayout::kHeadBytes + (launches & 1) * params.halfBytes),
        rowBytes(given.cols * kElementBytes),
        passes((rowBytes + kPassBytes - 1) / kPassBytes),
        keepsInput(passes == 1 && given.rows <= gridDim.x),
        wait(params.exchange, kRanks, params.rank, params.limitNs, hasFailed) {}

  void reduce() {
    forEachRow([&](long long row) { push(row); });
    if (params.hasOwners) {
      // Rows of its own first: others wait for them.
      forEachRow([&](long long row) {
        if (ownerOf(row) == params.rank)
          finish<Sum::Send>(row);
      });
      forEachRow([&](long long row) {
        if (ownerOf(row) != params.rank)
          finish<Sum::Receive>(row);
      });
    } else
      forEachRow([&](long long row) { finish<Sum::Keep>(row); });
    count();
    if (blockIdx.x == 0 && threadIdx.x == 0)
      keepHalves();
  }
  void reduceAlone() {
    forEachRow([&](long long row) { finish<Sum::Alone>(row); });
  }

  static constexpr int kPassBytes = kThreads * kVectors * kBytes;
  /// The use of a row's sum: it stays here, is sent to all, was sent by the
  /// row's owner, or is made of one input.
  enum class Sum { Keep, Send, Receive, Alone };

  template <class Visit> void forEachRow(Visit &&visit) const {
    for (long long row = blockIdx.x; row < given.rows; row += gridDim.x)
      visit(row);
  }
  int ownerOf(long long row) const { return static_cast<int>(row % kRanks); }

  //===--------------------------------------------------------------------===//
  // Places
  //===--------------------------------------------------------------------===//

  /// Offset in a row of this thread's vector \p v of a pass. Not below rowBytes
  /// where it has none.
  long long offsetOf(long long pass, int v) const {
    return pass * kPassBytes +
           static_cast<long long>(v * kThreads + threadIdx.x) * kBytes;
  }
  /// Where the memory of \p receiver gets the input of \p sender for a row.
  char *inboxOf(int receiver, int sender, long long row) const {
    const long long at = params.hasOwners ? row / kRanks : row;
    return params.exchange[receiver] + half + sender * params.inboxBytes +
           at * params.pitch;
  }
  /// Where the memory of \p receiver gets the sum of a row from its owner.
  char *sumOf(int receiver, long long row) const {
    return params.exchange[receiver] + half + kRanks * params.inboxBytes +
           row * params.pitch;
  }

  /// The row \p row of a matrix.
  static const char *rowOf(const void *base, long long ld, long long row) {
    return static_cast<const char *>(base) + row * ld * kElementBytes;
  }
  static char *rowOf(void *base, long long ld, long long row) {
    return static_cast<char *>(base) + row * ld * kElementBytes;
  }

  ExchangeWords load(const char *row, long long offset) const {
    return loadPieces<kSignature.align>(row, offset, rowBytes);
  }
  void store(char *row, long long offset, const ExchangeWords &words) const {
    storePieces<kSignature.align>(row, offset, rowBytes, words);
  }

  //===--------------------------------------------------------------------===//
  // Sums
  //===--------------------------------------------------------------------===//

  ExchangeWords inputOf(long long row, long long offset) const {
    return sendable(load(rowOf(given.x, given.ldx, row), offset));
  }

  /// Sends the inputs of a row to all peers that add them.
  void push(long long row) {
    for (long long pass = 0; pass < passes; ++pass) {
      ExchangeWords words[kVectors] = {};
#pragma unroll
      for (int v = 0; v < kVectors; ++v)
        if (offsetOf(pass, v) < rowBytes)
          words[v] = inputOf(row, offsetOf(pass, v));
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        input[v] = words[v];
        forgetUnpacked(input[v]);
      }
      // The loads are in flight before the error word is needed.
      if (wait.hasFailed())
        continue;
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        const long long offset = offsetOf(pass, v);
        if (offset >= rowBytes)
          continue;
#pragma unroll
        for (int peer = 0; peer < kRanks; ++peer)
          if (peer != params.rank &&
              (!params.hasOwners || peer == ownerOf(row)))
            sendWords(inboxOf(peer, params.rank, row) + offset, input[v]);
      }
    }
  }

  /// The vectors \p first and those that are received with it of what the row
  /// becomes, before the norm: the sum, with the residual, rounded.
  template <Sum kSum>
  void makeSums(ExchangeWords (&sums)[kTogether], long long row, long long pass,
                int first) {
    ExchangeWords residual[kTogether] = {};
    if constexpr (kSignature.residual && kSum != Sum::Receive)
#pragma unroll
      for (int v = 0; v < kTogether; ++v)
        residual[v] = load(rowOf(given.residual, given.ldResidual, row),
                           offsetOf(pass, first + v));
    if constexpr (kSum == Sum::Receive)
      return receiveSums(sums, row, pass, first);
    ExchangeWords inputs[kTogether][kRanks];
    receiveInputs<kSum == Sum::Alone>(inputs, row, pass, first);
#pragma unroll
    for (int v = 0; v < kTogether; ++v) {
      sums[v] = sendable(added(inputs[v], residual[v]));
      const long long offset = offsetOf(pass, first + v);
      if (kSum == Sum::Send && offset < rowBytes && !wait.hasFailed())
#pragma unroll
        for (int peer = 0; peer < kRanks; ++peer)
          if (peer != params.rank)
            sendWords(sumOf(peer, row) + offset, sums[v]);
    }
  }

  /// In the order of ranks, then the residual: the same bits everywhere.
  static ExchangeWords added(const ExchangeWords (&inputs)[kRanks],
                             const ExchangeWords &residual) {
    float sum[kElements];
    unpackFloats<kSignature.type>(sum, inputs[0]);
#pragma unroll
    for (int rank = 1; rank < kRanks; ++rank)
      add(sum, inputs[rank]);
    if constexpr (kSignature.residual)
      add(sum, residual);
    return packFloats<kSignature.type>(sum);
  }
  static void add(float (&sum)[kElements], const ExchangeWords &words) {
    float value[kElements];
    unpackFloats<kSignature.type>(value, words);
#pragma unroll
    for (int e = 0; e < kElements; ++e)
      sum[e] += value[e];
  }

  template <bool kAlone>
  void receiveInputs(ExchangeWords (&inputs)[kTogether][kRanks], long long row,
                     long long pass, int first) {
#pragma unroll
    for (int v = 0; v < kTogether; ++v)
#pragma unroll
      for (int peer = 0; peer < kRanks; ++peer) {
        inputs[v][peer] = {};
        if ((kAlone || peer == params.rank) &&
            offsetOf(pass, first + v) < rowBytes)
          inputs[v][peer] = keepsInput && !kAlone
                                ? input[first + v]
                                : inputOf(row, offsetOf(pass, first + v));
      }
    if constexpr (kAlone)
      return;
    auto isAwaited = [&](int v, int peer) {
      return peer != params.rank && offsetOf(pass, first + v) < rowBytes;
    };
    auto placeOf = [&](int v, int peer) {
      return inboxOf(params.rank, peer, row) + offsetOf(pass, first + v);
    };
    for (wait.restart();;) {
      int missing = -1;
#pragma unroll
      for (int v = 0; v < kTogether; ++v)
#pragma unroll
        for (int peer = 0; peer < kRanks; ++peer)
          if (isAwaited(v, peer) &&
              !receiveWords(placeOf(v, peer), inputs[v][peer]))
            missing = peer;
      if (missing < 0 || !wait.goesOn(missing))
        break;
    }
#pragma unroll
    for (int v = 0; v < kTogether; ++v)
#pragma unroll
      for (int peer = 0; peer < kRanks; ++peer)
        if (isAwaited(v, peer))
          clearPlace(placeOf(v, peer));
  }

  void receiveSums(ExchangeWords (&sums)[kTogether], long long row,
                   long long pass, int first) {
    char *place = sumOf(params.rank, row);
    for (wait.restart();;) {
      bool isThere = true;
#pragma unroll
      for (int v = 0; v < kTogether; ++v)
        if (offsetOf(pass, first + v) < rowBytes)
          isThere &= receiveWords(place + offsetOf(pass, first + v), sums[v]);
      if (isThere || !wait.goesOn(ownerOf(row), /*isIndirect=*/true))
        break;
    }
#pragma unroll
    for (int v = 0; v < kTogether; ++v)
      if (offsetOf(pass, first + v) < rowBytes)
        clearPlace(place + offsetOf(pass, first + v));
  }

  //===--------------------------------------------------------------------===//
  // Results
  //===--------------------------------------------------------------------===//

  /// The row as it is before the norm, in memory: longer rows than a pass come
  /// from there again.
  char *keptRow(long long row) const {
    if constexpr (kSignature.hasResidualOut())
      return rowOf(given.residualOut, given.ldResidualOut, row);
    else
      return rowOf(given.y, given.ldy, row);
  }

  template <Sum kSum> void finish(long long row) {
    constexpr bool kNorm = kSignature.norm;
    ExchangeWords words[kVectors], weights[kVectors];
    if constexpr (kNorm)
      loadWeights(weights, 0);
    SquareStats stats[1] = {SquareStats::empty()};
    for (long long pass = 0; pass < passes; ++pass) {
#pragma unroll
      for (int first = 0; first < kVectors; first += kTogether) {
        ExchangeWords sums[kTogether];
        makeSums<kSum>(sums, row, pass, first);
#pragma unroll
        for (int v = 0; v < kTogether; ++v) {
          const long long offset = offsetOf(pass, first + v);
          words[first + v] = sums[v];
          if (offset >= rowBytes)
            continue;
          if (!kNorm || kSignature.hasResidualOut() || passes > 1)
            store(keptRow(row), offset, sums[v]);
          if constexpr (kNorm)
            addSquares(stats[0], sums[v]);
        }
      }
    }
    if constexpr (kNorm)
      normalise(row, words, weights, stats);
  }

  /// Beyond the end of the row are zeros.
  static void addSquares(SquareStats &stats, const ExchangeWords &words) {
    float value[kElements];
    unpackFloats<kSignature.type>(value, words);
    stats.add(value);
  }

  void loadWeights(ExchangeWords (&weights)[kVectors], long long pass) const {
#pragma unroll
    for (int v = 0; v < kVectors; ++v)
      weights[v] =
          load(static_cast<const char *>(given.weight), offsetOf(pass, v));
  }

  void normalise(long long row, const ExchangeWords (&words)[kVectors],
                 ExchangeWords (&weights)[kVectors],
                 SquareStats (&stats)[1]) const {
    RowGroup<kThreads, kThreads>::reduce(stats);
    const float factor = inverseSqrt(
        stats[0].sum / static_cast<float>(given.cols) + given.epsilon);
    char *y = rowOf(given.y, given.ldy, row);
    for (long long pass = 0; pass < passes; ++pass) {
      if (pass > 0)
        loadWeights(weights, pass);
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        const long long offset = offsetOf(pass, v);
        if (offset >= rowBytes)
          continue;
        float value[kElements], weight[kElements];
        unpackFloats<kSignature.type>(
            value, passes > 1 ? load(keptRow(row), offset) : words[v]);
        unpackFloats<kSignature.type>(weight, weights[v]);
#pragma unroll
        for (int e = 0; e < kElements; ++e)
          value[e] *= factor * weight[e];
        store(y, offset, packFloats<kSignature.type>(value));
      }
    }
    // Other rows of the block, in any order, use the same shared memory.
    if (given.rows > gridDim.x)
      __syncthreads();
  }

  /// Counts this launch, in the counters of blocks that it has not as well.
  void count() const {
    __syncthreads(); // all threads have read the counter
    unsigned *counters = reinterpret_cast<unsigned *>(
        params.exchange[params.rank] + ExchangeLayout::kCounters);
    for (unsigned i = blockIdx.x + threadIdx.x * gridDim.x;
         i < ExchangeLayout::kMostBlocks; i += kThreads * gridDim.x)
      counters[i] = launches + 1;
  }

  /// Keeps the size of halves for later launches, or tells that it is not that
  /// of earlier ones.
  void keepHalves() {
    char *word = params.exchange[params.rank] + ExchangeLayout::kHalfVectors;
    if (!wait.hasFailed())
      ptx::stRelaxedSys32(word, ExchangeLayout::halfVectors(params.halfBytes));
    else if (haveMoved(ptx::ldRelaxedSys32(word), params))
      wait.tell(ExchangeLayout::kHalvesDiffer);
  }

  const PushRowsParams &params;
  const AllReduceParams &given;
  unsigned launches;
  long long half; ///< offset of the half of this launch
  long long rowBytes, passes;
  bool keepsInput; ///< the one row of this block stays in registers
  ExchangeWords input[kVectors];
  ExchangeWait wait;
};

/// Reduces the rows, on at most ExchangeLayout::kMostBlocks blocks that run at
/// once.
template <AllReduceSignature kSignature, PushRowsConfig kConfig>
void pushRows(const PushRowsParams &params) {
  PushRows<kSignature, kConfig>::run(params);
}

} // namespace kiln
