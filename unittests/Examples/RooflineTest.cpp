#include "llama/Roofline.h"

#include <doctest/doctest.h>

using namespace llama;

namespace {
/// A sequence of \p length tokens, the last \p queries of which run.
ScheduledSequence sequenceOf(int64_t queries, int64_t length) {
  ScheduledSequence sequence;
  sequence.tokens = {nullptr, queries};
  sequence.firstPosition = length - queries;
  sequence.samples = true;
  return sequence;
}

constexpr double kMatrices = 15'009'316'864; // bytes of Llama 3 8B
constexpr double kHead = 2.0 * 128'256 * 4096;
constexpr double kTokenBytes = 131'072;
} // namespace

TEST_CASE("a step that decodes reads its weights, and each sequence's keys") {
  const ModelConfig model = presetConfig("llama-3-8b");
  const StepCosts costs = stepCosts(model, planWeights(model), CacheType::Bf16);
  Step step;
  step.decodes = {sequenceOf(1, 1000), sequenceOf(1, 500)};
  step.tokens = step.sampled = 2;
  const StepWork work = workOf(model, costs, step);
  CHECK(work.isDecode);
  CHECK(work.bytes == kMatrices + 1500 * kTokenBytes);
  CHECK(work.bytes == decodeBytes(costs, 2, 750));
  // Two operations an element of 2 bytes; four an element of Q and a key.
  CHECK(work.flops == 2 * kMatrices + 4 * 32.0 * 4096 * 1500);
}

TEST_CASE("a step with a prefill computes the head for its samples alone") {
  const ModelConfig model = presetConfig("llama-3-8b");
  const StepCosts costs = stepCosts(model, planWeights(model), CacheType::Bf16);
  Step step;
  step.prefills = {sequenceOf(512, 8192)};
  step.tokens = 512;
  StepWork work = workOf(model, costs, step);
  CHECK_FALSE(work.isDecode);
  CHECK(work.bytes == kMatrices - kHead + 8192 * kTokenBytes);
  const double pairs = 512 * 8192.0 - 512 * 511 / 2.0;
  CHECK(work.flops ==
        doctest::Approx(512 * (kMatrices - kHead) + 4 * 32.0 * 4096 * pairs));
  step.sampled = 1;
  const StepWork sampled = workOf(model, costs, step);
  CHECK(sampled.bytes - work.bytes == kHead);
  CHECK(sampled.flops - work.flops == doctest::Approx(kHead));
}

TEST_CASE("keys behind a window are neither read nor multiplied") {
  const ModelConfig model = presetConfig("gpt-oss-20b"); // 24 layers, each
  // other with a window of 128
  const StepCosts costs = stepCosts(model, planWeights(model), CacheType::Bf16);
  const double keyBytes = 2 * 2.0 * 8 * 64, pairFlops = 4.0 * 64 * 64;
  CHECK(costs.keyBytes == keyBytes);
  Step step;
  const auto differenceOf = [&](const ScheduledSequence &sequence) {
    step.decodes = {};
    step.prefills = {};
    const StepWork without = workOf(model, costs, step);
    (sequence.tokens.size() == 1 ? step.decodes : step.prefills) = {sequence};
    StepWork with = workOf(model, costs, step);
    with.bytes -= without.bytes;
    with.flops -= without.flops;
    return with;
  };
  const StepWork decode = differenceOf(sequenceOf(1, 8192));
  CHECK(decode.bytes == 12 * (8192 + 128) * keyBytes);
  CHECK(decode.flops == 12 * (8192 + 128) * pairFlops);
  CHECK(decodeBytes(costs, 2, 8192) - decodeBytes(costs, 2, 0) ==
        2 * decode.bytes);
  // The first of 256 queries sees 129 keys less than the last.
  const StepWork prefill = differenceOf(sequenceOf(256, 8192));
  CHECK(prefill.bytes == 12 * (8192 + 128 + 255) * keyBytes);
  CHECK(prefill.flops ==
        12 * (256 * 8192.0 - 256 * 255 / 2 + 256 * 128) * pairFlops);
  // A prompt that begins inside the window.
  const StepWork first = differenceOf(sequenceOf(200, 200));
  CHECK(first.bytes == 24 * 200 * keyBytes);
  CHECK(first.flops ==
        12 * (200 * 201 / 2 + 128 * 129 / 2 + 72 * 128) * pairFlops);
}

TEST_CASE("a step reads the bytes that weights and cache are stored in") {
  const ModelConfig model = presetConfig("llama-3-8b");
  const auto costsOf = [&](WeightType type, bool hasE4m3Head) {
    WeightSource source;
    source.weights = type;
    source.hasE4m3Head = hasE4m3Head;
    return stepCosts(model, planWeights(model, source), CacheType::E4m3);
  };
  const double elements = (kMatrices - kHead) / 2;
  const StepCosts rows = costsOf(WeightType::E4m3Rows, true);
  CHECK(rows.layerElements == elements);
  // A scale of 4 bytes for each row.
  CHECK(rows.layerBytes == elements + 4.0 * 32 * (6144 + 2 * 4096 + 28'672));
  CHECK(rows.headBytes == kHead / 2 + 4.0 * 128'256);
  CHECK(rows.keyBytes == kTokenBytes / 2 / 32);
  const StepCosts groups = costsOf(WeightType::Int4, false);
  CHECK(groups.layerBytes == elements / 2 + 2 * elements / 128);
  CHECK(groups.headBytes == kHead);
}

TEST_CASE("a share is the least time over the time that was taken") {
  Roofline roofline;
  const DeviceRates rates{2, 10};          // bytes and flops a ns
  roofline.add({true, 4e6, 10e6}, 4);      // 2 ms by bytes, 1 by flops
  roofline.add({true, 2e6, 30e6}, 4);      // 1 ms by bytes, 3 by flops
  roofline.add({false, 2e6, 100e6}, 12.5); // 10 ms by flops
  const StepTotals decodes = roofline.totals(true, rates);
  CHECK(decodes.steps == 2);
  CHECK(decodes.leastMs == doctest::Approx(5));
  CHECK(decodes.share() == doctest::Approx(5.0 / 8));
  CHECK(decodes.bytesPerNs() == doctest::Approx(0.75));
  CHECK(roofline.totals(false, rates).share() == doctest::Approx(0.8));
  // Without a rate of products bytes alone count.
  CHECK(roofline.totals(true, {2, 0}).leastMs == doctest::Approx(3));
  CHECK(Roofline().totals(true, rates).share() == 0);
}
