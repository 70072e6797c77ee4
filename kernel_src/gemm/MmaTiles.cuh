//===- gemm/MmaTiles.cuh - operand tiles of the mma.sync GEMM -------------===//
//
// A tile keeps the order of its matrix: K-major operands (A stored [m, k], B
// stored [n, k]) as rows along k, the others as rows along m or n. TileLoader
// copies a tile from global to swizzled shared memory. FragmentReader loads it
// from there into the registers of mma.sync, transposing where the rows run the
// other way. Ragged edges become zeros while they are loaded.
//
// ldmatrix transposes elements of 16 bits. For 8 bits it loads pairs of
// neighbours along m or n, from two steps of k a register; prmt sorts two
// registers with the four steps that a lane needs into one register for each
// neighbour. So the instruction's rows or columns i and i + 8 are neighbours in
// memory, and the epilogue stores them as such.
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

/// Loads the tiles of one operand, one after the other along k, with kThreads
/// threads. For each tile call begin, then copy for every part, then stash, all
/// for the same stage.
///
/// cp.async needs rows aligned to 4 bytes at least. Elements with less
/// alignment are read instead by the two aligned 16-byte vectors that enclose
/// 16 bytes of them, held in registers while the tile before is multiplied, and
/// shifted into place by stash. Such a read never leaves the 16 bytes around an
/// element of the operand; where it could, at a row's end, elements are copied
/// one by one.
template <TileShape kShape, int kAlign, int kThreads> class TileLoader {
public:
  static constexpr bool kStaged = kAlign < 4;

  /// \p base is the first element of the first tile, \p ld in elements.
  TileLoader(const char *base, long long ld) {
    row = threadIdx.x / kUnitsPerRow;
    column = threadIdx.x % kUnitsPerRow * kUnitElements;
    long long ldBytes = ld * kShape.elementBytes;
    source = base + row * ldBytes + column * kShape.elementBytes;
    rowStepBytes = kRowStep * ldBytes;
    tileStepBytes = kShape.kMajor ? kShape.rowBytes() : kShape.blockK * ldBytes;
#pragma unroll
    for (int i = 0; i < kPhases; ++i)
      offsets[i] = offsetOf(i);
  }

  /// Advances to the next tile, to be written to \p shared. \p extentLeft rows
  /// or columns of the operand and \p kLeft steps of k exist from its first
  /// element on; the rest becomes zero. If \p exists is false there is no tile,
  /// and no copy is made.
  void begin(unsigned shared, int extentLeft, int kLeft, bool exists) {
    stage = shared;
    rowsLeft = (kShape.kMajor ? extentLeft : kLeft) - row;
    int left = (kShape.kMajor ? kLeft : extentLeft) - column;
    hasColumns = left > 0;
    // Beyond this point `copies` is false for threads whose part of a row is
    // cut off by the row's end: they copy all rows here, at once.
    bool cut = hasColumns && left < (kStaged ? 2 : 1) * kUnitElements;
    copies = exists && !cut;
    if (exists && cut)
      copyCut(min(left, kUnitElements));
    cursor = source;
    source += tileStepBytes;
  }

  /// Issues part \p part of \p parts of the tile's copies.
  void copy(int part, int parts) {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      if (i * parts / kCopies != part)
        continue;
      bool inside = hasColumns && i * kRowStep < rowsLeft;
      if constexpr (kStaged)
        load(staged[i], inside && copies);
      else
        ptx::cpAsyncOrZero<kUnit>(stage + sharedOffset(i), cursor, inside,
                                  copies && ownsCopy(i));
      cursor += rowStepBytes;
      if constexpr (kCopies > kFewCopies)
        ptx::opaque(cursor); // otherwise the compiler keeps one for each copy
    }
  }

  /// Stores the data that copy has loaded into registers.
  void stash() {
    if constexpr (kStaged) {
      if (!copies)
        return;
      // The tile's own addresses determine the shift of each vector.
      unsigned from =
          addressBits(source) - static_cast<unsigned>(tileStepBytes);
#pragma unroll
      for (int i = 0; i < kCopies; ++i) {
        unsigned shift = from + i * static_cast<unsigned>(rowStepBytes);
        if (ownsCopy(i))
          storeShifted(stage + sharedOffset(i), staged[i], shift % 16);
      }
    }
  }

