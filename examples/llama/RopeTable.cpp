//===- RopeTable.cpp ------------------------------------------------------===//
#include "RopeTable.h"

#include "Error.h"

#include <kiln/rope.h>

#include <cmath>

namespace llama {

static kiln_rope_scaling scalingOf(RopeType type) {
  switch (type) {
  case RopeType::Default:
    return KILN_ROPE_SCALING_DEFAULT;
  case RopeType::Linear:
    return KILN_ROPE_SCALING_LINEAR;
  case RopeType::Dynamic:
    return KILN_ROPE_SCALING_DYNAMIC;
  case RopeType::Llama3:
    return KILN_ROPE_SCALING_LLAMA3;
  case RopeType::Yarn:
    return KILN_ROPE_SCALING_YARN;
  case RopeType::Longrope:
    return KILN_ROPE_SCALING_LONGROPE;
  }
  return KILN_ROPE_SCALING_DEFAULT;
}

/// The factor that the config gives; 0 leaves it to the scaling.
static double attentionFactor(const RopeConfig &rope) {
  if (rope.attentionFactor)
    return *rope.attentionFactor;
  // Zero counts as absent, as in transformers.
  if (rope.type != RopeType::Yarn || rope.mscale.value_or(0) == 0 ||
      rope.mscaleAllDim.value_or(0) == 0)
    return 0;
  const auto magnitude = [&](double mscale) {
    return rope.factor <= 1 ? 1 : 0.1 * mscale * std::log(rope.factor) + 1;
  };
  return magnitude(*rope.mscale) / magnitude(*rope.mscaleAllDim);
}

std::vector<float> ropeTable(const ModelConfig &model, int64_t rows) {
  const RopeConfig &rope = model.rope;
  kiln_rope_table_args args = KILN_INIT(kiln_rope_table_args);
  args.scaling = scalingOf(rope.type);
  args.rows = rows;
  args.rotary_dim = model.rotaryDim;
  args.base = rope.theta;
  args.factor = rope.factor;
  args.original_length = rope.originalPositions;
  args.length = rows;
  args.low_frequency_factor = rope.lowFreqFactor;
  args.high_frequency_factor = rope.highFreqFactor;
  args.beta_fast = rope.betaFast;
  args.beta_slow = rope.betaSlow;
  args.keeps_fractions = !rope.truncate;
  const bool isLong = rows > rope.originalPositions;
  args.factors = (isLong ? rope.longFactor : rope.shortFactor).data();
  args.attention_factor = attentionFactor(rope);
  std::vector<float> table(static_cast<size_t>(rows * model.rotaryDim));
  if (kiln_rope_table(&args, table.data()) != KILN_SUCCESS)
    throw Error("no table of angles follows from the rope of the config");
  return table;
}

} // namespace llama
