//===- sample/SampleSignature.h - the signature of sample -----------------===//
//
// Shared by the host and every kernel of the family.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Types.h"

namespace kiln {

/// The part of a sample that its kernels are specialised for. Features that
/// cost nothing where they are absent (64-bit tokens, counters that advance)
/// are not here.
struct SampleSignature {
  DType in = DType::BF16;
  bool softcap = false;
  bool temperature = false; ///< tokens are drawn; else the greatest logit wins
  bool cuts = false;        ///< there are top_k, top_p or min_p
  bool penalties = false;   ///< there is a repetition, frequency or presence
  bool allowed = false;
  bool logprobs = false; ///< of the tokens, or of the most probable ones
  /// A power of two, at least the element and at most 16: logits and their
  /// leading dimension, in bytes, are multiples of it.
  int align = 16;

  /// Whether tokens are chosen from other logits than those whose log
  /// probabilities are told.
  constexpr bool changesLogits() const { return penalties || allowed; }
  /// Whether step 1 alone, without a cap, makes the logits.
  constexpr bool hasPlainLogits() const { return !softcap && !changesLogits(); }
  /// Whether tokens are collected in lists.
  constexpr bool lists() const { return cuts || logprobs; }

  constexpr bool isWellFormed() const {
    const bool isType =
        in == DType::BF16 || in == DType::FP16 || in == DType::FP32;
    return isType && align >= bytesOf(in) && align <= 16 &&
           (align & (align - 1)) == 0 && (temperature || !cuts);
  }

  friend constexpr bool operator==(const SampleSignature &,
                                   const SampleSignature &) = default;
};

} // namespace kiln
