//===- gemm/Sm90Vector.cuh - a vector of a tile in registers --------------===//
//
// The bias, or scales of rows or columns. It is loaded before the products of a
// tile, so that they hide the latency: on an H200, pieces of an epilogue that
// each load a bias wait 0.8 us each, even for L1. Where the vector runs along
// wgmma's columns, lanes divide its entries and exchange them by shuffles;
// where it runs along rows, each thread has the entries of its two rows of each
// unit.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Convert.cuh"
#include "gemm/Sm90GemmConfig.h"

namespace kiln {

/// True where the epilogue adds the bias; where the chain joins columns,
/// computeRun reads the bias itself.
template <GemmSignature kSignature>
constexpr bool kAddsBias = kSignature.pointwise.contains(PointwiseOp::Bias) &&
                           kSignature.columnsPerOutput() == 1;

/// A consumer's part of a vector of \p kType, along the rows or the columns of
/// its part of a tile. Whole warps load it before the products, and read it
/// behind them.
template <GemmSignature kSignature, Sm90GemmConfig kConfig, DType kType,
          bool kAlongRows, bool kExists>
class Sm90Vector {
  static constexpr int kBytes = bytesOf(kType);
  static constexpr int kPiece = kConfig.pieceColumns(kSignature);
  static constexpr int kPieces = kConfig.unitPieces(kPiece);
  /// Entries in a word, words of a piece, and words of a lane.
  static constexpr int kPerWord = 4 / kBytes;
  static constexpr int kPieceWords = kPiece / kPerWord;
  static constexpr int kWords = (kPieceWords + 31) / 32;

public:
  /// The entries of one piece.
  class Piece {
  public:
    /// Entries for a thread's two sums in column block \p block, in the second
    /// or the first of its rows.
    void ofPair(float (&out)[2], int block, bool isSecond) const {
      if constexpr (kAlongRows)
        out[0] = out[1] = rows[isSecond];
      else if constexpr (kPerWord == 2)
        unpackPair<kType>(
            out[0], out[1],
            __shfl_sync(~0u, words[block / 8], block % 8 * 4 + lane() % 4));
      else
#pragma unroll
        for (int i = 0; i < 2; ++i)
          out[i] = __uint_as_float(__shfl_sync(
              ~0u, words[block / 4], block % 4 * 8 + lane() % 4 * 2 + i));
    }

  private:
    friend Sm90Vector;
    unsigned words[kWords] = {}; ///< this lane's, for the piece's columns
    float rows[2] = {0, 0};      ///< for the thread's rows
  };

  /// Loads the entries from \p first, the consumer's row or column, to \p end.
  void load(const void *vector, int first, int end) {
    const char *from = static_cast<const char *>(vector);
    load(first, [&](int at) {
      return loadOrZero<kType>(from + static_cast<long long>(at) * kBytes,
                               at < end);
    });
  }

  /// load() with entry i given by \p entry.
  template <class EntryOf> void load(int first, EntryOf entry) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i)
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        int at = kAlongRows
                     ? i * Sm90GemmConfig::kUnit + rowInUnit() + j * kSecondRow
                     : (i * 32 + lane()) * kPerWord + j;
        entries[i][j] = entry(first + at);
      }
  }

  /// The entries of piece \p number of the consumer.
  Piece piece(int number) const {
    Piece result;
    if constexpr (kAlongRows) {
#pragma unroll
      for (int j = 0; j < 2; ++j)
        result.rows[j] = toFloat<kType>(entries[number / kPieces][j]);
    } else {
      int begin = kConfig.pieceBegin(number % kPieces, kPiece) / kPerWord;
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        int first = begin + i * 32, from = first % 32 + lane();
        int count = kPieceWords - i * 32;
        unsigned word = wordOf(entries[first / 32]);
        if (first % 32 != 0 || count < 32)
          word = __shfl_sync(~0u, word, from);
        if (first % 32 + (count < 32 ? count : 32) > 32) {
          unsigned next =
              __shfl_sync(~0u, wordOf(entries[first / 32 + 1]), from);
          word = from < 32 ? word : next;
        }
        result.words[i] = word;
      }
    }
    return result;
  }

private:
  using Entry = Storage<kType>;
  /// Entries of a lane: the entries of its words, or of its two rows of each
  /// unit. Words stay apart, since joining them would wait for the loads.
  static constexpr int kEach = kAlongRows ? 2 : kPerWord;
  static constexpr int kLoads =
      kAlongRows ? kConfig.units()
                 : (kConfig.consumerColumns() / kPerWord + 31) / 32;

  static int lane() { return threadIdx.x % 32; }
  static constexpr int kSecondRow = kConfig.rowsFromRegisters(kSignature)
                                        ? Sm90GemmConfig::kSecondFromRegisters
                                        : 8;
  static int rowInUnit() {
    if constexpr (kConfig.rowsFromRegisters(kSignature))
      return Sm90GemmConfig::rowFromRegisters(threadIdx.x %
                                              Sm90GemmConfig::kWarpgroup);
    return threadIdx.x / 32 % 4 * 16 + lane() / 4;
  }

  static unsigned wordOf(const Entry (&word)[kEach]) {
    if constexpr (kBytes == 4)
      return __float_as_uint(word[0]);
    else
      return word[0] | static_cast<unsigned>(word[1]) << 16;
  }

  Entry entries[kLoads][kEach];
};

/// The interface for a vector that does not exist.
template <GemmSignature kSignature, Sm90GemmConfig kConfig, DType kType,
          bool kAlongRows>
class Sm90Vector<kSignature, kConfig, kType, kAlongRows, false> {
public:
  struct Piece {
    void ofPair(float (&)[2], int, bool) const {}
  };
  void load(const void *, int, int) {}
  template <class EntryOf> void load(int, EntryOf) {}
  Piece piece(int) const { return {}; }
};

} // namespace kiln
