//===- sample/SampleParams.h - run-time parameters of sample --------------===//
//
// Filled by the host, passed by value as the one parameter of every kernel of
// the family. Compiled by the host compiler and by NVRTC: plain types only.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace kiln {

/// The results of the blocks of a row of which the last one ends the row. All
/// of it is zero when a launch begins and when it ends.
struct SampleMeeting {
  unsigned long long best = 0;  ///< of the logits
  unsigned long long drawn = 0; ///< of the logits with noise
  unsigned arrived = 0, unused[3] = {};
};

/// Operands and extents of one launch; include/kiln/sample.h has their meaning.
/// Arrays that the problem does not have are null.
struct SampleParams {
  const void *logits = nullptr; ///< rows x vocab
  long long ld = 0;
  int vocab = 0;
  float scale = 1, softcap = 0, inverseCap = 0;
  void *tokens = nullptr;
  int isInt64 = 0;  ///< tokens and topTokens
  int advances = 0; ///< positions and lengths
  const float *temperature = nullptr;
  const unsigned long long *seeds = nullptr;
  int *positions = nullptr, *lengths = nullptr;
  SampleMeeting *meetings = nullptr; ///< one for each row
  int rowBlocks = 1; ///< of a row, where these meet in `meetings`

  int isJoint = 0;
  const int *topK = nullptr;
  const float *topP = nullptr, *minP = nullptr;
  const unsigned *allowed = nullptr; ///< rows x ceil(vocab / 32)
  const float *repetition = nullptr, *frequency = nullptr, *presence = nullptr;
  const int *history = nullptr, *historyBegins = nullptr,
            *historyEnds = nullptr, *promptLengths = nullptr;
  long long historyCount = 0;
  float *logprobs = nullptr;
  int topCount = 0;
  void *topTokens = nullptr;
  float *topLogprobs = nullptr;
};

/// Parameters of the reference: rows [rowBegin, rowEnd) of one output.
struct ReferenceSampleParams {
  SampleParams sample;
  int output = 0; ///< index of the operand, see SampleOperand
  long long rowBegin = 0, rowEnd = 0;
  double *reference = nullptr; ///< (rowEnd - rowBegin) x columns, packed
  double *bound = nullptr;     ///< same shape
};

/// The operands of a problem, in the order of Arguments::operands.
struct SampleOperand {
  enum : int {
    Logits,
    Temperature,
    TopK,
    TopP,
    MinP,
    Repetition,
    Frequency,
    Presence,
    Seeds,
    Positions,
    Lengths,
    History,
    HistoryBegins,
    HistoryEnds,
    PromptLengths,
    Allowed,
    Tokens,
    Logprobs,
    TopTokens,
    TopLogprobs,
    Count
  };
};

} // namespace kiln
