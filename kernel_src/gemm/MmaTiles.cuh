//===- gemm/MmaTiles.cuh - operand tiles of the mma.sync GEMM
//--------------===//
//
// A tile keeps the order of its matrix: K-major operands (A stored [m, k], B
// stored [n, k]) as rows along k, the others as rows along m or n. TileLoader
// brings a tile from global to swizzled shared memory, FragmentReader from
// there into the registers of mma.sync, transposing where the rows run the
// other way. Ragged edges become zeros on the way in.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Ptx.cuh"
#include "common/Swizzle.cuh"

namespace kiln {

/// The shape of one operand's tile.
struct TileShape {
  bool kMajor;
  int extent; ///< blockM or blockN
  int blockK;
  int elementBytes;

  constexpr int rows() const { return kMajor ? extent : blockK; }
  constexpr int rowBytes() const {
    return (kMajor ? blockK : extent) * elementBytes;
  }
  constexpr int bytes() const { return rows() * rowBytes(); }
  /// Only 16-bit elements can be transposed by ldmatrix.
  constexpr SwizzleFor use() const {
    return !kMajor && elementBytes == 4 ? SwizzleFor::Words
                                        : SwizzleFor::Ldmatrix;
  }
};

/// Loads the tiles of one operand, one after the other along k, with
/// kThreads threads. Rows whose alignment is below 4 bytes are read element by
/// element into registers (fetch) and stored later (stash); all others go by
/// cp.async (fetch alone).
template <TileShape kShape, int kAlign, int kThreads> class TileLoader {
public:
  static constexpr bool kStaged = kAlign < 4;

  /// \p base is the first element of the first tile, \p ld in elements.
  TileLoader(const char *base, long long ld) {
    row = threadIdx.x / kUnitsPerRow;
    column = threadIdx.x % kUnitsPerRow * (kUnit / kShape.elementBytes);
    long long ldBytes = ld * kShape.elementBytes;
    source = base + row * ldBytes + column * kShape.elementBytes;
    rowStepBytes = kRowStep * ldBytes;
    tileStepBytes = kShape.kMajor ? kShape.rowBytes() : kShape.blockK * ldBytes;
    offset = offsetOf(0);
  }

  /// Starts loading the next tile to \p shared: \p extentLeft rows or columns
  /// of the operand and \p kLeft steps of k exist from its first element on.
  void fetch(unsigned shared, int extentLeft, int kLeft) {
    int rowsLeft = (kShape.kMajor ? extentLeft : kLeft) - row;
    int columnsLeft = (kShape.kMajor ? kLeft : extentLeft) - column;
    int unitBytes =
        min(max(columnsLeft * kShape.elementBytes, 0), static_cast<int>(kUnit));
    const char *from = source;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      int bytes = i * kRowStep < rowsLeft ? unitBytes : 0;
      if constexpr (kStaged)
        staged[i] = loadPair(from, bytes);
      else if (ownsCopy(i))
        ptx::cpAsync<kUnit>(shared + sharedOffset(i), from, bytes);
      from += rowStepBytes;
    }
    source += tileStepBytes;
  }

  /// Stores what the last fetch brought into registers.
  void stash(unsigned shared) {
    if constexpr (kStaged) {
#pragma unroll
      for (int i = 0; i < kCopies; ++i)
        if (ownsCopy(i))
          ptx::stShared32(shared + sharedOffset(i), staged[i]);
    }
  }

private:
  static constexpr int kUnit = kStaged ? 4 : kAlign; // bytes a thread copies
  static constexpr int kUnitsPerRow = kShape.rowBytes() / kUnit;
  static constexpr int kRowStep = kThreads / kUnitsPerRow;
  static constexpr int kCopies = (kShape.rows() + kRowStep - 1) / kRowStep;
  static_assert(kThreads % kUnitsPerRow == 0,
                "the block's threads do not cover whole rows of the tile");

  bool ownsCopy(int i) const {
    if constexpr (kShape.rows() % kRowStep == 0)
      return true;
    else
      return row + i * kRowStep < kShape.rows();
  }

