//===- AttentionModel.h - the time of attention kernels -------------------===//
//
// Over doubles these models are the estimates, over figures their derivations.
// Clocks are those of an SM.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Attention/AttentionEstimate.h"
#include "Model/Bandwidth.h"

namespace kiln {

/// Keys and queries of a sequence to expect.
int64_t expectedKeys(const AttentionProblem &problem);
int64_t expectedQueries(const AttentionProblem &problem);

/// The clock of launches with pauses between them (H200: 1.75 of 1.98 GHz;
/// after a second without pauses 1.5 to 1.6 are left).
template <Number N> N attentionClock(const DeviceModel &device) {
  constexpr double kHeld = 0.884;
  return named(fitted<N>(kHeld, "share held") *
                   deviceValue<N>(device, &DeviceModel::smClockMHz) / N(1000),
               "clock", "GHz");
}

/// The splits, and those of them that have keys at the lengths to expect.
struct KeySplits {
  int64_t all = 1, active = 1;
  int64_t keys = 0; ///< of a split

  KeySplits(const AttentionProblem &problem, int64_t splits, int64_t splitKeys);
};

/// The cost of merging the results of splits, without the wait for the last
/// split.
template <Number N>
N mergeNs(const AttentionProblem &problem, const KeySplits &splits,
          SplitMerge merge);

/// The delay because some splits of a row end later than others, which take
/// \p ns.
template <Number N> N splitSkewNs(const KeySplits &splits, const N &ns);

/// Where lengths differ, the last SM may have any part of the longest block
/// left to do alone. A quarter fits decode kernels on 64 sequences of 475 to
/// 24439 keys (H200; splits of 512, 1024, 2048, 4096 keys and none: 354, 342,
/// 345, 349 and 411 us).
template <Number N> N lastPart() {
  constexpr double kLastPart = 0.25;
  return fitted<N>(kLastPart, "part left to the last SM");
}

/// Bytes a clock of one SM that loads while most others do not.
template <Number N> N smPort() {
  constexpr double kSmBytesPerClock = 35.7;
  return fitted<N>(kSmBytesPerClock, "port of an SM", "B/clk");
}

/// When all SMs load, they wait twice as long as for a DRAM that is only just
/// \p busy.
template <Number N> N loadedLatencyNs(const N &busy) {
  constexpr double kQueue = 2;
  return named(fitted<N>(kQueue, "queues") * busy, "latency while all SMs load",
               "ns");
}
/// Bytes in flight that \p rate of DRAM, in B/ns, needs at that latency.
template <Number N> N neededBytes(const N &latency, const N &rate) {
  return named(latency * rate, "bytes that DRAM needs", "B");
}

/// Bytes of Q and O.
double queryBytes(const AttentionProblem &problem);
/// Bytes of K and V of one token and head.
double tokenBytes(const AttentionProblem &problem);
/// Bytes of all keys at the lengths to expect.
double keyBytes(const AttentionProblem &problem);
/// All of them.
template <Number N> N operandBytes(const AttentionProblem &problem) {
  return named(given<N>(queryBytes(problem), "Q and O", "B") +
                   given<N>(keyBytes(problem), "K and V", "B"),
               "bytes of all operands", "B");
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

/// Clocks of one step: a tile of rows and one block of keys.
template <Number N> struct AttentionStep {
  N tensor = 0;  ///< both products at the rate of the tensor cores
  N softmax = 0; ///< scores, sums, and the rescaling of O
  N raised = 0;  ///< the softmax of a step that raises origins
  N shared = 0;  ///< mma.sync: reading K, V and Q as fragments
  /// The part of the softmax that competes with the products.
  double softmaxShare = 1;
  N loop = 0;
  N raising = 0; ///< wgmma: the extra time of a step that raises origins
  N pages = 0;   ///< wgmma: the loading thread looks up pages
  N loaded = 0;  ///< the loop, and the part of the pages that shows
  N chained = 0; ///< mma.sync: products of a block wait for one another
  N l2 = 0;      ///< K and V from L2, for all SMs at once
  N port = 0;    ///< K and V through the port of one SM
  N pace = 0;    ///< the largest of these
  N total = 0;   ///< with loads and barriers
};

/// A kernel with tiles on a problem.
template <Number N> struct AttentionTileModel {
  const AttentionProblem &problem;
  const AttentionTileKernel &kernel;
  const DeviceModel &device;

  double headDim, valueDim;
  KeySplits splits;
  VisibleBlocks visible;
  double DeviceModel::*rate = nullptr; ///< of the products
  /// Tiles of all sequences, heads and splits that see keys; and steps.
  double tiles = 0, blocks = 0;
  double numbers = 0;     ///< of tiles, including those without keys to see
  double idle = 0;        ///< tiles that see no keys
  double turns = 0;       ///< of the SM with the most tiles
  double splitBlocks = 0; ///< steps of a whole split

  N clock = 0, busyLatency = 0; ///< GHz; ns of a busy DRAM
  N flops = 0, stepBytes = 0;   ///< of a step's products, and of its K and V
  AttentionStep<N> step;
  /// Clocks in addition to steps: a tile's, all tiles', and those of a tile
  /// that sees no keys.
  N ends = 0, allEnds = 0, idleEnds = 0;
  N longest = 0, shortest = 0, all = 0; ///< clocks of tiles
  N path = 0, tail = 0;                 ///< clocks of the SM with the most work
  N tilesNs = 0, tailNs = 0;
  N dramShare = 0; ///< of the keys that are asked for
  N inFlight = 0, dramRate = 0, firstNs = 0, floorNs = 0, beyondNs = 0;
  N total = 0;

  AttentionTileModel(const AttentionProblem &problem,
                     const AttentionTileKernel &kernel,
                     const DeviceModel &device);

  bool isWgmma() const {
    return kernel.instruction == AttentionTileKernel::Instruction::Wgmma;
  }
  bool hasEqualTiles() const { return longest == shortest; }
  double sms() const { return double(device.smCount); }
  llvm::StringRef bound() const;

private:
  void countTiles();
  N softmaxClocks(bool keepsOrigins) const;
  void computeProducts();
  void computeWgmmaStep();
  void computeMmaStep();
  void computePace();
  N elementClocks() const;
  N raisingClocks(const N &overhead) const;
  N firstLoads() const;
  void computeEnds();
  N tileClocks(int64_t count) const;
  N lastTile() const;
  void computePath();
  void computeBytes();
};

//===----------------------------------------------------------------------===//
// Decode
//===----------------------------------------------------------------------===//

/// Decode kernels: the ns of a wave of blocks.
template <Number N> struct DecodeWave {
  double blocks = 0;
  N dram = 0;   ///< its bytes at the rate of DRAM
  N little = 0; ///< at the rate that its bytes in flight allow
  N port = 0;   ///< at the rate of its SMs' ports
  N life = 0;   ///< of a block, where others wait to start
  N l2 = 0;     ///< including keys that further row blocks read again
  N arithmetic = 0;
  N total = 0; ///< the largest of these
};

template <Number N> struct AttentionDecodeModel {
  const AttentionProblem &problem;
  const AttentionDecodeKernel &kernel;
  const DeviceModel &device;

  KeySplits splits;
  int64_t rowBlocks = 1;
  double DeviceModel::*rate = nullptr; ///< of the products
  double blocks = 0, emptyBlocks = 0, slots = 1, fullWaves = 0;
  double blockKeys = 0; ///< keys that a block walks over
  double dramShare = 1; ///< the share of its bytes that DRAM delivers

  N clock = 0, latency = 0; ///< GHz; ns of a DRAM from which all SMs load
  N dramRate = 0;           ///< B/ns
  N needed = 0;             ///< bytes in flight that DRAM needs
  N inFlight = 0;           ///< bytes, of a block
  N blockBytes = 0;         ///< K and V that a block reads
  /// Clocks of a key: on an SM, and in a warp on its own.
  N keyClocks = 0, warpKeyClocks = 0;
  DecodeWave<N> full, last; ///< of no blocks where there is no such wave
  N stream = 0;             ///< all waves
  N total = 0;

  AttentionDecodeModel(const AttentionProblem &problem,
                       const AttentionDecodeKernel &kernel,
                       const DeviceModel &device);

  double sms() const { return double(device.smCount); }
  /// Rows of a block that have a query.
  int64_t usedRows() const;
  const DecodeWave<N> &main() const { return fullWaves > 0 ? full : last; }
  llvm::StringRef bound() const;
  DecodeWave<N> waveOf(double count) const;

private:
  void computeBlocks();
  void computeKey();
  N unevenNs() const;
};

//===----------------------------------------------------------------------===//
// Naive
//===----------------------------------------------------------------------===//

template <Number N> struct NaiveAttentionModel {
  N issue = 0;   ///< ns of an SM: rows and all their keys
  N longest = 0; ///< the longest row on its own
  N walk = 0;    ///< both
  N stream = 0;  ///< Q, K, V and O from DRAM
  N total = 0;

  NaiveAttentionModel(const AttentionProblem &problem,
                      const DeviceModel &device);
  llvm::StringRef bound() const {
    if (stream > walk)
      return "dram";
    return issue >= longest ? "simd" : "latency";
  }
};

extern template struct AttentionTileModel<double>;
extern template struct AttentionTileModel<Figure>;
extern template struct AttentionDecodeModel<double>;
extern template struct AttentionDecodeModel<Figure>;
extern template struct NaiveAttentionModel<double>;
extern template struct NaiveAttentionModel<Figure>;

} // namespace kiln
