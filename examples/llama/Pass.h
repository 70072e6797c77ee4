//===- Pass.h - the size of a forward pass --------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_PASS_H
#define KILN_EXAMPLES_LLAMA_PASS_H

#include "CacheType.h"
#include "StepInputs.h"

#include <cstdint>

namespace llama {

/// The largest step, and what the cache is made of.
struct TransformerRoom {
  StepRoom step;
  int64_t positions = 0; ///< of a sequence
  int64_t pageTokens = 64;
  CacheType cache = CacheType::Bf16;
};

/// The tokens of a forward pass: decodes, one token each, then prefills,
/// packed.
struct Pass {
  int64_t decodes = 0;
  int64_t decodeKeys = 0;     ///< upper bound of their lengths
  int64_t decodeKeysHint = 0; ///< expected length
  int64_t prefills = 0, prefillTokens = 0;
  int64_t longestPrefill = 0; ///< tokens
  int64_t prefillKeys = 0;    ///< upper bound of their lengths
  int64_t samples = 0;        ///< rows of logits
  /// Tokens are sampled in place, and the next step follows without the host.
  bool feedsItself = false;
  /// Every token has a row of logits, and none is sampled: for comparisons.
  bool isProbe = false;

  int64_t tokens() const { return decodes + prefillTokens; }
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_PASS_H
