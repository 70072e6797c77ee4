//===- RopeFrequencies.cpp - the angles of rotary positions ---------------===//
#include "RopeFrequencies.h"

#include <algorithm>
#include <cmath>

namespace llama {

namespace {

constexpr double kPi = 3.14159265358979323846;

/// base^(-2j / r) for each pair j of r rotary dimensions.
std::vector<double> powersOf(double base, int64_t rotaryDim) {
  std::vector<double> inverse;
  for (int64_t j = 0; j < rotaryDim / 2; ++j)
    inverse.push_back(std::pow(base, -2.0 * static_cast<double>(j) /
                                         static_cast<double>(rotaryDim)));
  return inverse;
}

/// NTK-aware: the base grows with the length, so that the slowest pair is
/// stretched by the factor and the fastest is not.
double dynamicBase(const RopeConfig &rope, int64_t rotaryDim, int64_t length) {
  const auto trained = static_cast<double>(rope.originalPositions);
  const double longest = std::max(static_cast<double>(length), trained);
  const double stretch = rope.factor * longest / trained - (rope.factor - 1);
  const auto r = static_cast<double>(rotaryDim);
  return rope.theta * std::pow(stretch, r / (r - 2));
}

/// Long waves are stretched by the factor, short ones kept, and those between
/// blended.
double llama3Frequency(const RopeConfig &rope, double frequency) {
  const auto trained = static_cast<double>(rope.originalPositions);
  const double wavelength = 2 * kPi / frequency;
  if (wavelength > trained / rope.lowFreqFactor)
    return frequency / rope.factor;
  if (wavelength < trained / rope.highFreqFactor)
    return frequency;
  const double kept = (trained / wavelength - rope.lowFreqFactor) /
                      (rope.highFreqFactor - rope.lowFreqFactor);
  return (1 - kept) * frequency / rope.factor + kept * frequency;
}

/// The pair, as a real number, that turns \p turns times within the positions
/// of the training.
double yarnPair(const RopeConfig &rope, int64_t rotaryDim, double turns) {
  return static_cast<double>(rotaryDim) *
         std::log(static_cast<double>(rope.originalPositions) /
                  (turns * 2 * kPi)) /
         (2 * std::log(rope.theta));
}

void scaleByYarn(const RopeConfig &rope, int64_t rotaryDim,
                 std::vector<double> &inverse) {
  double low = yarnPair(rope, rotaryDim, rope.betaFast);
  double high = yarnPair(rope, rotaryDim, rope.betaSlow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(rotaryDim - 1));
  if (low == high)
    high += 0.001;
  for (size_t j = 0; j < inverse.size(); ++j) {
    const double ramp =
        std::clamp((static_cast<double>(j) - low) / (high - low), 0.0, 1.0);
    inverse[j] *= (1 - ramp) + ramp / rope.factor;
  }
}

double yarnAttentionFactor(const RopeConfig &rope) {
  const auto magnitude = [&](double mscale) {
    return rope.factor <= 1 ? 1 : 0.1 * mscale * std::log(rope.factor) + 1;
  };
  if (rope.attentionFactor)
    return *rope.attentionFactor;
  // Zero counts as absent, as in transformers.
  if (rope.mscale.value_or(0) != 0 && rope.mscaleAllDim.value_or(0) != 0)
    return magnitude(*rope.mscale) / magnitude(*rope.mscaleAllDim);
  return magnitude(1);
}

double longropeAttentionFactor(const RopeConfig &rope) {
  if (rope.attentionFactor)
    return *rope.attentionFactor;
  // One trained position has no logarithm to divide by.
  if (rope.factor <= 1 || rope.originalPositions <= 1)
    return 1;
  return std::sqrt(1 + std::log(rope.factor) / std::log(static_cast<double>(
                                                   rope.originalPositions)));
}

} // namespace

bool ropeDependsOnLength(const RopeConfig &rope) {
  return rope.type == RopeType::Dynamic || rope.type == RopeType::Longrope;
}

RopeFrequencies ropeFrequencies(const ModelConfig &model, int64_t length) {
  const RopeConfig &rope = model.rope;
  RopeFrequencies result;
  result.inverse = powersOf(rope.type == RopeType::Dynamic
                                ? dynamicBase(rope, model.rotaryDim, length)
                                : rope.theta,
                            model.rotaryDim);
  switch (rope.type) {
  case RopeType::Default:
  case RopeType::Dynamic:
    break;
  case RopeType::Linear:
    for (double &frequency : result.inverse)
      frequency /= rope.factor;
    break;
  case RopeType::Llama3:
    for (double &frequency : result.inverse)
      frequency = llama3Frequency(rope, frequency);
    break;
  case RopeType::Yarn:
    scaleByYarn(rope, model.rotaryDim, result.inverse);
    result.attentionFactor = yarnAttentionFactor(rope);
    break;
  case RopeType::Longrope: {
    const auto &factors =
        length > rope.originalPositions ? rope.longFactor : rope.shortFactor;
    for (size_t j = 0; j < result.inverse.size(); ++j)
      result.inverse[j] /= factors[j];
    result.attentionFactor = longropeAttentionFactor(rope);
    break;
  }
  }
  return result;
}

} // namespace llama
