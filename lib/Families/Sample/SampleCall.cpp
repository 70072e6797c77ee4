//===- SampleCall.cpp - kiln_sample_args as a call ------------------------===//
#include "Families/Sample/SampleFamily.h"

#include "Call/Visit.h"

namespace kiln {

static_assert(
    int(KILN_SAMPLE_LOGITS) == int(SampleOperand::Logits) &&
    int(KILN_SAMPLE_TEMPERATURE) == int(SampleOperand::Temperature) &&
    int(KILN_SAMPLE_TOP_K) == int(SampleOperand::TopK) &&
    int(KILN_SAMPLE_TOP_P) == int(SampleOperand::TopP) &&
    int(KILN_SAMPLE_MIN_P) == int(SampleOperand::MinP) &&
    int(KILN_SAMPLE_REPETITION) == int(SampleOperand::Repetition) &&
    int(KILN_SAMPLE_FREQUENCY) == int(SampleOperand::Frequency) &&
    int(KILN_SAMPLE_PRESENCE) == int(SampleOperand::Presence) &&
    int(KILN_SAMPLE_SEEDS) == int(SampleOperand::Seeds) &&
    int(KILN_SAMPLE_POSITIONS) == int(SampleOperand::Positions) &&
    int(KILN_SAMPLE_LENGTHS) == int(SampleOperand::Lengths) &&
    int(KILN_SAMPLE_HISTORY) == int(SampleOperand::History) &&
    int(KILN_SAMPLE_HISTORY_BEGINS) == int(SampleOperand::HistoryBegins) &&
    int(KILN_SAMPLE_HISTORY_ENDS) == int(SampleOperand::HistoryEnds) &&
    int(KILN_SAMPLE_PROMPT_LENGTHS) == int(SampleOperand::PromptLengths) &&
    int(KILN_SAMPLE_ALLOWED) == int(SampleOperand::Allowed) &&
    int(KILN_SAMPLE_TOKENS) == int(SampleOperand::Tokens) &&
    int(KILN_SAMPLE_LOGPROBS) == int(SampleOperand::Logprobs) &&
    int(KILN_SAMPLE_TOP_TOKENS) == int(SampleOperand::TopTokens) &&
    int(KILN_SAMPLE_TOP_LOGPROBS) == int(SampleOperand::TopLogprobs) &&
    int(KILN_SAMPLE_SLOT_COUNT) == int(SampleOperand::Count));

namespace {

using F = SampleField;
using Operand = SampleOperand;

/// The arrays that a struct has, as far as they are read.
struct StatedSample {
  const kiln_sample_args &args;
  const bool temperature = has(args.temperature, KILN_SAMPLE_HAS_TEMPERATURE);
  // The greatest logit wins, whatever else is given.
  const bool topK = temperature & has(args.top_k, KILN_SAMPLE_HAS_TOP_K);
  const bool topP = temperature & has(args.top_p, KILN_SAMPLE_HAS_TOP_P);
  const bool minP = temperature & has(args.min_p, KILN_SAMPLE_HAS_MIN_P);
  const bool repetition = has(args.repetition, KILN_SAMPLE_HAS_REPETITION);
  const bool frequency = has(args.frequency, KILN_SAMPLE_HAS_FREQUENCY);
  const bool presence = has(args.presence, KILN_SAMPLE_HAS_PRESENCE);
  const bool allowed = has(args.allowed, KILN_SAMPLE_HAS_ALLOWED);
  const bool logprobs = has(args.logprobs, KILN_SAMPLE_HAS_LOGPROBS);
  const bool lengths = has(args.lengths, KILN_SAMPLE_HAS_LENGTHS);
  const bool advances = (args.flags & KILN_SAMPLE_ADVANCE) != 0;
  const bool isInt64 = (args.flags & KILN_SAMPLE_INT64) != 0;
  const bool hasPenalties = repetition | frequency | presence;
  const bool hasPositions = temperature | advances;

private:
  KILN_INLINE bool has(const void *array, uint32_t flag) const {
    return (array != nullptr) | ((args.flags & flag) != 0);
  }
};

struct SampleVisit {
  using Args = kiln_sample_args;
  static constexpr int kFields = F::Count;
  static constexpr int kOperands = Operand::Count;
  static constexpr uint32_t kFlags =
      KILN_SAMPLE_INT64 | KILN_SAMPLE_JOINT | KILN_SAMPLE_ADVANCE |
      (2 * KILN_SAMPLE_HAS_LENGTHS - KILN_SAMPLE_HAS_TEMPERATURE);

  template <class Visitor>
  KILN_INLINE static void visit(const Args &args, Visitor &v) {
    if (!v.begin(args, "kiln_sample_args", kFlags))
      return;
    const StatedSample s{args};
    visitProblem(s, v);
    v.isEmpty(args.rows == 0);
    v.operand({.name = "logits",
               .given = args.logits,
               .index = Operand::Logits,
               .type = args.logits.type,
               .typeOf = "logits",
               .rowLength = args.vocab,
               .field = F::LdX});
    visitInputs(s, v);
    visitHistory(s, v);
    visitOutputs(s, v);
    v.scalar({.name = "scale",
              .value = args.scale,
              .field = F::Scale,
              .index = SampleScalar::Scale});
    v.require(args.scale != 0, ErrorCode::InvalidArgument,
              "scale is 0: without a factor it is 1");
    v.scalar({.name = "softcap",
              .value = args.softcap,
              .field = F::Softcap,
              .index = SampleScalar::Softcap,
              .isUsed = args.softcap != 0,
              .least = 0});
    v.alignment(F::Align);
  }

