//===- prepack/PrepackSource.h - the weights of checkpoints ---------------===//
//
// Compiled by the host compiler and by NVRTC, so it includes no header of
// either. Values of the enumeration appear in kiln.h and in stored entries.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace kiln {

/// A form in which checkpoints store a weight W[n, k] with n rows (outputs) and
/// k columns. Words are 32 bits, of eight elements of 4 bits; element 0 is the
/// lowest. The last word is not full where a count does not divide.
enum class WeightSource : int {
  Gptq = 10,   ///< words [k/8, n] along k; zeros [k/g, n/8] less 1; scales
               ///< [k/g, n]
  GptqV2 = 20, ///< as Gptq, with zeros as they are
  Awq = 30,    ///< words [k, n/8] along n, columns 0, 2, 4, 6, 1, 3, 5, 7;
               ///< zeros [k/g, n/8] likewise; scales [k/g, n]
  CompressedTensors = 40, ///< words [n, k/8] along k; zeros [n/8, k/g] along n;
                          ///< scales [n, k/g]
  Int8 = 50,              ///< bytes [n, k]; scales [n, k/g]
  E4m3 = 60,              ///< likewise
  Mxfp4 = 70,             ///< e2m1, bytes [n, k/32, 16], the lower half first;
                          ///< scales e8m0 [n, k/32]
};

constexpr int bitsOf(WeightSource source) {
  return source == WeightSource::Int8 || source == WeightSource::E4m3 ? 8 : 4;
}
/// Whether codes are integers with a zero point, stored or 8.
constexpr bool hasZeroPoint(WeightSource source) {
  return bitsOf(source) == 4 && source != WeightSource::Mxfp4;
}

/// The codes, scales and zero points of one checkpoint.
struct PrepackSource {
  WeightSource source = WeightSource::Gptq;
  int group = 0; ///< 0: all k
  long long n = 0, k = 0;

  /// The code of 0 where no zero points are stored.
  constexpr int constantZero() const { return hasZeroPoint(source) ? 8 : 0; }
  /// Groups of a row of the source.
  constexpr long long groups() const {
    return group ? (k + group - 1) / group : 1;
  }
  constexpr long long groupOf(long long at) const {
    return group ? at / group : 0;
  }
  /// Words of eight rows.
  constexpr long long rowWords() const { return (n + 7) / 8; }
  /// Words of a row whose words lie along k.
  constexpr long long depthWords() const {
    return source == WeightSource::Mxfp4 ? (k + 31) / 32 * 4 : (k + 7) / 8;
  }
  constexpr bool isAlongRows() const { return source == WeightSource::Awq; }
  constexpr bool isAcrossRows() const {
    return source == WeightSource::Gptq || source == WeightSource::GptqV2;
  }

  /// Whether scales are stored as [groups, n].
  constexpr bool hasGroupRows() const {
    return isAlongRows() || isAcrossRows();
  }

  /// The codes as a matrix of bytes: its rows.
  constexpr long long weightRows() const {
    return isAlongRows() ? k : isAcrossRows() ? depthWords() : n;
  }
  constexpr long long weightRowBytes() const {
    return isAlongRows()         ? rowWords() * 4
           : isAcrossRows()      ? n * 4
           : bitsOf(source) == 8 ? k
                                 : depthWords() * 4;
  }

  /// For 4 bits: the word of an element, and its index in the word, 0 to 7.
  constexpr long long wordOf(long long row, long long at) const {
    if (isAlongRows())
      return at * rowWords() + row / 8;
    if (isAcrossRows())
      return at / 8 * n + row;
    return row * depthWords() + at / 8;
  }
  constexpr int placeOf(long long row, long long at) const {
    return isAlongRows() ? turned(row) : static_cast<int>(at % 8);
  }

  /// The word of a zero point.
  constexpr long long zeroWordOf(long long row, long long index) const {
    return source == WeightSource::CompressedTensors
               ? row / 8 * groups() + index
               : index * rowWords() + row / 8;
  }
  constexpr int zeroPlaceOf(long long row) const {
    return isAlongRows() ? turned(row) : static_cast<int>(row % 8);
  }
  /// The number that is added to a stored zero point.
  constexpr int zeroOffset() const { return source == WeightSource::Gptq; }

  constexpr long long scaleOf(long long row, long long index) const {
    return hasGroupRows() ? index * n + row : row * groups() + index;
  }

private:
  /// The place of column \p row of eight in AWQ's order.
  static constexpr int turned(long long row) {
    const int column = static_cast<int>(row % 8);
    return column / 2 + column % 2 * 4;
  }
};

} // namespace kiln
