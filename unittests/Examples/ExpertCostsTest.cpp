#include "llama/MemoryNeeds.h"
#include "llama/Roofline.h"
#include "llama/WeightPlan.h"

#include <doctest/doctest.h>

using namespace llama;

namespace {

constexpr double kExperts = 2.0 * 48 * 128 * 3 * 768 * 2048, // bytes
    kDense = 2.0 * 48 * 2048 * (9216 + 128), kHead = 2.0 * 151'936 * 2048,
                 kTokenBytes = 4.0 * 48 * 512;

StepCosts costsOf(const ModelConfig &model) {
  return stepCosts(model, planWeights(model), CacheType::Bf16);
}

} // namespace

TEST_CASE("each token has rows of all the experts that it chooses") {
  const ModelConfig model = presetConfig("qwen3-30b-a3b");
  CHECK(innerRow(model) == 8 * 768);
  CHECK(innerRow(presetConfig("tiny-qwen3-moe")) == 4 * 64);
  CHECK(innerRow(presetConfig("tiny")) == 160);
  EngineRoom room;
  room.tokens = 1024;
  room.sequences = 16;
  room.pageTokens = 64;
  const MemoryNeeds needs = memoryNeeds(model, planWeights(model), room);
  CHECK(needs.activations == 2 * 1024 * (2 * 2048 + 9216 + 8 * 768 + 8 * 2048) +
                                 4 * 1024 * (128 + 2 * 8) + 2 * 16 * 2048 +
                                 4 * 16 * 151'936);
  CHECK(double(needs.weights) >= kExperts + kDense + 2 * kHead);
  CHECK(double(needs.weights) < (kExperts + kDense + 2 * kHead) * 1.001);
}

TEST_CASE("a step reads the experts that its tokens are expected to choose") {
  const ModelConfig model = presetConfig("qwen3-30b-a3b");
  const StepCosts costs = costsOf(model);
  CHECK(costs.expertBytes == kExperts);
  CHECK(costs.layerBytes == kDense);
  // Of 128 experts a token chooses 8, two tokens 15.5 in the mean.
  CHECK(decodeBytes(costs, 1, 0) ==
        doctest::Approx(kDense + kHead + kExperts / 16));
  CHECK(decodeBytes(costs, 2, 0) ==
        doctest::Approx(kDense + kHead + kExperts * 15.5 / 128));
  CHECK(decodeBytes(costs, 1000, 0) ==
        doctest::Approx(kDense + kHead + kExperts));
  // Operations grow with the tokens, not with the experts that are read.
  ScheduledSequence sequence;
  sequence.tokens = {nullptr, 1};
  sequence.samples = true;
  Step step;
  step.decodes = {sequence, sequence};
  step.tokens = step.sampled = 2;
  const StepWork work = workOf(model, costs, step);
  CHECK(work.bytes == doctest::Approx(decodeBytes(costs, 2, 1)));
  CHECK(decodeBytes(costs, 2, 1) - decodeBytes(costs, 2, 0) ==
        doctest::Approx(2 * kTokenBytes));
  CHECK(work.flops == doctest::Approx(2 * (kDense + kHead + kExperts / 16) +
                                      4 * 48.0 * 4096 * 2));
}

TEST_CASE("layers without experts are read whole") {
  const StepCosts costs = costsOf(presetConfig("tiny-qwen3-moe"));
  // Two of three layers have experts.
  CHECK(costs.expertElements == 2 * 16 * 3 * 64 * 128);
  CHECK(costs.layerElements ==
        3 * 128 * (2 * 256 + 2 * 128) + 2 * 16 * 128 + 3 * 160 * 128);
  CHECK(costs.chosenShare == 0.25);
  CHECK(costsOf(presetConfig("tiny")).chosenShare == 0);
}