private:
  // Bytes a thread copies at a time, and rows between its copies.
  static constexpr int kUnit = kStaged ? 16 : kAlign;
  static constexpr int kUnitElements = kUnit / kShape.elementBytes;
  static constexpr int kUnitsPerRow = kShape.rowBytes() / kUnit;
  static constexpr int kRowStep = kThreads / kUnitsPerRow;
  static constexpr int kCopies = (kShape.rows() + kRowStep - 1) / kRowStep;
  /// Up to this many copies have room for addresses of their own.
  static constexpr int kFewCopies = 8;
  static constexpr int kPeriod = swizzlePeriod(kShape.use());
  /// Phases of the swizzle that occur among the rows of one thread's copies.
  static constexpr int kPhases = kRowStep % kPeriod == 0   ? 1
                                 : kPeriod % kRowStep == 0 ? kPeriod / kRowStep
                                                           : kPeriod;
  static_assert(kThreads % kUnitsPerRow == 0,
                "the block's threads do not cover whole rows of the tile");
  static_assert(!kStaged || kShape.elementBytes <= 2,
                "elements of 4 bytes are aligned to them");

  /// Two aligned vectors of 16 bytes.
  struct Enclosing {
    unsigned word[8];
  };

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

  /// One offset is kept for each phase. Copies of one phase are a constant
  /// apart, which the compiler does not see: it would keep an offset for each
  /// copy (48 registers for a tf32 tile of 128x256 along m and n). \p i is a
  /// constant, because an array indexed at run time lies in memory.
  unsigned sharedOffset(int i) const {
    return offsets[i % kPhases] +
           (i - i % kPhases) * kRowStep * kShape.rowBytes();
  }

  static unsigned addressBits(const char *pointer) {
    return static_cast<unsigned>(reinterpret_cast<unsigned long long>(pointer));
  }

  /// Copies the first \p elements of the thread's unit of every row.
  void copyCut(int elements) {
    const char *from = source;
#pragma unroll 1
    for (int i = 0; i < kCopies; ++i, from += rowStepBytes) {
      bool inside = i * kRowStep < rowsLeft;
      unsigned to = stage + offsetOf(i); // `offsets` are registers
      if (!ownsCopy(i))
        continue;
      if constexpr (kStaged)
        copyElements(to, from, inside ? elements : 0);
      else
        ptx::cpAsync<kUnit>(to, from,
                            inside ? elements * kShape.elementBytes : 0);
    }
  }

  static void copyElements(unsigned to, const char *from, int elements) {
    if constexpr (kShape.elementBytes == 1) {
      const auto *values = reinterpret_cast<const unsigned char *>(from);
#pragma unroll
      for (int i = 0; i < kUnitElements; i += 4) {
        unsigned word = 0;
#pragma unroll
        for (int e = 0; e < 4; ++e)
          word |= i + e < elements ? values[i + e] << 8 * e : 0u;
        ptx::stShared32(to + i, word);
      }
    } else {
      const auto *values = reinterpret_cast<const unsigned short *>(from);
#pragma unroll
      for (int i = 0; i < kUnitElements; i += 2) {
        unsigned low = i < elements ? values[i] : 0u;
        unsigned high = i + 1 < elements ? values[i + 1] : 0u;
        ptx::stShared32(to + i * 2, low | high << 16);
      }
    }
  }

  void load(Enclosing &vectors, bool inside) const {
    const auto *aligned = reinterpret_cast<const uint4 *>(
        reinterpret_cast<unsigned long long>(cursor) & ~15ull);
    uint4 low = {}, high = {};
    if (inside) {
      low = aligned[0];
      high = aligned[1];
    }
    vectors = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
  }

  /// Stores the 16 bytes that begin at byte \p shift.
  static void storeShifted(unsigned to, const Enclosing &vectors,
                           unsigned shift) {
    unsigned byWords[6], byWord[5];
#pragma unroll
    for (int i = 0; i < 6; ++i)
      byWords[i] = shift & 8 ? vectors.word[i + 2] : vectors.word[i];
#pragma unroll
    for (int i = 0; i < 5; ++i)
      byWord[i] = shift & 4 ? byWords[i + 1] : byWords[i];
    unsigned out[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      out[i] = __funnelshift_r(byWord[i], byWord[i + 1], shift % 4 * 8);
    ptx::stShared128(to, out);
  }

  const char *source; // this thread's first unit of the next tile
  const char *cursor; // its next copy
  long long rowStepBytes, tileStepBytes;
  int row, column;           // its first unit, in elements
  unsigned offsets[kPhases]; // its first units in a stage
  unsigned stage;
  int rowsLeft;
  bool hasColumns, copies;
  Enclosing staged[kStaged ? kCopies : 1];
};

