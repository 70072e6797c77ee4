//===- AttentionProblem.h - an attention, typed ---------------------------===//
//
// The typed form of the values "attention batch=.. sq=.. sk=.. heads=.." and of
// their signature; attention/AttentionSignature.h has the terms.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Values.h"
#include "attention/AttentionParams.h"
#include "attention/AttentionSignature.h"

#include <cmath>

namespace kiln {

/// Sizes in tokens or elements, strides in elements, all resolved.
struct AttentionProblem {
  int64_t batch = 1;
  int64_t queries = 0, keys = 0; ///< of each sequence, or the maximum
  /// The keys to expect where lengths are in device memory; `keys` where
  /// nothing is known.
  int64_t typicalKeys = 0;
  int64_t heads = 1, kvHeads = 1, headDim = 128, valueDim = 128;
  DType dtype = DType::BF16, kv = DType::BF16, out = DType::BF16;
  AttentionMask mask = AttentionMask::None;
  int64_t left = 0, right = 0; ///< of the window
  AttentionLengths queryLengths = AttentionLengths::Uniform;
  AttentionLengths keyLengths = AttentionLengths::Uniform;
  AttentionPages pages = AttentionPages::None;
  int64_t pageSize = 0;  ///< tokens
  int64_t pageCount = 0; ///< pages that K and V have room for
  /// Entries of a row of the page table, or of the whole list.
  int64_t pageTableCols = 0;
  /// Rows of Q and O, and of K and V, where sequences are packed.
  int64_t totalQueries = 0, totalKeys = 0;
  double scale = 0;   ///< resolved: 1 / sqrt(headDim) where the values have 0
  double softcap = 0; ///< 0: none
  bool sinks = false, alibi = false, lse = false;
  /// Factors for those of Q, K and V that are e4m3: none, one each, or one for
  /// each head of K.
  enum class Scales { None, Tensor, Head } scales = Scales::None;
  /// Keys of a split if results must not depend on the batch; 0: the kernel
  /// decides.
  int64_t fixedSplit = 0;
  /// MLA: V is the first valueDim elements of the rows of K; there is no other
  /// V.
  bool latent = false;
  HeadStrides q, k, v, o;
  int64_t align = 16;

  int64_t group() const { return heads / kvHeads; }
  /// Elements of K and V for one token and head.
  int64_t keyElements() const { return headDim + (latent ? 0 : valueDim); }
  bool isPaged() const { return pages != AttentionPages::None; }
  bool hasPackedQueries() const {
    return queryLengths == AttentionLengths::Packed;
  }
  bool hasPackedKeys() const { return keyLengths == AttentionLengths::Packed; }
  /// Contiguous rows of Q and O, and of K and V: the rows of a sequence, of all
  /// packed sequences, or of a page.
  int64_t queryRows() const {
    return hasPackedQueries() ? totalQueries : queries;
  }
  int64_t keyRows() const {
    return isPaged() ? pageSize : hasPackedKeys() ? totalKeys : keys;
  }
  /// Whether sequences may be much longer than usual.
  bool isRagged() const {
    return keyLengths != AttentionLengths::Uniform && typicalKeys < keys;
  }
  /// Entries of a page table for a sequence with the most keys.
  int64_t pagesOfSequence() const {
    return pageSize ? keys / pageSize + (keys % pageSize != 0) : 0;
  }
  /// Usual queries and keys of a sequence, as far as the problem tells: packed
  /// sequences share their rows evenly.
  int64_t usualQueries() const;
  int64_t usualKeys() const;
};

/// Indices of the fields of attentionProblemSchema(), in its order.
struct AttentionField {
  enum : int {
    Batch,
    Sq,
    Sk,
    SkHint,
    Heads,
    KvHeads,
    D,
    Dv,
    DType,
    Kv,
    Out,
    Mask,
    Left,
    Right,
    Scale,
    Softcap,
    Sinks,
    Alibi,
    Lse,
    QLen,
    KvLen,
    Pages,
    Page,
    PoolPages,
    TableCols,
    TotalQ,
    TotalK,
    Scales,
    Split,
    Latent,
    LdQ,
    HsQ,
    BsQ,
    LdK,
    HsK,
    BsK,
    LdV,
    HsV,
    BsV,
    LdO,
    HsO,
    BsO,
    Align,
    Count
  };
};

/// Operands in the order of Arguments::operands.
struct AttentionOperand {
  enum : int {
    Q,
    K,
    V,
    O,
    Lse,
    QueryOffsets,
    KeyOffsets,
    KeyLengths,
    PageTable,
    PageOffsets,
    Sinks,
    Alibi,
    QScale,
    KScale,
    VScale,
    Count
  };
};

/// The operand whose rows hold V.
inline int valueOperandOf(const AttentionProblem &problem) {
  return problem.latent ? AttentionOperand::K : AttentionOperand::V;
}

/// In the order of Arguments::scalars.
struct AttentionScalar {
  enum : int { Scale, Softcap, Count };
};

/// Schema of the family's problems. Made at the first use and kept;
/// thread-safe.
const Schema &attentionProblemSchema();

/// Reads the values of a problem in schema order, and resolves derived
/// defaults. LaunchedAttention.h reads those of a launch.
AttentionProblem readAttentionProblem(const int64_t *values);

/// The scale for which 0 stands.
inline double defaultScale(int64_t headDim) {
  return 1 / std::sqrt(double(headDim));
}
/// \p given, or \p byDefault, which is defaultScale(), in place of 0.
constexpr double resolveScale(double given, double byDefault) {
  return given != 0 ? given : byDefault;
}

AttentionSignature signatureOf(const AttentionProblem &problem);

/// Converts a signature to values, and back.
Values toValues(const AttentionSignature &signature);
AttentionSignature readAttentionSignature(const Values &values);

/// The signature as a designated initialiser.
std::string initializerText(const AttentionSignature &signature);

/// Pairs of \p queries and \p keys, of one head of one sequence, that the mask
/// leaves. Exact up to 2^53.
double visiblePairs(const AttentionProblem &problem, int64_t queries,
                    int64_t keys);

/// visiblePairs() over all heads and sequences, each with its usual lengths.
/// This is the work of the problem.
double visiblePairs(const AttentionProblem &problem);

} // namespace kiln
