//===- attention/MergeSignature.h - the signature of merges ---------------===//
//
// Two attentions of the same queries over different keys become the attention
// over all of them: with M = max(lse1, lse2) and w_i = e^(lse_i - M),
//
//   O = (w_1 O_1 + w_2 O_2) / (w_1 + w_2),   lse = M + ln(w_1 + w_2).
//
// A part whose lse is -inf does not count, whatever its O holds. Where both are
// -inf, O = 0 and lse = -inf.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Types.h"

namespace kiln {

struct MergeSignature {
  DType in = DType::BF16;  ///< of both parts of O
  DType out = DType::BF16; ///< of O
  int valueDim = 128;      ///< elements of a row
  bool lse = false;        ///< the merged logarithms are wanted
  /// A power of two up to 16 that divides every address of O and its parts,
  /// every stride and every row, in bytes.
  int align = 16;

  friend constexpr bool operator==(const MergeSignature &,
                                   const MergeSignature &) = default;
};

} // namespace kiln