/// The operand of the instruction that a fragment belongs to.
enum class FragmentOf { A, B };

/// Reads 16 rows (A) or columns (B) by one step of 32 bytes along k. Register
/// order, with i the m or n index and h the half of the step:
/// A (i 0-7, h 0), (i 8-15, h 0), (i 0-7, h 1), (i 8-15, h 1);
/// B (i 0-7, h 0), (i 0-7, h 1), (i 8-15, h 0), (i 8-15, h 1).
/// Where joinsNeighbours() holds, i and i + 8 stand for the neighbours 2 * i
/// and 2 * i + 1 in memory.
template <TileShape kShape, FragmentOf kOperand> class FragmentReader {
public:
  static constexpr bool joinsNeighbours() {
    return kShape.elementBytes == 1 && !kShape.kMajor;
  }

  /// The warp's part of the tile begins at row or column \p first, a multiple
  /// of 16.
  FragmentReader(int first) {
    int lane = threadIdx.x % 32;
    if constexpr (kShape.use() == SwizzleFor::Words) {
      row = lane % 4;
      chunk = (first + lane / 4) / 4;
      byteInChunk = lane / 4 % 4 * 4;
    } else if constexpr (joinsNeighbours()) {
      // For each 16 of k the first matrix has the lower two of the first two
      // fours and the upper two of the others, and the second matrix has the
      // rest: eight rows of either matrix have eight phases.
      int four = lane % 8 / 2, second = lane / 8 % 2;
      row = lane / 16 * 16 + four * 4 + lane % 2 + ((four / 2) ^ second) * 2;
      chunk = first / 16;
      // The lane receives the rows of its own four in this order.
      byteInChunk = lane % 4 < 2 ? 0x6420 : 0x2064;
    } else {
      // Two bits of the lane select the 8x8 matrix. For A stored along k and B
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
    else if constexpr (joinsNeighbours())
      readJoined(registers, shared, tile, step);
    else
      ptx::ldmatrixX4Trans(registers, shared + step * 16 * kRowBytes +
                                          row * kRowBytes +
                                          ((chunk + tile * 2) ^ phase) * 16);
  }

  /// The first two registers of B's fragment \p tile, with its columns 0 to 7,
  /// for tiles along k of 16-bit elements.
  void readHalf(unsigned (&registers)[4], unsigned shared, int tile,
                int step) const {
    static_assert(kOperand == FragmentOf::B && kShape.kMajor &&
                      kShape.use() == SwizzleFor::Ldmatrix,
                  "only columns of B along k have halves");
    constexpr int kRowBytes = kShape.rowBytes();
    ptx::ldmatrixX2(registers[0], registers[1],
                    shared + tile * 16 * kRowBytes +
                        ((row * kRowBytes + (chunk ^ phase) * 16) ^
                         static_cast<unsigned>(step * 32)));
  }

private:
  void readJoined(unsigned (&registers)[4], unsigned shared, int tile,
                  int step) const {
    constexpr int kRowBytes = kShape.rowBytes();
    unsigned pairs[4];
    ptx::ldmatrixX4Trans(pairs, shared + (step * 32 + row) * kRowBytes +
                                    ((chunk + tile) ^ phase) * 16);
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        int index = kOperand == FragmentOf::A ? half * 2 + i : i * 2 + half;
        registers[index] = ptx::prmt(pairs[half * 2], pairs[half * 2 + 1],
                                     byteInChunk + i * 0x1111);
      }
  }

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
  /// For accesses by words: the byte in the chunk. For joined neighbours:
  /// prmt's selector of the first one.
  unsigned byteInChunk = 0;
};

} // namespace kiln
