//===- elementwise/FlatElementwiseConfig.h - knobs of the flat kernel -----===//
//
// Included by the host and by NVRTC.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "elementwise/ElementwiseParams.h"
#include "elementwise/ElementwiseSignature.h"

namespace kiln {

/// Row and column, in vectors, of a run's first item.
struct FlatPlace {
  unsigned row = 0, column = 0;
};

/// Place in rows of whole vectors: groups of adjacent rows make up the matrix.
constexpr FlatPlace placeOf(const FlatElementwiseParams &params,
                            long long run) {
  auto index = static_cast<unsigned long long>(run);
  auto group = static_cast<unsigned>(index / params.vectorsPerRow);
  return {group * params.groupRows,
          static_cast<unsigned>(index) - group * params.vectorsPerRow};
}

/// Place where rows begin anywhere. A run's items are rowStep rows apart, so
/// rowStep groups and their items make a block of rows.
constexpr FlatPlace shiftedPlaceOf(const FlatElementwiseParams &params,
                                   long long run, int items) {
  auto index = static_cast<unsigned long long>(run);
  auto group = static_cast<unsigned>(index / params.vectorsPerRow);
  unsigned blockRow = group / params.rowStep * params.rowStep;
  return {group + blockRow * (items - 1),
          static_cast<unsigned>(index) - group * params.vectorsPerRow};
}

/// The first item of a thread in a packed line: its vector in the line, and the
/// place of its first element.
struct LinePlace {
  long long vector = 0;
  unsigned row = 0, column = 0;
};

/// Place in a packed line. As many rows as a vector has elements form a group;
/// the next group begins with a vector again, and its vectors have the same
/// columns. A thread's \p items items are in neighbouring groups.
constexpr LinePlace linePlaceOf(const FlatElementwiseParams &params,
                                long long run, int vector, int items) {
  const auto columns = static_cast<unsigned long long>(params.operands.cols);
  const auto elements = static_cast<unsigned>(vector);
  auto element = static_cast<unsigned long long>(run) * elements;
  const auto row = static_cast<unsigned>(element / columns);
  const unsigned groupRow = row / elements * elements;
  const auto ahead = static_cast<unsigned>(items - 1);
  return {run + static_cast<long long>(row / elements) * ahead *
                    params.operands.cols,
          row + groupRow * ahead,
          static_cast<unsigned>(element - row * columns)};
}

/// Packed matrices are one line of vectors, cut into chunks of threads * items.
/// Where positions count, work is runs of items below each other, with
/// neighbouring threads on neighbouring vectors of a row. A thread has all
/// loads of its items in flight at once. Any architecture, type, length and
/// stride, at any alignment.
struct FlatElementwiseConfig {
  int blockThreads = 256;
  int vector = 8; ///< consecutive elements of a row
  int items = 4;  ///< vectors of a thread and chunk
  int hint = 0;   ///< 0: none; 1: streaming loads and stores; 2: stores only
  /// Blocks that have to fit an SM at once, for which the compiler gives each
  /// fewer registers; 0: as many as fit with all the registers wanted.
  int residentBlocks = 0;
  /// Alignment of rows. 0: rows begin at multiples of a vector that divides
  /// them, or positions do not count in packed matrices. 1: rows begin anywhere
  /// in a packed line, which begins at such a multiple, and have at least the
  /// vector's elements. 2: rows begin anywhere; vectors are aligned in y, and
  /// loads are shifted.
  int start = 0;
  /// 0: one block for each chunk. Above: blocks for each SM, which stride over
  /// the chunks.
  int blocksPerSm = 0;

  static constexpr const char *kName = "flat";
  static constexpr int kAligned = 0, kLine = 1, kAny = 2; ///< starts

  /// Calls f(key, member, pointer to the member, default) for each field.
  template <class F> static constexpr void forEachField(F &&f) {
    f("t", "blockThreads", &FlatElementwiseConfig::blockThreads, 256);
    f("v", "vector", &FlatElementwiseConfig::vector, 8);
    f("i", "items", &FlatElementwiseConfig::items, 4);
    f("h", "hint", &FlatElementwiseConfig::hint, 0);
    f("b", "residentBlocks", &FlatElementwiseConfig::residentBlocks, 0);
    f("s", "start", &FlatElementwiseConfig::start, 0);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&f) {
    f("ps", "blocksPerSm", &FlatElementwiseConfig::blocksPerSm, 0);
  }

  constexpr int threads() const { return blockThreads; }
  constexpr long long vectorsPerChunk() const {
    return static_cast<long long>(blockThreads) * items;
  }

