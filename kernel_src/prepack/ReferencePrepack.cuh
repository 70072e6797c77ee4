//===- prepack/ReferencePrepack.cuh - the reference of prepack ------------===//
//
// Each thread takes one byte, scale or zero point of the result, finds the
// elements of the weight in it, and looks them up in the source. That is the
// reverse of PackedWeights::bitOf(), which gives the place of an element.
// Packed bytes are compared as int8.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Convert.cuh"
#include "prepack/BlockPrepackConfig.h"

namespace kiln {

template <PrepackSignature kSignature, ReferencePrepackConfig kConfig>
class ReferencePrepack {
  static constexpr int kBits = kSignature.bits();

public:
  explicit ReferencePrepack(const ReferencePrepackParams &params)
      : params(params),
        given(params.prepack), from{kSignature.source, kSignature.group,
                                    given.n, given.k} {}

  void run() const {
    const long long count = (params.rowEnd - params.rowBegin) * params.columns;
    const long long stride =
        static_cast<long long>(gridDim.x) * kConfig.threads();
    for (long long i = blockIdx.x * static_cast<long long>(kConfig.threads()) +
                       threadIdx.x;
         i < count; i += stride) {
      const long long block = params.rowBegin + i / params.columns;
      params.reference[i] = valueOf(block, i % params.columns);
      params.bound[i] = 0;
    }
  }

private:
  double valueOf(long long block, long long column) const {
    if (params.operand == 0)
      return static_cast<signed char>(byteOf(block, column));
    // The place among the 64 of a group: units of 16, with rows 8 apart next to
    // each other.
    const int place = static_cast<int>(column % 64);
    const int unitRow = place % 16 / 2 + place % 2 * 8;
    const long long row = block * 64 + place / 16 * 16 + unitRow;
    const long long group = column / 64;
    if (params.operand == 2)
      return zeroOf(row, group);
    if (row >= given.n || group >= from.groups())
      return 0;
    return toFloat<kSignature.scale>(
        static_cast<const Storage<kSignature.scale> *>(
            given.scales)[from.scaleOf(row, group)]);
  }

  int byteOf(long long block, long long column) const {
    constexpr int kBlockBytes = PackedWeights::blockBytes(kBits);
    const int byte = static_cast<int>(column % kBlockBytes);
    const int lane = byte % 512 / 16, word = byte % 16 / 4;
    const long long row = block * 64 + lane / 4;
    const long long at = column / kBlockBytes * 64 + lane % 4 * 2;
    if constexpr (kBits == 8) {
      const int unit = byte / 1024, half = byte % 1024 / 512;
      const int reg = word % 2 * 2 + byte % 2;
      return codeOf(row + unit * 16 + reg % 2 * 8,
                    at + half * 32 + word / 2 * 16 + reg / 2 * 8 +
                        byte % 4 / 2);
    } else {
      const int unit = byte / 512;
      int all = 0;
      for (int i = 0; i < 2; ++i) {
        const int reg = byte % 2 * 2 + i;
        all |= codeOf(row + unit * 16 + reg % 2 * 8,
                      at + word * 16 + reg / 2 * 8 + byte % 4 / 2)
               << 4 * i;
      }
      return all;
    }
  }

  int codeOf(long long row, long long at) const {
    if (row >= given.n)
      return from.constantZero();
    if (at >= given.k)
      return min(15, zeroOf(row, from.groups() - 1));
    if constexpr (kBits == 8)
      return static_cast<const unsigned char *>(
          given.weights)[row * given.k + at];
    else
      return static_cast<const unsigned *>(
                 given.weights)[from.wordOf(row, at)] >>
                 4 * from.placeOf(row, at) &
             15;
  }

  int zeroOf(long long row, long long group) const {
    if (!kSignature.zeros || row >= given.n || group >= from.groups())
      return from.constantZero();
    const unsigned word =
        static_cast<const unsigned *>(given.zeros)[from.zeroWordOf(row, group)];
    return static_cast<int>(word >> 4 * from.zeroPlaceOf(row) & 15) +
           from.zeroOffset();
  }

  const ReferencePrepackParams &params;
  const PrepackParams &given;
  const PrepackSource from;
};

/// Writes reference and bound of the rows [rowBegin, rowEnd) of a result.
template <PrepackSignature kSignature, ReferencePrepackConfig kConfig>
void referencePrepack(const ReferencePrepackParams &params) {
  ReferencePrepack<kSignature, kConfig>(params).run();
}

} // namespace kiln