  unsigned offsetOf(int i) const {
    return swizzledOffset<kShape.rowBytes(), kShape.use()>(
        row + i * kRowStep, column * kShape.elementBytes);
  }

  /// The phase of the swizzle repeats every 8 rows, so mostly a constant step
  /// separates a thread's copies.
  unsigned sharedOffset(int i) const {
    if constexpr (kRowStep % 8 == 0)
      return offset + i * kRowStep * kShape.rowBytes();
    else
      return offsetOf(i);
  }

  static unsigned loadPair(const char *from, int bytes) {
    static_assert(!kStaged || kShape.elementBytes == 2,
                  "only 16-bit elements are aligned below 4 bytes");
    const auto *elements = reinterpret_cast<const unsigned short *>(from);
    unsigned low = bytes >= 2 ? elements[0] : 0u;
    unsigned high = bytes >= 4 ? elements[1] : 0u;
    return low | high << 16;
  }

  const char *source;
  long long rowStepBytes, tileStepBytes;
  int row, column; // of this thread's first copy, in elements
  unsigned offset;
  unsigned staged[kStaged ? kCopies : 1];
};

/// Which operand of the instruction a fragment is.
enum class FragmentOf { A, B };

/// Reads 16 rows (A) or columns (B) by one step of 32 bytes along k. Register
/// order, with i the m or n index and h the half of the step:
/// A (i 0-7, h 0), (i 8-15, h 0), (i 0-7, h 1), (i 8-15, h 1);
/// B (i 0-7, h 0), (i 0-7, h 1), (i 8-15, h 0), (i 8-15, h 1).
template <TileShape kShape, FragmentOf kOperand> class FragmentReader {
public:
  /// The warp's part of the tile begins at row or column \p first, a multiple
  /// of 16.
  FragmentReader(int first) {
    int lane = threadIdx.x % 32;
    if constexpr (kShape.use() == SwizzleFor::Words) {
      row = lane % 4;
      chunk = (first + lane / 4) / 4;
      byteInChunk = lane / 4 % 4 * 4;
    } else {
      // Two bits of the lane choose the 8x8 matrix. For A stored along k and B
      // stored along n the lower one steps through the tile's rows.
      bool lowBitIsRow = (kOperand == FragmentOf::A) == kShape.kMajor;
      int low = lane / 8 % 2, high = lane / 16;
      row = lane % 8 + (lowBitIsRow ? low : high) * 8;
      chunk = lowBitIsRow ? high : low;
      if constexpr (kShape.kMajor)
        row += first;
      else
        chunk += first / 8;
    }
    phase = swizzlePhase<kShape.rowBytes(), kShape.use()>(row);
  }

  /// Fragment \p tile (16 rows or columns each) of step \p step of the tile at
  /// \p shared.
  void read(unsigned (&registers)[4], unsigned shared, int tile,
            int step) const {
    constexpr int kRowBytes = kShape.rowBytes();
    if constexpr (kShape.use() == SwizzleFor::Words)
      readWords(registers, shared, tile, step);
    else if constexpr (kShape.kMajor)
      ptx::ldmatrixX4(registers, shared + tile * 16 * kRowBytes +
                                     ((row * kRowBytes + (chunk ^ phase) * 16) ^
                                      static_cast<unsigned>(step * 32)));
    else
      ptx::ldmatrixX4Trans(registers, shared + step * 16 * kRowBytes +
                                          row * kRowBytes +
                                          ((chunk + tile * 2) ^ phase) * 16);
  }

private:
  void readWords(unsigned (&registers)[4], unsigned shared, int tile,
                 int step) const {
    constexpr int kRowBytes = kShape.rowBytes();
    // (8 k, 16 m or n): four k of one half, then four of the other.
    unsigned base = shared + (step * 8 + row) * kRowBytes + byteInChunk;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      unsigned at = base + ((chunk + tile * 4 + i * 2) ^ phase) * 16;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        int index = kOperand == FragmentOf::A ? half * 2 + i : i * 2 + half;
        registers[index] = ptx::ldShared32(at + half * 4 * kRowBytes);
      }
    }
  }

  unsigned row, chunk, phase;
  unsigned byteInChunk = 0;
};

} // namespace kiln
