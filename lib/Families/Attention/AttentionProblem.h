//===- AttentionProblem.h - an attention, typed ---------------------------===//
//
// The typed form of the records "attention batch=.. sq=.. sk=.. heads=.." and
// of their signature; attention/AttentionSignature.h has the terms.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Values.h"
#include "attention/AttentionParams.h"
#include "attention/AttentionSignature.h"

#include <algorithm>
#include <cmath>

namespace kiln {

/// Sizes in tokens or elements, strides in elements, all resolved.
struct AttentionProblem {
  int64_t batch = 1;
  int64_t queries = 0, keys = 0; ///< of each sequence, or the most
  /// What to expect of keys where lengths are in device memory; `keys` where
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
  double scale = 0;   ///< resolved: 1 / sqrt(headDim) where the record has 0
  double softcap = 0; ///< 0: none
  bool sinks = false, alibi = false, lse = false;
  /// Factors of Q, K and V as far as they are e4m3: none, one each, or one for
  /// each head of K.
  enum class Scales { None, Tensor, Head } scales = Scales::None;
  /// Keys of a split where results must not depend on the batch; 0: the kernel
  /// decides.
  int64_t fixedSplit = 0;
  /// V is the first valueDim elements of the rows of K; there is no other.
  bool latent = false;
  AttentionStrides q, k, v, o;
  int64_t align = 16;

  int64_t group() const { return heads / kvHeads; }
  /// Of K and V, of a token and head.
  int64_t keyElements() const { return headDim + (latent ? 0 : valueDim); }
  bool isPaged() const { return pages != AttentionPages::None; }
  bool hasPackedQueries() const {
    return queryLengths == AttentionLengths::Packed;
  }
  bool hasPackedKeys() const { return keyLengths == AttentionLengths::Packed; }
  /// Rows of Q and O, and of K and V, that lie together: of a sequence, of all
  /// packed ones, of a page.
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
  /// Entries of a page table that a sequence of the most keys has.
  int64_t pagesOfSequence() const {
    return pageSize ? keys / pageSize + (keys % pageSize != 0) : 0;
  }
  /// Queries and keys of a sequence as far as the problem tells: packed ones
  /// share their rows evenly.
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

/// The operand that has the rows of V.
inline int valueOperandOf(const AttentionProblem &problem) {
  return problem.latent ? AttentionOperand::K : AttentionOperand::V;
}

/// In the order of Arguments::scalars.
struct AttentionScalar {
  enum : int { Scale, Softcap, Count };
};

/// Schemas of the family's problems and signatures. Made at the first use and
/// kept; thread-safe.
const Schema &attentionProblemSchema();
const Schema &attentionSignatureSchema();

/// Reads the values of a problem record, in schema order, and resolves derived
/// defaults. What launches read of one is in LaunchedAttention.h.
AttentionProblem readAttentionProblem(const int64_t *values);

/// What a scale of 0 stands for.
inline double defaultScale(int64_t headDim) {
  return 1 / std::sqrt(double(headDim));
}
/// \p given, or for 0 \p byDefault, which is defaultScale().
constexpr double resolveScale(double given, double byDefault) {
  return given != 0 ? given : byDefault;
}

AttentionSignature signatureOf(const AttentionProblem &problem);

/// A signature as a record of attentionSignatureSchema(), and back.
Values toValues(const AttentionSignature &signature);
AttentionSignature readAttentionSignature(const Values &values);

/// A designated initialiser.
std::string initializerText(const AttentionSignature &signature);

/// Pairs that the mask leaves of \p queries and \p keys of one head of one
/// sequence. Exact up to 2^53.
double visiblePairs(const AttentionProblem &problem, int64_t queries,
                    int64_t keys);

/// The same over all heads and sequences, each with its usual lengths: what
/// counts as work.
double visiblePairs(const AttentionProblem &problem);

} // namespace kiln
