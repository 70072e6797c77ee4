//===- AttentionModel.h - the estimates of attention, figure by figure ----===//
//
// The figures that AttentionEstimate.cpp adds up, and that
// AttentionDerivation.cpp and AttentionDecodeDerivation.cpp explain. Clocks are
// those of an SM.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Attention/AttentionEstimate.h"

#include <algorithm>

namespace kiln {

/// Keys and queries of a sequence to expect.
int64_t expectedKeys(const AttentionProblem &problem);
int64_t expectedQueries(const AttentionProblem &problem);

/// The clock of launches with pauses between them (H200: 1.75 of 1.98 GHz;
/// after a second without pauses 1.5 to 1.6 are left).
double attentionClockGHz(const DeviceModel &device);

/// The splits, and those of them that have keys at the lengths to expect.
struct KeySplits {
  int64_t all = 1, active = 1;
  int64_t keys = 0; ///< of a split

  KeySplits(const AttentionProblem &problem, int64_t splits, int64_t splitKeys);
};

/// The cost of merging the results of splits, without the wait for the last
/// split.
struct SplitMergeTime {
  double fixedNs = 0;
  double partialRows = 0; ///< rows of results to merge, one after the other
  double rowNs = 0;       ///< for each
  double splits = 0;      ///< of a row, which has a block of its own
  double splitNs = 0;     ///< for each

  double totalNs() const {
    return fixedNs + partialRows * rowNs + splits * splitNs;
  }
};
SplitMergeTime splitMergeTime(const AttentionProblem &problem,
                              const KeySplits &splits, SplitMerge merge);
/// Explains \p merge, if there are results to merge, and appends its result to
/// \p addends of the total.
void addMerge(const SplitMergeTime &merge, Derivation &steps,
              std::vector<StepTerm> &addends);

/// The delay because some splits of a row end later than others, which take
/// \p ns.
double splitSkewNs(const KeySplits &splits, double ns);

/// Where lengths differ, the last SM may have any part of the longest block
/// left to do alone. A quarter fits decode kernels on 64 sequences of 475 to
/// 24439 keys (H200; splits of 512, 1024, 2048, 4096 keys and none: 354, 342,
/// 345, 349 and 411 us).
inline constexpr double kLastPart = 0.25;

/// Bytes a clock of one SM that loads while most others do not.
inline constexpr double kSmBytesPerClock = 35.7;

/// Bytes in flight that \p bytesPerNs of DRAM need: when all SMs load, they
/// wait twice as long as for a DRAM that is only just busy.
double neededBytes(const DeviceModel &device, double bytesPerNs);

/// Bytes of Q and O.
double queryBytes(const AttentionProblem &problem);
/// Bytes of K and V of one token and head.
double tokenBytes(const AttentionProblem &problem);
/// Bytes of all keys at the lengths to expect.
double keyBytes(const AttentionProblem &problem);

/// Instructions of a step's softmax, in clocks.
struct AttentionSoftmax {
  double score = 0, scores = 0;   ///< of a score, and their number
  double output = 0, outputs = 0; ///< of a rescaled element of O
  double fixed = 0;               ///< of a step
  double clocks() const { return score * scores + output * outputs + fixed; }
};

/// Clocks of one step: a tile of rows and one block of keys.
struct AttentionStep {
  double tensor = 0;  ///< both products at the rate of the tensor cores
  double softmax = 0; ///< scores, sums, and the rescaling of O
  double shared = 0;  ///< mma.sync: reading K, V and Q as fragments
  double exposed = 0; ///< mma.sync: loads that no other work hides
  /// Exponent of the norm over overlapping parts: tensor with softmax for
  /// wgmma, tensor with shared for mma.sync.
  double exponent = 1;
  /// The part of the softmax that shows in addition to the norm.
  double softmaxShare = 0;
  double loop = 0;
  /// wgmma with kept origins: the extra time of a step that raises them.
  double raising = 0;
  double pages = 0; ///< wgmma: the loading thread looks up pages
  /// mma.sync: the step of one block, whose products wait for one another, and
  /// the number of blocks of an SM that are in such a step together.
  double chain = 0, together = 1;
  double l2 = 0;   ///< K and V from L2, for all SMs at once
  double port = 0; ///< K and V through the port of one SM
  /// Half of the loading thread's time shows in every step.
  static constexpr double kPagesShare = 0.5;
  double loaded() const { return loop + kPagesShare * pages; }
  double chained() const { return chain / together; }
  double pace() const {
    return std::max({loaded(), pages, chained(), l2, port});
  }
};

/// Chain of a step: clocks from one product of a score to the next, and the
/// part of the rest of the step that a block waits for, too. Fitted to the
/// recorded spaces with head dims of 192 and 256 and blocks of 16 keys.
inline constexpr double kChainedProduct = 40, kChainedRest = 0.5;

/// From the start of a block to its first load: barriers, tensor maps, roles.
inline constexpr double kStartNs = 1500;

/// A kernel with tiles on a problem. Aggregates computed by the constructor.
struct AttentionTileModel {
  const AttentionProblem &problem;
  const AttentionTileKernel &kernel;
  const DeviceModel &device;

