//===- RopeTable.cpp - tables of cosines and sines ------------------------===//
//
// Frequencies of models, as their configs scale them. The formulas are those of
// the papers, with the conventions of Hugging Face's modeling_rope_utils.py:
// NTK by length (bloc97, 2023), Llama 3.1 (Meta, 2024), YaRN (Peng et al.,
// 2023), LongRoPE (Ding et al., 2024).
//
//===----------------------------------------------------------------------===//
#include "Call/StructAccess.h"
#include "Families/HeadTensor.h"
#include "Families/ProblemFields.h"

#include <cmath>
#include <numbers>
#include <vector>

using namespace kiln;

namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

/// The frequencies of a model.
class RopeFrequencies {
public:
  explicit RopeFrequencies(const kiln_rope_table_args &args) : args(args) {}

  /// The frequency of pair \p j.
  double at(int64_t j) const {
    const double w = plain(j);
    switch (args.scaling) {
    case KILN_ROPE_SCALING_LINEAR:
      return w / args.factor;
    case KILN_ROPE_SCALING_LLAMA3:
      return llama3(w);
    case KILN_ROPE_SCALING_YARN:
      return yarn(w, j);
    case KILN_ROPE_SCALING_LONGROPE:
      return w / args.factors[j];
    default:
      return w;
    }
  }

  /// The factor of cosines and sines.
  double attentionFactor() const {
    if (args.attention_factor != 0)
      return args.attention_factor;
    constexpr double kYarnSlope = 0.1;
    if (args.scaling == KILN_ROPE_SCALING_YARN && args.factor > 1)
      return kYarnSlope * std::log(args.factor) + 1;
    if (args.scaling == KILN_ROPE_SCALING_LONGROPE && args.factor > 1)
      return std::sqrt(1 + std::log(args.factor) /
                               std::log(double(args.original_length)));
    return 1;
  }

private:
  double plain(int64_t j) const {
    return std::pow(base(), -2.0 * double(j) / double(args.rotary_dim));
  }

  /// Sequences beyond the original length stretch the base.
  double base() const {
    const double original = double(args.original_length);
    if (args.scaling != KILN_ROPE_SCALING_DYNAMIC ||
        args.length <= args.original_length || args.rotary_dim <= 2)
      return args.base;
    const double stretch =
        args.factor * double(args.length) / original - (args.factor - 1);
    const double dim = double(args.rotary_dim);
    return args.base * std::pow(stretch, dim / (dim - 2));
  }

  double llama3(double w) const {
    const double length = kTwoPi / w, original = double(args.original_length);
    const double low = args.low_frequency_factor,
                 high = args.high_frequency_factor;
    if (length > original / low)
      return w / args.factor;
    if (length < original / high)
      return w;
    const double kept = (original / length - low) / (high - low);
    return (1 - kept) * w / args.factor + kept * w;
  }

  /// The pair that turns \p rotations times over the original length.
  double pairOfRotations(double rotations) const {
    return double(args.rotary_dim) *
           std::log(double(args.original_length) / (rotations * kTwoPi)) /
           (2 * std::log(args.base));
  }

  double yarn(double w, int64_t j) const {
    constexpr double kBetaFast = 32, kBetaSlow = 1, kLeastRamp = 0.001;
    double low =
        pairOfRotations(args.beta_fast != 0 ? args.beta_fast : kBetaFast);
    double high =
        pairOfRotations(args.beta_slow != 0 ? args.beta_slow : kBetaSlow);
    if (args.keeps_fractions == 0) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, double(args.rotary_dim - 1));
    if (low == high)
      high += kLeastRamp;
    const double ramp = std::clamp((double(j) - low) / (high - low), 0.0, 1.0);
    return w * (1 - ramp) + w / args.factor * ramp;
  }

  const kiln_rope_table_args &args;
};

} // namespace

static bool isFactor(double value) { return std::isfinite(value) && value > 0; }

/// Whether the fields that the scaling reads are set.
static bool hasFields(const kiln_rope_table_args &args) {
  switch (args.scaling) {
  case KILN_ROPE_SCALING_DEFAULT:
    return true;
  case KILN_ROPE_SCALING_LINEAR:
    return isFactor(args.factor);
  case KILN_ROPE_SCALING_DYNAMIC:
    return isFactor(args.factor) && args.original_length > 0;
  case KILN_ROPE_SCALING_LLAMA3:
    return isFactor(args.factor) && args.original_length > 0 &&
           isFactor(args.low_frequency_factor) &&
           std::isfinite(args.high_frequency_factor) &&
           args.high_frequency_factor > args.low_frequency_factor;
  case KILN_ROPE_SCALING_YARN:
    return isFactor(args.factor) && args.original_length > 0 &&
           args.beta_fast >= 0 && args.beta_slow >= 0;
  case KILN_ROPE_SCALING_LONGROPE: {
    if (!args.factors || args.original_length <= 1)
      return false;
    const int64_t pairs = args.rotary_dim / 2;
    return std::all_of(args.factors, args.factors + pairs, isFactor);
  }
  default:
    return false;
  }
}

static bool isGoodTable(const kiln_rope_table_args &args) {
  return hasKnownSize(args) && isZero(args.reserved, sizeof(args.reserved)) &&
         args.reserved0 == 0 && args.rows >= 0 && args.rows <= kMaxExtent &&
         args.rotary_dim > 0 && args.rotary_dim <= kMaxHeadDim &&
         args.rotary_dim % 2 == 0 && std::isfinite(args.base) &&
         args.base > 1 && std::isfinite(args.attention_factor) &&
         args.attention_factor >= 0 && hasFields(args);
}

kiln_status kiln_rope_table(const kiln_rope_table_args *args,
                            float *table) noexcept {
  if (!args || !isGoodTable(*args) || (!table && args->rows > 0))
    return KILN_INVALID_ARGUMENT;
  const RopeFrequencies frequencies(*args);
  const int64_t pairs = args->rotary_dim / 2;
  const double factor = frequencies.attentionFactor();
  for (int64_t j = 0; j < pairs; ++j) {
    const double w = frequencies.at(j);
    for (int64_t row = 0; row < args->rows; ++row) {
      const double angle = double(row) * w;
      float *at = table + row * args->rotary_dim + j;
      at[0] = static_cast<float>(std::cos(angle) * factor);
      at[pairs] = static_cast<float>(std::sin(angle) * factor);
    }
  }
  return KILN_SUCCESS;
}