  template <class Visitor>
  KILN_INLINE static void visitProblem(const StatedSample &s, Visitor &v) {
    const Args &args = s.args;
    v.number(F::Rows, "rows", args.rows);
    v.number(F::Vocab, "vocab", args.vocab);
    v.type(F::DType, "logits.type", args.logits.type, args.logits.type);
    v.number(F::Temperature, "temperature", s.temperature);
    v.number(F::TopK, "top_k", s.topK);
    v.number(F::TopP, "top_p", s.topP);
    v.number(F::MinP, "min_p", s.minP);
    v.number(F::Joint, "joint",
             s.topK & s.topP & ((args.flags & KILN_SAMPLE_JOINT) != 0));
    v.number(F::Repetition, "repetition", s.repetition);
    v.number(F::Frequency, "frequency", s.frequency);
    v.number(F::Presence, "presence", s.presence);
    v.number(F::Allowed, "allowed", s.allowed);
    v.number(F::Logprobs, "logprobs", s.logprobs);
    v.number(F::Top, "top_count", args.top_count);
    v.number(F::Int64, "int64", s.isInt64);
    v.number(F::Advance, "advance", s.advances);
    v.number(F::Lengths, "lengths", s.lengths);
  }

  /// Values that each row has.
  template <class Visitor>
  KILN_INLINE static void visitInputs(const StatedSample &s, Visitor &v) {
    const Args &args = s.args;
    constexpr uint64_t kSeedBytes = 8;
    array(v, s.temperature, "temperature", args.temperature,
          Operand::Temperature);
    array(v, s.topK, "top_k", args.top_k, Operand::TopK);
    array(v, s.topP, "top_p", args.top_p, Operand::TopP);
    array(v, s.minP, "min_p", args.min_p, Operand::MinP);
    array(v, s.temperature, "seeds", args.seeds, Operand::Seeds, kSeedBytes);
    array(v, s.hasPositions, "positions", args.positions, Operand::Positions, 4,
          1, s.advances);
    array(v, s.lengths, "lengths", args.lengths, Operand::Lengths, 4, 1,
          s.advances);
    array(v, s.allowed, "allowed", args.allowed, Operand::Allowed, 4,
          wordsOf(args.vocab));
  }

  template <class Visitor>
  KILN_INLINE static void visitHistory(const StatedSample &s, Visitor &v) {
    const Args &args = s.args;
    array(v, s.repetition, "repetition", args.repetition, Operand::Repetition);
    array(v, s.frequency, "frequency", args.frequency, Operand::Frequency);
    array(v, s.presence, "presence", args.presence, Operand::Presence);
    if (!s.hasPenalties) {
      v.absent(F::History);
      return;
    }
    v.require(args.history_count > 0, ErrorCode::InvalidArgument,
              "history_count is {}, with a penalty: it is the number of "
              "elements that history has room for",
              args.history_count);
    v.derived(F::History, "history_count", args.history_count,
              usualHistory(args.rows));
    array(v, true, "history", args.history, Operand::History, 4,
          args.history_count);
    array(v, true, "history_begins", args.history_begins,
          Operand::HistoryBegins);
    array(v, true, "history_ends", args.history_ends, Operand::HistoryEnds);
    array(v, true, "prompt_lengths", args.prompt_lengths,
          Operand::PromptLengths);
  }

  template <class Visitor>
  KILN_INLINE static void visitOutputs(const StatedSample &s, Visitor &v) {
    const Args &args = s.args;
    const uint64_t tokenBytes = s.isInt64 ? 8 : 4;
    array(v, true, "tokens", args.tokens, Operand::Tokens, tokenBytes, 1, true);
    array(v, s.logprobs, "logprobs", args.logprobs, Operand::Logprobs, 4, 1,
          true);
    const bool hasTop = args.top_count > 0;
    array(v, hasTop, "top_tokens", args.top_tokens, Operand::TopTokens,
          tokenBytes, args.top_count, true);
    array(v, hasTop, "top_logprobs", args.top_logprobs, Operand::TopLogprobs, 4,
          args.top_count, true);
  }

private:
  template <class Visitor>
  KILN_INLINE static void array(Visitor &v, bool isThere, const char *name,
                                const void *address, int index,
                                uint64_t elementBytes = 4,
                                int64_t rowLength = 1, bool isWritten = false) {
    if (isThere)
      v.array({.name = name,
               .address = address,
               .index = index,
               .elementBytes = elementBytes,
               .rowLength = rowLength,
               .isWritten = isWritten});
  }

  /// Words of a row of `allowed`, of an unchecked number of tokens.
  static constexpr int64_t wordsOf(int64_t vocab) {
    return static_cast<int64_t>((static_cast<uint64_t>(vocab) + 31) / 32);
  }
};

} // namespace

constexpr CallReader kSampleCall =
    makeCallReader<SampleVisit>(KILN_FAMILY_SAMPLE);

} // namespace kiln
