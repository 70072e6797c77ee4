//===- HeadTensor.h - rows of heads of sequences in memory ----------------===//
#pragma once

#include "Kernel/Values.h"
#include "common/HeadStrides.h"
#include "common/Types.h"

#include <initializer_list>

namespace kiln {

/// Greatest number of heads, and of elements of a head's row: their products
/// with a number of tokens fit 64 bits.
inline constexpr int64_t kMaxHeads = 1 << 16;
inline constexpr int64_t kMaxHeadDim = 576;

/// The value in place of a batch stride if all sequences read the same rows:
/// their stride is 0, but the value 0 stands for "no gaps".
inline constexpr int64_t kSharedStride = -1;

/// A tensor of rows of \p cols elements, one for each head of each token of
/// each sequence (or page), with resolved strides.
struct HeadTensor {
  /// Index of the first of three fields: the strides of tokens, heads and
  /// sequences.
  int field;
  int64_t cols;
  HeadStrides strides;
  int64_t tokens, heads, batch;
  bool hasBatch; ///< false: sequences are packed, and the batch stride is
                 ///< ignored
  bool hasBatchField = true; ///< false: there are two fields
};

/// \p given with packed strides in place of 0: a token has \p heads rows of
/// \p cols elements, and the next sequence or page follows after \p tokens or
/// all heads. A batch stride of kSharedStride becomes 0.
HeadStrides resolveStrides(const HeadStrides &given, int64_t tokens,
                           int64_t heads, int64_t cols);

/// InvalidArgument, with the name and the keys of \p schema, if rows overlap or
/// exceed the address space. Tokens, heads and sequences nest in any way.
llvm::Error checkTensor(const Schema &schema, const HeadTensor &tensor);

/// Resets to 0 strides in \p values that equal the result of resolveStrides()
/// for 0, and strides that are never read. The stride of a single head is never
/// read. The stride of a single token or sequence counts: the next call may
/// have more.
void resetStrides(const HeadTensor &tensor, Values &values);

/// The distances by which accesses to rows move.
struct RowSteps {
  int64_t cols;
  HeadStrides strides;
  DType type;
};

/// Greatest power of two, at most 16, that divides \p promise and, in bytes,
/// the length of all rows and their strides.
int alignmentOf(int64_t promise, std::initializer_list<RowSteps> tensors);

} // namespace kiln
