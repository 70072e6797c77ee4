//===- HeadTensor.h - rows of heads of sequences in memory ----------------===//
#pragma once

#include "Kernel/Values.h"
#include "attention/AttentionParams.h"
#include "common/Types.h"

#include <initializer_list>

namespace kiln {

/// Greatest number of heads, and of elements of a head's row: their products
/// with a number of tokens fit 64 bits.
inline constexpr int64_t kMaxHeads = 1 << 16;
inline constexpr int64_t kMaxHeadDim = 576;

/// What a record has in the place of a batch stride where all sequences read
/// the same rows: their stride is 0, which a record has for "no gaps".
inline constexpr int64_t kSharedStride = -1;

/// A tensor of rows of \p cols elements, one for each head of each token of
/// each sequence (or page), with resolved strides.
struct HeadTensor {
  /// Of a record: the strides of tokens, heads and sequences, in a row.
  int field;
  int64_t cols;
  AttentionStrides strides;
  int64_t tokens, heads, batch;
  bool hasBatch; ///< false: sequences are packed, the batch stride is not read
};

/// \p given with packed strides in place of 0: of \p heads rows of \p cols
/// elements a token and, after \p tokens or all heads, the next sequence or
/// page. A batch stride of kSharedStride becomes 0.
AttentionStrides resolveStrides(const AttentionStrides &given, int64_t tokens,
                                int64_t heads, int64_t cols);

/// InvalidArgument, with the name and the keys of \p schema, if rows overlap or
/// exceed the address space. Tokens, heads and sequences nest in any way.
llvm::Error checkTensor(const Schema &schema, const HeadTensor &tensor);

/// Sets strides of \p record that are what resolveStrides() makes of 0, and
/// those that nothing reads, to 0. A stride over the only head is never read.
/// One over the only token or sequence counts: there are more in the next call.
void resetStrides(const HeadTensor &tensor, Values &values);

/// What an access to rows moves by.
struct RowSteps {
  int64_t cols;
  AttentionStrides strides;
  DType type;
};

/// Greatest power of two, at most 16, that divides \p promise and, in bytes,
/// the length of all rows and their strides.
int alignmentOf(int64_t promise, std::initializer_list<RowSteps> tensors);

} // namespace kiln
