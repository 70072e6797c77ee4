//===- gemm/FfmaTiles.cuh - operand tiles of the multistage FFMA GEMM -----===//
//
// cp.async loads tiles without registers. Operands along m or n keep the order
// of their matrix, as rows for each k. K-major operands keep it too, as rows
// along k, or are transposed element by element while they are loaded. Threads
// read vectors of four floats either way: four rows at one step of k, or four
// steps of k of one row. A thread's rows are in groups of four, and the groups
// of neighbouring lanes are neighbours.
//
// Banks. Rows along k are up to 128 bytes long. Each of four lines of 128 bytes
// has the rows with one number within their group, and the vectors of eight
// groups at one step of k lie in eight different places: reads of a quarter
// warp take one pass. Transposed rows are four floats longer than the tile, so
// that copies of eight steps of k by four rows touch each bank once.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Ptx.cuh"

namespace kiln {

/// The shape of one operand's tile of fp32 elements in shared memory.
struct FfmaTile {
  bool alongK; ///< rows along k; else a row for each k
  int extent;  ///< blockM or blockN
  int blockK;
  int padding; ///< floats behind each row

  constexpr int rows() const { return alongK ? extent : blockK; }
  constexpr int rowBytes() const {
    return ((alongK ? blockK : extent) + padding) * 4;
  }
  constexpr int bytes() const { return rows() * rowBytes(); }

  /// Offset of 16-byte vector \p unit of row \p row. For rows along k, bits of
  /// row and unit are moved and joined by exclusive or. So numbers without
  /// common bits may be combined: the offset of their "or" is the "xor" of
  /// their offsets.
  constexpr unsigned offsetOf(unsigned row, unsigned unit) const {
    if (!alongK)
      return row * rowBytes() + unit * 16;
    unsigned units = blockK / 4, rowsPerLine = 8 / units;
    unsigned group = row / 4;
    unsigned line = group / rowsPerLine * 4 + row % 4;
    unsigned slot =
        group % rowsPerLine * units + (unit ^ (group / rowsPerLine % units));
    return line * 128 + slot * 16;
  }
};

/// Copies the tiles of one operand, one after the other along k, with kThreads
/// threads, by accesses of the operand's alignment. For each tile call begin,
/// then copy for every part of kParts, so that copies are interleaved with
/// other work.
template <FfmaTile kTile, int kAlign, int kThreads, bool kTransposes>
class FfmaLoader {
public:
  /// \p base is the first element of the first tile, \p ld in elements.
  FfmaLoader(const char *base, long long ld, int extentLeft)
      : extentLeft(extentLeft) {
    row = threadIdx.x / kUnitsPerRow;
    column = threadIdx.x % kUnitsPerRow * kUnitElements;
    source = base + row * ld * 4 + column * 4;
    rowStepBytes = kRowStep * ld * 4;
    tileStepBytes = kTile.alongK ? kTile.rowBytes() : kTile.blockK * ld * 4;
    offset = kTile.offsetOf(row, column / 4) + column % 4 * 4;
  }

  /// Advances to the next tile, to be written to \p shared. Elements beyond the
  /// operand's extent or behind \p kLeft steps of k become zero. If \p exists
  /// is false there is no tile, and no copy is made.
  void begin(unsigned shared, int kLeft, bool exists) {
    stage = shared;
    rowsLeft = (kTile.alongK ? extentLeft : kLeft) - row;
    int left = (kTile.alongK ? kLeft : extentLeft) - column;
    // Beyond this point `copies` is false for threads whose unit is cut off by
    // the end of the rows: they copy all rows here, at once.
    bool cut = left > 0 && left < kUnitElements;
    copies = exists && !cut && (kRowStep <= kTile.rows() || row < kTile.rows());
    if (exists && cut)
      copyCut(left);
    if (left <= 0)
      rowsLeft = 0;
    cursor = source;
    source += tileStepBytes;
    if constexpr (!kSpreads)
      copyParts<1>(0);
  }

  /// Issues part \p part of the tile's copies.
  template <int kParts> void copy(int part) {
    if constexpr (kSpreads)
      copyParts<kParts>(part);
  }

private:
  static constexpr int kUnitElements = kAlign / 4;
  static constexpr int kUnitsPerRow = kTile.rowBytes() / kAlign;
  static constexpr int kRowStep = kThreads / kUnitsPerRow;
  static constexpr int kCopies = (kTile.rows() + kRowStep - 1) / kRowStep;
  static_assert(kThreads % kUnitsPerRow == 0,
                "the block's threads do not cover whole rows of the tile");
  /// Copies of 16 bytes are so few that issuing them at once is cheapest.
  static constexpr bool kSpreads = kAlign < 16;

  template <int kParts> void copyParts(int part) {
    constexpr int kPerPart = (kCopies + kParts - 1) / kParts;
#pragma unroll
    for (int c = 0; c < kPerPart; ++c) {
      int i = part * kPerPart + c;
      ptx::cpAsyncOrZero<kAlign>(
          stage + offsetOf(i), cursor, rowsLeft > 0,
          copies && (kPerPart * kParts == kCopies || i < kCopies));
      cursor += rowStepBytes;
      rowsLeft -= kRowStep;
    }
  }

