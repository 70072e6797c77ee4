//===- route/RouteParams.h - run-time parameters of route -----------------===//
//
// Filled by the host, passed by value as the one parameter of every kernel of
// the family. Compiled by the host compiler and by NVRTC: plain types only.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace kiln {

/// The most experts, and the most of a token.
inline constexpr int kRouteExperts = 1024, kRouteTopK = 32;

/// Operands and extents of one launch; include/kiln/moe.h has their meaning.
/// Arrays that the problem does not have are null.
struct RouteParams {
  const void *logits = nullptr; ///< tokens x experts
  long long ld = 0;
  int tokens = 0, experts = 1, topK = 1;
  int groups = 1, topGroups = 1;
  int firstExpert = 0, localExperts = 1;
  int align = 1;
  int renormalizes = 0;
  float scale = 1;
  const float *logitBias = nullptr, *choiceBias = nullptr;
  const int *tokenCount = nullptr;
  int *index = nullptr, *ends = nullptr;
  float *weights = nullptr;
  int *chosen = nullptr, *sizes = nullptr;
  /// Tokens of a block, which follow each other.
  int blockTokens = 0;
  // Scratch between two kernels.
  unsigned *counts = nullptr; ///< blocks x experts: rows
  unsigned *ranks = nullptr;  ///< tokens x topK, see RouteRank
};

/// A choice's expert and its place among its block's choices of that expert, in
/// a word.
struct RouteRank {
  static constexpr int kPlaceBits = 22;
  static constexpr unsigned kNone = ~0u; ///< the choice has no row

  static constexpr unsigned of(unsigned expert, unsigned place) {
    return expert << kPlaceBits | place;
  }
  static constexpr unsigned expertOf(unsigned rank) {
    return rank >> kPlaceBits;
  }
  static constexpr unsigned placeOf(unsigned rank) {
    return rank & ((1u << kPlaceBits) - 1);
  }
};

/// Parameters of the reference: rows [rowBegin, rowEnd) of one output.
struct ReferenceRouteParams {
  RouteParams route;
  int output = 0; ///< index of the operand, see RouteOperand
  long long rowBegin = 0, rowEnd = 0;
  double *reference = nullptr; ///< (rowEnd - rowBegin) x columns, packed
  double *bound = nullptr;     ///< same shape
};

/// The operands of a problem, in the order of Arguments::operands.
struct RouteOperand {
  enum : int {
    Logits,
    LogitBias,
    ChoiceBias,
    TokenCount,
    Index,
    Ends,
    Weights,
    Chosen,
    Sizes,
    Count
  };
};

} // namespace kiln