  constexpr bool isValid(const ElementwiseSignature &signature) const {
    return signature.isWellFormed() && blockThreads >= 32 &&
           blockThreads <= 1024 && blockThreads % 32 == 0 &&
           isPowerOfTwo(vector) && vector <= kMaxVector &&
           isPowerOfTwo(items) && items <= kMaxItems &&
           vector * bytesOf(signature.in) <= kMaxVectorBytes &&
           vector * bytesOf(signature.out) <= kMaxVectorBytes && hint >= 0 &&
           hint <= 2 && startIsValid(signature) && residentBlocks >= 0 &&
           blockThreads * residentBlocks <= kMostThreadsPerSm &&
           blocksPerSm >= 0;
  }

  /// Alignment in bytes of vectors of \p type.
  constexpr int accessBytes(DType type) const {
    int bytes = vector * bytesOf(type);
    return bytes < kAccessBytes ? bytes : kAccessBytes;
  }
  /// Rows after which every misalignment repeats.
  static constexpr int period(const ElementwiseSignature &signature) {
    int in = bytesOf(signature.in), out = bytesOf(signature.out);
    return kAccessBytes / (in < out ? in : out);
  }

  /// Matrices that are read.
  static constexpr int matrices(const ElementwiseSignature &signature) {
    return 1 + signature.count(LinkShape::Matrix);
  }
  /// Registers that hold the bits of a vector.
  constexpr int vectorWords(const ElementwiseSignature &signature) const {
    return (vector * bytesOf(signature.in) + 3) / 4;
  }
  /// Registers that a thread wants: the bits and places of its items, one
  /// vector and its operands in fp32, and the rest of a kernel. The constants
  /// are about the least with which ptxas 13.0 does not spill, tried on random
  /// configs for sm_75 to sm_120.
  constexpr int wantedRegisters(const ElementwiseSignature &signature) const {
    int words = vectorWords(signature);
    if (words < 2) // narrow items cost as much for their places
      words = 2;
    // Two vectors cover one.
    int perMatrix = start == kAny ? 2 * words : words;
    int item = matrices(signature) * perMatrix;
    if (start == kLine) // one place serves all; a column also has the next
                        // row's value
      item += 2 * signature.count(LinkShape::Column);
    else
      item += signature.count(LinkShape::Column) +
              (signature.needsPosition() ? 6 : 5);
    bool combines = matrices(signature) > 1 || rowRegisters(signature) > 0;
    int values = combines || vector > 8 ? 2 * vector : vector;
    int other = 16 + rowRegisters(signature);
    if (matrices(signature) + signature.count(LinkShape::Row) > 2)
      other += 8;
    if (items > 4 || vector * bytesOf(signature.in) > 16)
      other += 8;
    if (start == kAny)
      other += 24;
    if (start == kLine &&
        signature.count(LinkShape::Row) + signature.count(LinkShape::Column) >
            1)
      other += 16;
    return roundUp(items * item + values + other);
  }
  /// Registers that a thread gets.
  constexpr int registers(const ElementwiseSignature &signature) const {
    return residentBlocks == 0
               ? wantedRegisters(signature)
               : kRegistersPerSm / (blockThreads * residentBlocks) / 8 * 8;
  }
  /// Blocks that have to fit an SM, which sets the registers that the compiler
  /// may use.
  constexpr int minBlocks(const ElementwiseSignature &signature) const {
    if (residentBlocks > 0)
      return residentBlocks;
    int byRegisters =
        kRegistersPerSm / (blockThreads * wantedRegisters(signature));
    int byThreads = kMostThreadsPerSm / blockThreads;
    int blocks = byRegisters < byThreads ? byRegisters : byThreads;
    return blocks > 1 ? blocks : 1;
  }

  /// Whether work is divided into runs of rows, instead of a line.
  constexpr bool hasRuns(const ElementwiseSignature &signature) const {
    return signature.needsPosition() && start != kLine;
  }

  /// Pieces of a problem.
  constexpr long long vectors(long long rows, long long cols) const {
    return rowVectors(rows * cols);
  }
  /// Vectors that rows of \p cols elements touch, at any alignment.
  constexpr long long rowVectors(long long cols) const {
    return start == kAny ? (cols + 2 * (vector - 1)) / vector : cols / vector;
  }
  constexpr long long runs(const ElementwiseSignature &signature,
                           long long rows, long long cols) const {
    return (start == kAny ? groupsOf(signature, rows, cols, rows)
                          : divideUp(rows, items)) *
           rowVectors(cols);
  }
  /// Distance of a thread's items in rows, where rows begin anywhere.
  constexpr long long shiftedStep(const ElementwiseSignature &signature,
                                  long long rows, long long cols) const {
    long long step = period(signature);
    if (rowVectors(cols) >= kWarp)
      return step;
    return divideUp(divideUp(rows, items), step) * step;
  }
  /// Runs of a line whose elements have positions; see linePlaceOf().
  constexpr long long lineRuns(long long rows, long long cols) const {
    long long all = vectors(rows, cols);
    long long step = cols > 0 ? cols : 1;
    long long runs = divideUp(all, step * items) * step;
    return runs < all ? runs : all;
  }
  constexpr long long chunks(const ElementwiseSignature &signature,
                             long long rows, long long cols) const {
    if (start == kLine)
      return divideUp(lineRuns(rows, cols), blockThreads);
    return hasRuns(signature)
               ? divideUp(runs(signature, rows, cols), blockThreads)
               : divideUp(vectors(rows, cols), vectorsPerChunk());
  }

