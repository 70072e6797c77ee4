//===- moe.hpp - the builders of MoE over kiln.h --------------------------===//
//
// The classes of kiln.hpp for the structs of moe.h, like those of problems.hpp.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_MOE_HPP
#define KILN_MOE_HPP

#include "kiln/problems.hpp"

#include <cstddef>
#include <cstdint>

namespace kiln {
inline namespace v1 {

static_assert(detail::Slots::kCount >= KILN_ROUTE_SLOT_COUNT &&
                  detail::Slots::kCount >= KILN_COMBINE_SLOT_COUNT &&
                  KILN_ROUTE_LOGITS == 0 && KILN_COMBINE_X == 0,
              "every operand has its slot");

/// The experts of each token, and all choices sorted by expert: a
/// kiln_route_args with setters, of a softmax over all experts until it is told
/// otherwise. Addresses are in device memory, and may be null where the problem
/// is only described: a setter says that the array is there.
class Route {
public:
  static constexpr kiln_family kFamily = KILN_FAMILY_ROUTE;
  static constexpr auto kLaunch = &kiln_route;

  /// Logits have \p type: bf16, fp16 or fp32.
  Route(kiln_dtype type, int64_t tokens, int64_t experts,
        int64_t topK) noexcept {
    values.tokens = tokens;
    values.experts = experts;
    values.top_k = topK;
    values.logits.type = type;
  }

  Route &logits(const void *data, int64_t leadingDim = 0) noexcept {
    detail::place(values.logits, data, leadingDim);
    return *this;
  }
  /// The arrays that grouped products take: the choice of each row, the row
  /// behind each local expert, the weight of each choice.
  Route &rows(int32_t *index, int32_t *ends, float *weights) noexcept {
    values.index = index;
    values.ends = ends;
    values.weights = weights;
    return *this;
  }
  /// The experts of each token, [tokens][topK].
  Route &chosen(int32_t *data) noexcept {
    return set(values.chosen, data, KILN_ROUTE_HAS_CHOSEN);
  }
  /// How many rows each local expert has.
  Route &sizes(int32_t *data) noexcept {
    return set(values.sizes, data, KILN_ROUTE_HAS_SIZES);
  }

  /// Scores are sigmoids of the logits.
  Route &sigmoid() noexcept {
    values.score = KILN_SCORE_SIGMOID;
    return *this;
  }
  /// Weights of a token are divided by the sum of its choices' scores, local or
  /// not, before scale().
  Route &renormalize(bool value = true) noexcept {
    return flag(KILN_ROUTE_RENORMALIZE, value);
  }
  Route &scale(double factor) noexcept {
    values.scale = factor;
    return *this;
  }
  /// Added to the logits: a value for each expert.
  Route &logitBias(const float *each) noexcept {
    return set(values.logit_bias, each, KILN_ROUTE_HAS_LOGIT_BIAS);
  }
  /// Added to the scores for the choice alone.
  Route &choiceBias(const float *each) noexcept {
    return set(values.choice_bias, each, KILN_ROUTE_HAS_CHOICE_BIAS);
  }
  /// Experts of the \p top best of \p count groups are chosen. A group counts
  /// as the sum of its two greatest, or as its greatest.
  Route &groups(int64_t count, int64_t top, bool byGreatest = false) noexcept {
    values.groups = count;
    values.top_groups = top;
    return flag(KILN_ROUTE_GROUP_MAX, byGreatest);
  }
  /// Only \p count experts from \p first on have rows.
  Route &localExperts(int64_t first, int64_t count) noexcept {
    values.first_expert = first;
    values.local_experts = count;
    return *this;
  }
  /// Groups of rows begin at multiples of \p rows.
  Route &align(int64_t rows) noexcept {
    values.align = rows;
    return *this;
  }
  /// Tokens from *\p count on have no rows.
  Route &tokenCount(const int32_t *count) noexcept {
    return set(values.token_count, count, KILN_ROUTE_HAS_TOKEN_COUNT);
  }
  /// The launch may begin before the kernel ahead of it has ended.
  Route &dependent(bool value = true) noexcept {
    detail::setDependent(values.flags, value);
    return *this;
  }

  /// Valid while this object lives and is not changed.
  const kiln_route_args &get() const noexcept { return values; }
  kiln_route_args &get() noexcept { return values; }

  void fill(detail::Slots &slots) const noexcept {
    auto put = [&](int slot, const void *data) {
      slots.operands[static_cast<size_t>(slot)] = const_cast<void *>(data);
    };
    put(KILN_ROUTE_LOGITS, values.logits.data);
    put(KILN_ROUTE_LOGIT_BIAS, values.logit_bias);
    put(KILN_ROUTE_CHOICE_BIAS, values.choice_bias);
    put(KILN_ROUTE_TOKEN_COUNT, values.token_count);
    put(KILN_ROUTE_INDEX, values.index);
    put(KILN_ROUTE_ENDS, values.ends);
    put(KILN_ROUTE_WEIGHTS, values.weights);
    put(KILN_ROUTE_CHOSEN, values.chosen);
    put(KILN_ROUTE_SIZES, values.sizes);
    slots.scalars[0] = values.scale;
    slots.scalarCount = 1;
  }

private:
  template <class T>
  Route &set(T *&member, T *value, kiln_route_flag hasIt) noexcept {
    member = value;
    return flag(hasIt, true);
  }
  Route &flag(kiln_route_flag which, bool value) noexcept {
    const auto bit = static_cast<uint32_t>(which);
    values.flags = value ? values.flags | bit : values.flags & ~bit;
    return *this;
  }

  kiln_route_args values = kiln_route_args_init();
};

/// The sum of the rows of each token's choices: a kiln_combine_args with
/// setters. Other operands have x's type.
class Combine {
public:
  static constexpr kiln_family kFamily = KILN_FAMILY_COMBINE;
  static constexpr auto kLaunch = &kiln_combine;

  /// x has tokens * topK rows of \p type: bf16, fp16 or fp32.
  Combine(kiln_dtype type, int64_t tokens, int64_t cols,
          int64_t topK) noexcept {
    values.tokens = tokens;
    values.cols = cols;
    values.top_k = topK;
    values.x.type = type;
  }

  Combine &x(const void *data, int64_t leadingDim = 0) noexcept {
    detail::place(values.x, data, leadingDim);
    return *this;
  }
  Combine &y(void *data, int64_t leadingDim = 0) noexcept {
    detail::place(values.y, data, leadingDim);
    return *this;
  }
  /// Weights of kiln_route: rows whose weight is 0 are not read. With \p apply
  /// rows are multiplied by them; otherwise they are weighted already.
  Combine &weights(const float *each, bool apply = false) noexcept {
    values.weights = each;
    values.flags |= KILN_COMBINE_HAS_WEIGHTS;
    const auto bit = static_cast<uint32_t>(KILN_COMBINE_APPLY_WEIGHTS);
    values.flags = apply ? values.flags | bit : values.flags & ~bit;
    return *this;
  }
  /// A row of each token that is added: the shared experts'.
  Combine &shared(const void *data, int64_t leadingDim = 0) noexcept {
    return optional(values.shared, data, leadingDim);
  }
  /// A row of each token that is added. With norm() the sum is stored to
  /// \p sum, which may be the residual; without it there is no \p sum.
  Combine &residual(const void *data, void *sum = nullptr,
                    int64_t leadingDim = 0,
                    int64_t sumLeadingDim = 0) noexcept {
    detail::place(values.residual_out, sum, sumLeadingDim);
    return optional(values.residual, data, leadingDim);
  }
  /// y is the RMSNorm of the sum.
  Combine &norm(const void *weight, double epsilon) noexcept {
    values.epsilon = epsilon;
    return optional(values.norm_weight, weight, 0);
  }
  /// The launch may begin before the kernel ahead of it has ended.
  Combine &dependent(bool value = true) noexcept {
    detail::setDependent(values.flags, value);
    return *this;
  }

  /// Valid while this object lives and is not changed.
  const kiln_combine_args &get() const noexcept { return values; }
  kiln_combine_args &get() noexcept { return values; }

  void fill(detail::Slots &slots) const noexcept {
    slots.operands[KILN_COMBINE_X] = values.x.data;
    slots.operands[KILN_COMBINE_Y] = values.y.data;
    slots.operands[KILN_COMBINE_SHARED] = values.shared.data;
    slots.operands[KILN_COMBINE_RESIDUAL] = values.residual.data;
    slots.operands[KILN_COMBINE_RESIDUAL_OUT] = values.residual_out.data;
    slots.operands[KILN_COMBINE_NORM_WEIGHT] = values.norm_weight.data;
    slots.operands[KILN_COMBINE_WEIGHTS] = const_cast<float *>(values.weights);
    slots.scalars[0] = values.epsilon;
    slots.scalarCount = 1;
  }

private:
  /// An operand is there when its type is set.
  Combine &optional(kiln_operand &operand, const void *data,
                    int64_t leadingDim) noexcept {
    operand.type = values.x.type;
    detail::place(operand, data, leadingDim);
    if (values.residual.type && values.norm_weight.type)
      values.residual_out.type = values.x.type;
    return *this;
  }

  kiln_combine_args values = kiln_combine_args_init();
};

} // namespace v1
} // namespace kiln

#endif // KILN_MOE_HPP
