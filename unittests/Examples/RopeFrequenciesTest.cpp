#include "llama/RopeFrequencies.h"

#include <doctest/doctest.h>

using namespace llama;

// The expected values come from the formulas of transformers'
// modeling_rope_utils.py, computed in Python's floats.

namespace {

ModelConfig modelOf(RopeType type, double theta, int64_t rotaryDim,
                    double factor = 1, int64_t originalPositions = 0) {
  ModelConfig model;
  model.rotaryDim = rotaryDim;
  model.rope.type = type;
  model.rope.theta = theta;
  model.rope.factor = factor;
  model.rope.originalPositions = originalPositions;
  return model;
}

doctest::Approx near(double value) {
  return doctest::Approx(value).epsilon(1e-13);
}

} // namespace

TEST_CASE("default and linear frequencies") {
  const auto plain = ropeFrequencies(modelOf(RopeType::Default, 1e4, 8), 1);
  CHECK(plain.attentionFactor == 1);
  REQUIRE(plain.inverse.size() == 4);
  CHECK(plain.inverse[0] == 1);
  CHECK(plain.inverse[1] == near(0.1));
  CHECK(plain.inverse[3] == near(0.001));
  const auto linear = ropeFrequencies(modelOf(RopeType::Linear, 1e4, 8, 4), 1);
  CHECK(linear.inverse[0] == 0.25);
  CHECK(linear.inverse[2] == near(0.0025));
}

TEST_CASE("llama3 keeps short waves, stretches long ones and blends between") {
  const auto frequencies =
      ropeFrequencies(modelOf(RopeType::Llama3, 5e5, 128, 8, 8192), 1);
  CHECK(frequencies.inverse[0] == 1);
  CHECK(frequencies.inverse[28] == near(0.003211445994752591));
  CHECK(frequencies.inverse[29] == near(0.002166570763503359));
  CHECK(frequencies.inverse[34] == near(0.0001785078127679964));
  CHECK(frequencies.inverse[35] == near(9.556212353964683e-05));
  CHECK(frequencies.inverse[63] == near(3.068925988914511e-07));
  CHECK(frequencies.attentionFactor == 1);
}

TEST_CASE("yarn blends over pairs, and scales cosines and sines") {
  ModelConfig model = modelOf(RopeType::Yarn, 1e6, 128, 4, 32768);
  auto frequencies = ropeFrequencies(model, 1);
  CHECK(frequencies.inverse[23] == near(0.006978305848598663));
  CHECK(frequencies.inverse[24] == near(0.005375321490790102));
  CHECK(frequencies.inverse[30] == near(0.001064360981247002));
  CHECK(frequencies.inverse[39] == near(6.490394320837029e-05));
  CHECK(frequencies.inverse[40] == near(4.445698525097307e-05));
  CHECK(frequencies.attentionFactor == near(1.138629436111989));

  model.rope.truncate = false;
  CHECK(ropeFrequencies(model, 1).inverse[30] == near(0.0010792377416765538));
  model.rope.attentionFactor = 1.5;
  CHECK(ropeFrequencies(model, 1).attentionFactor == 1.5);

  model = modelOf(RopeType::Yarn, 1e4, 64, 40, 4096);
  model.rope.mscale = 1;
  model.rope.mscaleAllDim = 0.707;
  CHECK(ropeFrequencies(model, 1).attentionFactor == near(1.0857263992561355));
}

TEST_CASE("dynamic frequencies follow the length") {
  const ModelConfig model = modelOf(RopeType::Dynamic, 1e4, 8, 2, 1024);
  CHECK(ropeDependsOnLength(model.rope));
  CHECK(ropeFrequencies(model, 1000).inverse[3] == near(0.001));
  const auto longer = ropeFrequencies(model, 3072);
  CHECK(longer.inverse[1] == near(0.05848035476425732));
  CHECK(longer.inverse[3] == near(0.0002));
}

TEST_CASE("longrope has a list for short and one for long sequences") {
  ModelConfig model = modelOf(RopeType::Longrope, 1e4, 4, 32, 4096);
  model.rope.shortFactor = {1, 2};
  model.rope.longFactor = {4, 5};
  CHECK(ropeDependsOnLength(model.rope));
  const auto brief = ropeFrequencies(model, 4096);
  CHECK(brief.inverse[0] == 1);
  CHECK(brief.inverse[1] == near(0.005));
  CHECK(brief.attentionFactor == near(1.1902380714238083));
  const auto longer = ropeFrequencies(model, 4097);
  CHECK(longer.inverse[0] == 0.25);
  CHECK(longer.inverse[1] == near(0.002));
}