  /// Offset of copy \p i: both numbers are powers of two, so the thread's own
  /// row has no bits of i * kRowStep.
  unsigned offsetOf(int i) const {
    return offset ^ kTile.offsetOf(i * kRowStep, 0);
  }

  /// Copies the first \p elements of the thread's unit of every row.
  void copyCut(int elements) const {
    const char *from = source;
#pragma unroll 1
    for (int i = 0; i < kCopies; ++i, from += rowStepBytes)
      if (i * kRowStep + row < kTile.rows())
        ptx::cpAsync<kAlign>(stage + offsetOf(i), from,
                             i * kRowStep < rowsLeft ? elements * 4 : 0);
  }

  const char *source, *cursor;
  long long rowStepBytes, tileStepBytes;
  int row, column, extentLeft;
  unsigned offset, stage;
  int rowsLeft;
  bool copies;
};

/// As above for a K-major operand that becomes a row for each k. Eight
/// neighbouring threads copy eight elements of a row, 32 bytes.
template <FfmaTile kTile, int kAlign, int kThreads>
class FfmaLoader<kTile, kAlign, kThreads, true> {
public:
  FfmaLoader(const char *base, long long ld, int extentLeft) {
    row = threadIdx.x / kRun;
    column = threadIdx.x % kRun;
    rowsThere = extentLeft - row;
    source = base + row * ld * 4 + column * 4;
    rowStepBytes = kRowStep * ld * 4;
    offset = column * kTile.rowBytes() + row * 4;
  }

  void begin(unsigned shared, int kLeft, bool exists) {
    // Beyond this point `copies` is false where k ends within the tile: such a
    // tile is copied here.
    writing = shared + offset;
    rowsLeft = rowsThere;
    cursor = source;
    copies = exists && kLeft >= kTile.blockK &&
             (kRowStep <= kTile.extent || row < kTile.extent);
    if (exists && kLeft < kTile.blockK)
      copyShort(kLeft - column);
    source += kTile.blockK * 4;
  }

  template <int kParts> void copy(int part) {
    constexpr int kPerPart = (kCopies + kParts - 1) / kParts;
#pragma unroll
    for (int c = 0; c < kPerPart; ++c) {
      bool isOne =
          kPerPart * kParts == kCopies || part * kPerPart + c < kCopies;
#pragma unroll
      for (int k = 0; k < kTile.blockK; k += kRun)
        ptx::cpAsyncOrZero<4>(writing + k * kTile.rowBytes(), cursor + k * 4,
                              rowsLeft > 0, copies && isOne);
      next();
    }
  }

private:
  static constexpr int kRun = 8;
  static constexpr int kRowStep = kThreads / kRun;
  static constexpr int kCopies = (kTile.extent + kRowStep - 1) / kRowStep;

  void next() {
    cursor += rowStepBytes;
    writing += kRowStep * 4;
    rowsLeft -= kRowStep;
  }

  /// Copies the tile's first \p left steps of k, starting at the thread's own.
  void copyShort(int left) {
#pragma unroll 1
    for (int i = 0; i < kCopies; ++i, next())
#pragma unroll 1
      for (int k = 0; k < kTile.blockK; k += kRun)
        ptx::cpAsyncOrZero<4>(writing + k * kTile.rowBytes(), cursor + k * 4,
                              rowsLeft > 0 && k < left,
                              row + i * kRowStep < kTile.extent);
  }

  const char *source, *cursor;
  long long rowStepBytes;
  int row, column, rowsThere, rowsLeft;
  unsigned offset, writing;
  bool copies;
};

/// Reads a thread's vectors of four floats from a tile. A step is four elements
/// along k and has kMicro vectors: one of each row along k, or one of each
/// group of four rows at each k.
template <FfmaTile kTile, int kMicro, int kLanes> class FfmaReader {
public:
  /// The reader of \p lane of kLanes; the warp's rows begin at \p warpBegin.
  FfmaReader(int warpBegin, int lane) {
    int first = warpBegin + lane * 4;
    offset =
        kTile.alongK ? kTile.offsetOf(first, 0) : kTile.offsetOf(0, first / 4);
  }

  /// Advances to step \p step of the tile in \p stage.
  struct Step {
    unsigned stage, offset;
  };
  Step step(unsigned stage, int step) const {
    if constexpr (kTile.alongK)
      return {stage, offset ^ (step * 16)};
    else
      return {stage, offset + step * 4 * kTile.rowBytes()};
  }

  /// Vector \p i of a step.
  static void read(float (&vector)[4], const Step &step, int i) {
    constexpr unsigned kLine = 128;
    unsigned at = step.offset;
    if constexpr (kTile.alongK) {
      // The row's offset within a line and the line itself, whose bits the
      // thread's own offset does not have.
      unsigned own = kTile.offsetOf(i / 4 * kLanes * 4 + i % 4, 0);
      at = (at ^ own % kLine) + own / kLine * kLine;
    } else
      at +=
          i / (kMicro / 4) * kTile.rowBytes() + i % (kMicro / 4) * kLanes * 16;
    uint4 words = ptx::ldShared128(step.stage + at);
    vector[0] = __uint_as_float(words.x);
    vector[1] = __uint_as_float(words.y);
    vector[2] = __uint_as_float(words.z);
    vector[3] = __uint_as_float(words.w);
  }

private:
  unsigned offset;
};

} // namespace kiln