  double headDim, valueDim;
  KeySplits splits;
  AttentionStep step;
  VisibleBlocks visible;
  /// Tiles of all sequences, heads and splits that see keys.
  double tiles = 0, blocks = 0;
  double numbers = 0; ///< of tiles, including those without keys to see
  AttentionSoftmax softmax;
  AttentionSoftmax raised;             ///< of steps that raise origins
  double flops = 0, flopsPerClock = 1; ///< of the products of a step
  double sharedBytes = 0, sharedPerClock = 1;
  double stepBytes = 0; ///< of K and V of a step
  double overhead = 1;  ///< of a step: loads and barriers
  /// Clocks of a tile in addition to its steps: the part without overlap, the
  /// latency of its first loads, elements of Q and O.
  double alone = 0, latency = 0, draw = 0, element = 0, elements = 0;
  /// Steps that raise origins after the first one, and their extra cost.
  double raisedSteps = 0, raising = 0;
  double ends = 0; ///< all of them
  /// Tiles that see no keys, and the cost of each: its number, and elements of
  /// Q and O.
  double idle = 0, idleEnds = 0;
  double longest = 0, shortest = 0, total = 0; ///< clocks of tiles
  double turns = 0; ///< tiles of the SM with the most, where tiles are equal
  double path = 0, tail = 0; ///< clocks of the SM with the most work
  double bytes = 0, inFlight = 0, bytesPerNs = 1, floorNs = 0; ///< of DRAM
  double firstBytes = 0, firstRate = 1, firstNs = 0; ///< first step's keys
  double skewNs = 0;
  SplitMergeTime merge;

  AttentionTileModel(const AttentionProblem &problem,
                     const AttentionTileKernel &kernel,
                     const DeviceModel &device);

  bool hasEqualTiles() const { return longest == shortest; }
  double allEnds() const { return (tiles - idle) * ends + idle * idleEnds; }
  /// Products of mma.sync for one score: 16 elements along k each.
  double chainLength() const { return headDim / 16; }
  double sms() const { return double(device.smCount); }
  double ns(double clocks) const { return clocks / attentionClockGHz(device); }
  double pathNs() const { return ns(path + tail); }
  double beyondNs() const;
  double totalNs() const;
  llvm::StringRef bound() const;

private:
  void computeProducts(double flopsPerClock);
  void computeWgmmaStep();
  void computeMmaStep();
  void computeTiles();
  void computePath();
};

/// Decode kernels: a wave of blocks.
struct DecodeWave {
  double blocks = 0;
  double dramNs = 0;   ///< its bytes at the rate of DRAM
  double littleNs = 0; ///< at the rate that its bytes in flight allow
  double portNs = 0;   ///< at the rate of its SMs' ports
  double lifeNs = 0;   ///< of a block, where others wait to start
  double l2Ns = 0;     ///< including keys that further row blocks read again
  double arithmeticNs = 0;
  double totalNs() const;
};

struct AttentionDecodeModel {
  const AttentionProblem &problem;
  const AttentionDecodeKernel &kernel;
  const DeviceModel &device;

  KeySplits splits;
  int64_t rowBlocks = 1;
  double pieceBytes = 0;
  double blocks = 0, emptyBlocks = 0, slots = 1;
  double blockBytes = 0; ///< K and V that a block reads
  double dramShare = 1;  ///< the share of these that DRAM delivers
  double blockKeys = 0;  ///< keys that a block walks over
  /// Arithmetic of a key on an SM: for each 16 rows, and for all rows.
  double rowTiles = 1, productClocks = 0, expClocks = 0, issueClocks = 0;
  double fragmentClocks = 0, convertClocks = 0;
  double copyClocks = 0;    ///< for copies narrower than 16 bytes
  double waitClocks = 0;    ///< waits of a ring's warps for each other
  double keyClocks = 0;     ///< all of them
  double warpKeyClocks = 0; ///< of a key in a warp on its own
  double inFlight = 0;      ///< bytes, of a block
  double needed = 0;        ///< bytes in flight that DRAM needs
  double rate = 0;          ///< bytes a ns of DRAM
  double fullWaves = 0;
  DecodeWave full, last;
  double endsNs = 0, skewNs = 0, emptyNs = 0;
  double unevenNs = 0; ///< lengths differ: the block that ends last
  SplitMergeTime merge;

  AttentionDecodeModel(const AttentionProblem &problem,
                       const AttentionDecodeKernel &kernel,
                       const DeviceModel &device);

  double sms() const { return double(device.smCount); }
  /// Rows of a block that have a query.
  int64_t usedRows() const;
  double streamNs() const;
  double totalNs() const;
  const DecodeWave &main() const { return fullWaves > 0 ? full : last; }
  llvm::StringRef bound() const;
  DecodeWave waveOf(double count) const;

private:
  void computeBlocks();
  void computeKey();
};

/// A naive kernel.
struct NaiveAttentionModel {
  double startNs = 0;               ///< until the first key is loaded
  double rows = 0, rowNs = 0;       ///< of an SM, without their keys
  double keys = 0, keyNs = 0;       ///< of an SM, over all rows
  double pieces = 0, pieceNs = 0;   ///< of the longest row on its own
  double bytes = 0, bytesPerNs = 0; ///< of Q, K, V and O, of DRAM

  NaiveAttentionModel(const AttentionProblem &problem,
                      const DeviceModel &device);
  double issueNs() const { return rows * rowNs + keys * keyNs; }
  double longestNs() const { return pieces * pieceNs; }
  double streamNs() const { return bytes / bytesPerNs; }
  double bodyNs() const {
    return std::max(issueNs() + longestNs(), streamNs());
  }
  llvm::StringRef bound() const {
    if (bodyNs() > issueNs() + longestNs())
      return "dram";
    return issueNs() >= longestNs() ? "simd" : "latency";
  }
};

} // namespace kiln
