//===- sample.hpp - the builder of sample over kiln.h ---------------------===//
//
// The class of kiln.hpp for the struct of sample.h, like those of problems.hpp.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_SAMPLE_HPP
#define KILN_SAMPLE_HPP

#include "kiln/problems.hpp"

namespace kiln {
inline namespace v1 {

static_assert(detail::Slots::kCount >= KILN_SAMPLE_SLOT_COUNT &&
                  KILN_SAMPLE_LOGITS == 0 && KILN_SAMPLE_TOKENS == 16,
              "every operand has its slot");

/// A token for each row of logits: a kiln_sample_args with setters, which is a
/// greedy choice until temperature() is called. Arrays have a value for each
/// row and are in device memory. Addresses may be null where the problem is
/// only described: a setter says that the array is there.
class Sample {
public:
  static constexpr kiln_family kFamily = KILN_FAMILY_SAMPLE;
  static constexpr auto kLaunch = &kiln_sample;

  /// Logits have \p type: bf16, fp16 or fp32.
  Sample(kiln_dtype type, int64_t rows, int64_t vocab) noexcept {
    values.rows = rows;
    values.vocab = vocab;
    values.logits.type = type;
  }

  Sample &logits(const void *data, int64_t leadingDim = 0) noexcept {
    detail::place(values.logits, data, leadingDim);
    return *this;
  }
  /// int32 tokens; topTokens() have the same type.
  Sample &tokens(int32_t *data) noexcept {
    values.tokens = data;
    return *this;
  }
  Sample &tokens(int64_t *data) noexcept {
    values.tokens = data;
    values.flags |= KILN_SAMPLE_INT64;
    return *this;
  }

  /// A factor of the logits, and a cap above 0 behind it.
  Sample &scale(double factor) noexcept { return set(values.scale, factor); }
  Sample &softcap(double cap) noexcept { return set(values.softcap, cap); }
  /// Tokens whose bit is clear are not chosen: [rows][ceil(vocab / 32)].
  Sample &allowed(const uint32_t *bits) noexcept {
    return set(values.allowed, bits, KILN_SAMPLE_HAS_ALLOWED);
  }

  /// Tokens are drawn where the temperature is above 0. The noise is a function
  /// of seed, position and token.
  Sample &temperature(const float *each, const uint64_t *seeds,
                      int32_t *positions) noexcept {
    values.seeds = seeds;
    values.positions = positions;
    return set(values.temperature, each, KILN_SAMPLE_HAS_TEMPERATURE);
  }
  Sample &topK(const int32_t *each) noexcept {
    return set(values.top_k, each, KILN_SAMPLE_HAS_TOP_K);
  }
  Sample &topP(const float *each) noexcept {
    return set(values.top_p, each, KILN_SAMPLE_HAS_TOP_P);
  }
  Sample &minP(const float *each) noexcept {
    return set(values.min_p, each, KILN_SAMPLE_HAS_MIN_P);
  }
  /// topP() is a share of all mass, not of what topK() leaves.
  Sample &joint(bool value = true) noexcept {
    return flag(KILN_SAMPLE_JOINT, value);
  }

  /// The tokens of each row, which penalties read: row r's are those from
  /// begins[r] to before ends[r] of \p count tokens, of which the first
  /// promptLengths[r] are the prompt's.
  Sample &history(const int32_t *tokens, int64_t count, const int32_t *begins,
                  const int32_t *ends, const int32_t *promptLengths) noexcept {
    values.history = tokens;
    values.history_count = count;
    values.history_begins = begins;
    values.history_ends = ends;
    values.prompt_lengths = promptLengths;
    return *this;
  }
  Sample &repetition(const float *each) noexcept {
    return set(values.repetition, each, KILN_SAMPLE_HAS_REPETITION);
  }
  Sample &frequency(const float *each) noexcept {
    return set(values.frequency, each, KILN_SAMPLE_HAS_FREQUENCY);
  }
  Sample &presence(const float *each) noexcept {
    return set(values.presence, each, KILN_SAMPLE_HAS_PRESENCE);
  }

  /// The log probabilities of the tokens.
  Sample &logprobs(float *each) noexcept {
    return set(values.logprobs, each, KILN_SAMPLE_HAS_LOGPROBS);
  }
  /// The \p count most probable tokens, and their log probabilities:
  /// [rows][count].
  Sample &top(int64_t count, void *topTokens, float *topLogprobs) noexcept {
    values.top_count = count;
    values.top_tokens = topTokens;
    values.top_logprobs = topLogprobs;
    return *this;
  }

  /// Increases \p positions by 1, which are those of temperature(), after they
  /// were read.
  Sample &advance(int32_t *positions) noexcept {
    values.positions = positions;
    return flag(KILN_SAMPLE_ADVANCE, true);
  }
  /// The same, and \p lengths as well.
  Sample &advance(int32_t *positions, int32_t *lengths) noexcept {
    advance(positions);
    return set(values.lengths, lengths, KILN_SAMPLE_HAS_LENGTHS);
  }
  /// The launch may begin before the kernel ahead of it has ended.
  Sample &dependent(bool value = true) noexcept {
    detail::setDependent(values.flags, value);
    return *this;
  }

  /// Valid while this object lives and is not changed.
  const kiln_sample_args &get() const noexcept { return values; }
  kiln_sample_args &get() noexcept { return values; }

  void fill(detail::Slots &slots) const noexcept {
    auto put = [&](int slot, const void *data) {
      slots.operands[static_cast<size_t>(slot)] = const_cast<void *>(data);
    };
    put(KILN_SAMPLE_LOGITS, values.logits.data);
    put(KILN_SAMPLE_TEMPERATURE, values.temperature);
    put(KILN_SAMPLE_TOP_K, values.top_k);
    put(KILN_SAMPLE_TOP_P, values.top_p);
    put(KILN_SAMPLE_MIN_P, values.min_p);
    put(KILN_SAMPLE_REPETITION, values.repetition);
    put(KILN_SAMPLE_FREQUENCY, values.frequency);
    put(KILN_SAMPLE_PRESENCE, values.presence);
    put(KILN_SAMPLE_SEEDS, values.seeds);
    put(KILN_SAMPLE_POSITIONS, values.positions);
    put(KILN_SAMPLE_LENGTHS, values.lengths);
    put(KILN_SAMPLE_HISTORY, values.history);
    put(KILN_SAMPLE_HISTORY_BEGINS, values.history_begins);
    put(KILN_SAMPLE_HISTORY_ENDS, values.history_ends);
    put(KILN_SAMPLE_PROMPT_LENGTHS, values.prompt_lengths);
    put(KILN_SAMPLE_ALLOWED, values.allowed);
    put(KILN_SAMPLE_TOKENS, values.tokens);
    put(KILN_SAMPLE_LOGPROBS, values.logprobs);
    put(KILN_SAMPLE_TOP_TOKENS, values.top_tokens);
    put(KILN_SAMPLE_TOP_LOGPROBS, values.top_logprobs);
    slots.scalars = {values.scale, values.softcap};
    slots.scalarCount = 2;
  }

private:
  template <class T> Sample &set(T &member, T value) noexcept {
    member = value;
    return *this;
  }
  template <class T>
  Sample &set(T *&member, T *value, kiln_sample_flag hasIt) noexcept {
    member = value;
    return flag(hasIt, true);
  }
  Sample &flag(kiln_sample_flag which, bool value) noexcept {
    const auto bit = static_cast<uint32_t>(which);
    values.flags = value ? values.flags | bit : values.flags & ~bit;
    return *this;
  }

  kiln_sample_args values = kiln_sample_args_init();
};

} // namespace v1
} // namespace kiln

#endif // KILN_SAMPLE_HPP
