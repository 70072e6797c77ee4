//===- route/RouteSignature.h - the signature of route --------------------===//
//
// Shared by the host and every kernel of the family.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Types.h"

namespace kiln {

/// The part of a route that its kernels are specialised for. Sizes are not
/// here, nor features that cost little where they are absent: biases,
/// renormalisation, local experts, further results.
struct RouteSignature {
  DType in = DType::BF16;
  bool sigmoid = false; ///< scores are sigmoids; else softmaxes
  /// Experts are chosen by score + choice_bias; else by their logits.
  bool byScore = false;
  bool grouped = false;
  bool greatest = false; ///< groups count as their greatest; else as sums

  constexpr bool isWellFormed() const {
    const bool isType =
        in == DType::BF16 || in == DType::FP16 || in == DType::FP32;
    return isType && (grouped || !greatest) &&
           (!grouped || greatest || byScore);
  }

  friend constexpr bool operator==(const RouteSignature &,
                                   const RouteSignature &) = default;
};

} // namespace kiln
