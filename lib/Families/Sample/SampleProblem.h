//===- SampleProblem.h - a choice of tokens, typed ------------------------===//
//
// The typed form of the values "sample rows=.. vocab=.." and of their
// signature; include/kiln/sample.h has the terms.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Values.h"
#include "sample/SampleParams.h"
#include "sample/SampleSignature.h"

#include <algorithm>

namespace kiln {

/// The most tokens of a vocabulary: masses of as many have a sum, and trials
/// compare tokens exactly.
inline constexpr int64_t kMaxVocab = int64_t(1) << 24;
/// The tokens of a history for each row, where a text does not say how many.
inline constexpr int64_t kUsualHistory = 256;

/// Sizes in elements. The leading dimension is resolved.
struct SampleProblem {
  int64_t rows = 0, vocab = 0;
  DType dtype = DType::BF16;
  bool temperature = false, topK = false, topP = false, minP = false;
  bool repetition = false, frequency = false, presence = false;
  bool allowed = false, logprobs = false;
  int64_t topCount = 0;
  bool isInt64 = false, isJoint = false, advances = false, lengths = false;
  int64_t historyCount = 0; ///< elements that the history has
  double scale = 1, softcap = 0;
  int64_t ld = 0;
  int64_t align = 16; ///< of the logits

  bool hasPenalties() const { return repetition || frequency || presence; }
  bool hasCuts() const { return topK || topP || minP; }
  bool hasPositions() const { return temperature || advances; }
  int64_t maskWords() const { return (vocab + 31) / 32; }
  DType tokenType() const { return isInt64 ? DType::INT64 : DType::INT32; }
  /// The mean number of tokens in the history of a row.
  int64_t historyOfRow() const {
    return historyCount / std::max<int64_t>(rows, 1);
  }
};

/// Indices of the fields of sampleProblemSchema(), in its order.
struct SampleField {
  enum : int {
    Rows,
    Vocab,
    DType,
    Temperature,
    TopK,
    TopP,
    MinP,
    Joint,
    Repetition,
    Frequency,
    Presence,
    History,
    Allowed,
    Logprobs,
    Top,
    Int64,
    Advance,
    Lengths,
    Scale,
    Softcap,
    LdX,
    Align,
    Count
  };
};

/// Scalars in the order of Arguments::scalars.
struct SampleScalar {
  enum : int { Scale, Softcap };
};

/// Schema of the family's problems. Made at the first use and kept;
/// thread-safe.
const Schema &sampleProblemSchema();

/// Reads the values of a problem in schema order, and resolves derived
/// defaults. Nanoseconds: called on every launch.
SampleProblem readSampleProblem(const int64_t *values);

/// The elements of the history where a problem with penalties does not say how
/// many.
int64_t usualHistory(int64_t rows);

SampleSignature signatureOf(const SampleProblem &problem);

/// Converts a signature to values, and back.
Values toValues(const SampleSignature &signature);
SampleSignature readSampleSignature(const Values &values);

/// A designated initialiser: "{.in = kiln::DType::BF16, ...}".
std::string initializerText(const SampleSignature &signature);

} // namespace kiln