  /// Blocks of the one-dimensional grid on \p smCount SMs, at least 1.
  constexpr long long blocks(const ElementwiseSignature &signature,
                             long long rows, long long cols,
                             long long smCount) const {
    long long resident = blocksPerSm * smCount;
    long long most = resident > 0 ? resident : kMaxBlocks;
    long long wanted = chunks(signature, rows, cols);
    return wanted < 1 ? 1 : wanted < most ? wanted : most;
  }

  /// Fills in all parameters except the operands, which have to be set before.
  constexpr void fillGeometry(FlatElementwiseParams &params,
                              const ElementwiseSignature &signature) const {
    long long rows = params.operands.rows, cols = params.operands.cols;
    params.chunks = chunks(signature, rows, cols);
    if (start == kLine) {
      params.vectors = vectors(rows, cols);
      params.fullChunks = params.vectors / (cols * items) * cols / blockThreads;
      return;
    }
    if (!hasRuns(signature)) {
      params.vectors = vectors(rows, cols);
      params.fullChunks = rows * cols / vector / vectorsPerChunk();
      return;
    }
    params.runs = runs(signature, rows, cols);
    params.vectorsPerRow = static_cast<unsigned>(rowVectors(cols));
    long long fullGroups;
    if (start == kAny) {
      long long step = shiftedStep(signature, rows, cols);
      params.rowStep = static_cast<unsigned>(step);
      fullGroups = groupsOf(signature, rows, cols, rows - (items - 1) * step);
    } else if (params.vectorsPerRow >= kWarp) {
      // Items of adjacent rows lie in one piece of memory with those of the
      // block's other warps. Where rows are shorter than a warp, the accesses
      // of a warp are only whole if its threads are in adjacent rows.
      params.groupRows = static_cast<unsigned>(items);
      fullGroups = rows / items;
    } else {
      long long groups = divideUp(rows, items);
      params.rowStep = static_cast<unsigned>(groups);
      fullGroups = rows - (items - 1) * groups;
    }
    if (fullGroups > 0)
      params.fullChunks = fullGroups * params.vectorsPerRow / blockThreads;
  }

  friend constexpr bool operator==(const FlatElementwiseConfig &,
                                   const FlatElementwiseConfig &) = default;

  static constexpr long long kMaxBlocks = (1ll << 31) - 1;
  // The maxima that isValid() allows.
  static constexpr int kMaxItems = 8, kMaxVector = 16;
  static constexpr int kMaxVectorBytes = 32; ///< two accesses

  // The largest SM that is supported, sm_75 to sm_120.
  static constexpr int kRegistersPerSm = 65536, kMostThreadsPerSm = 2048;

private:
  static constexpr int kAccessBytes = 16;

  constexpr bool startIsValid(const ElementwiseSignature &signature) const {
    if (start == kAligned)
      return true;
    if (start == kLine)
      return signature.contiguous && signature.needsPosition();
    // Two accesses cover a vector.
    return start == kAny && vector > 1 &&
           vector * bytesOf(signature.in) <= kAccessBytes;
  }

  /// Groups of runs whose first row is below \p limit; see shiftedPlaceOf().
  constexpr long long groupsOf(const ElementwiseSignature &signature,
                               long long rows, long long cols,
                               long long limit) const {
    if (limit <= 0)
      return 0;
    long long step = shiftedStep(signature, rows, cols);
    long long blocks = limit / (step * items), left = limit % (step * items);
    return blocks * step + (left < step ? left : step);
  }

  /// Registers for the rows of values, in fp32 for all items.
  constexpr int rowRegisters(const ElementwiseSignature &signature) const {
    return signature.count(LinkShape::Row) * vector;
  }
  static constexpr unsigned kWarp = 32;
  static constexpr long long divideUp(long long count, long long by) {
    return (count + by - 1) / by;
  }
  /// Registers are allocated in units of eight.
  static constexpr int roundUp(int registers) {
    return (registers + 7) / 8 * 8;
  }
  static constexpr bool isPowerOfTwo(int value) {
    return value > 0 && (value & (value - 1)) == 0;
  }
};

} // namespace kiln
