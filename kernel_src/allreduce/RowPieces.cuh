//===- allreduce/RowPieces.cuh - vectors of rows at any alignment ---------===//
//
// Exchange memory has whole vectors of 16 bytes. Rows of operands have pieces
// of a vector, as long as the alignment that all rows keep, and end with a
// piece.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "allreduce/ExchangeWords.cuh"

namespace kiln {

/// Calls \p visit with (index, offset) for each piece of kAlign bytes of the
/// vector at \p offset that lies inside of a row of \p rowBytes bytes.
template <int kAlign, class Visit>
void forEachPiece(long long offset, long long rowBytes, Visit &&visit) {
#pragma unroll
  for (int i = 0; i < ExchangeLayout::kVectorBytes / kAlign; ++i)
    if (offset + i * kAlign < rowBytes)
      visit(i, offset + i * kAlign);
}

/// The vector at \p offset of \p row; zeros beyond the end.
template <int kAlign>
ExchangeWords loadPieces(const void *row, long long offset,
                         long long rowBytes) {
  ExchangeWords words = {};
  forEachPiece<kAlign>(offset, rowBytes, [&](int i, long long at) {
    const Words<kAlign> piece =
        loadVector<kAlign>(static_cast<const char *>(row) + at);
    if constexpr (kAlign == 2)
      words.word[i / 2] |= piece.word[0] << (i % 2 * 16);
    else
#pragma unroll
      for (int w = 0; w < kAlign / 4; ++w)
        words.word[i * (kAlign / 4) + w] = piece.word[w];
  });
  return words;
}

template <int kAlign>
void storePieces(void *row, long long offset, long long rowBytes,
                 const ExchangeWords &words) {
  forEachPiece<kAlign>(offset, rowBytes, [&](int i, long long at) {
    Words<kAlign> piece;
    if constexpr (kAlign == 2)
      piece.word[0] = words.word[i / 2] >> (i % 2 * 16);
    else
#pragma unroll
      for (int w = 0; w < kAlign / 4; ++w)
        piece.word[w] = words.word[i * (kAlign / 4) + w];
    storeVector<kAlign>(static_cast<char *>(row) + at, piece);
  });
}

} // namespace kiln
