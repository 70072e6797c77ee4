#include "llama/RandomWeights.h"

#include "llama/RandomWeightsPtx.h"

#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <string>
#include <utility>
#include <vector>

using namespace llama;

TEST_CASE("floats are rounded to the nearest bf16, ties to even") {
  CHECK(roundToBf16(1.0f) == 0x3f80);
  CHECK(roundToBf16(-0.0f) == 0x8000);
  CHECK(roundToBf16(1.0f + 0x1p-8f) == 0x3f80);           // A tie, down.
  CHECK(roundToBf16(1.0f + 0x1p-7f + 0x1p-8f) == 0x3f82); // A tie, up.
  CHECK(roundToBf16(1.0f + 0x1p-8f + 0x1p-20f) == 0x3f81);
  CHECK(roundToBf16(std::numeric_limits<float>::max()) == 0x7f80);
  CHECK(std::isnan(
      bf16ToFloat(roundToBf16(std::numeric_limits<float>::quiet_NaN()))));
  CHECK(bf16ToFloat(0xc0a0) == -5.0f);
}

TEST_CASE("the bits of an fp16 stand for its number") {
  for (const auto &[bits, value] :
       {std::pair(0x3c00, 1.0f), std::pair(0xc500, -5.0f),
        std::pair(0x7bff, 65504.0f), std::pair(0x0001, 0x1p-24f),
        std::pair(0x03ff, 1023 * 0x1p-24f), std::pair(0x0400, 0x1p-14f),
        std::pair(0x7c00, INFINITY), std::pair(0xfc00, -INFINITY)})
    CHECK(fp16ToFloat(static_cast<uint16_t>(bits)) == value);
  CHECK(std::isnan(fp16ToFloat(0x7e00)));
  CHECK(std::signbit(fp16ToFloat(0x8000)));
}

TEST_CASE("weights are these bits, on every machine and in every version") {
  // By Python's integers and numpy's float32, from the formula of the header.
  const uint64_t key = randomKey(1, "model.embed_tokens.weight");
  CHECK(key == 0x75bd178950b7abf0);
  const RandomScale matrix = randomScale(0.02, 0);
  const RandomScale norm = randomScale(0.1, 1);
  const std::vector<uint16_t> matrixBits = {0x3b4e, 0x3af8, 0x3c0c, 0x3b27,
                                            0xbc17, 0x3d3c, 0x3c75, 0x3d1f};
  const std::vector<uint16_t> normBits = {0x3f82, 0x3f81, 0x3f85, 0x3f82,
                                          0x3f74, 0x3f9d, 0x3f8a, 0x3f99};
  std::vector<uint16_t> filled(matrixBits.size());
  fillRandomWeights(filled.data(), key, 0, filled.size(), matrix);
  CHECK(filled == matrixBits);
  fillRandomWeights(filled.data(), key, 0, filled.size(), norm);
  CHECK(filled == normBits);
  CHECK(randomWeight(key, uint64_t(1) << 40, matrix) == 0x3ae0);
}

TEST_CASE("any part of a tensor can be made alone") {
  const uint64_t key = randomKey(5, "lm_head.weight");
  const RandomScale scale = randomScale(0.02, 0);
  std::vector<uint16_t> all(64), part(16);
  fillRandomWeights(all.data(), key, 0, 64, scale);
  fillRandomWeights(part.data(), key, 40, 16, scale);
  CHECK(std::equal(part.begin(), part.end(), all.begin() + 40));
  CHECK(randomKey(5, "a") != randomKey(6, "a"));
  CHECK(randomKey(5, "a") != randomKey(5, "b"));
}

TEST_CASE("weights have the deviation and mean that were asked for") {
  const uint64_t key = randomKey(3, "w");
  for (const double mean : {0.0, 1.0}) {
    const RandomScale scale = randomScale(0.1, mean);
    const int count = 100000;
    double sum = 0, squares = 0, most = 0;
    for (int i = 0; i < count; ++i) {
      const double x = bf16ToFloat(randomWeight(key, i, scale)) - mean;
      sum += x;
      squares += x * x;
      most = std::max(most, std::abs(x));
    }
    // The mean of so many deviates by 0.0003, the deviation by 0.0002.
    CHECK(std::abs(sum / count) < 0.0015);
    CHECK(std::sqrt(squares / count) == doctest::Approx(0.1).epsilon(0.01));
    CHECK(most > 0.3);
    CHECK(most < 0.3465 + 0.005); // The ends of the sum, and bf16's rounding.
  }
}

TEST_CASE("the kernel has the constants of the formula") {
  const std::string ptx = kRandomWeightsPtx;
  for (const char *part : {"0x9e3779b97f4a7c15", "0xbf58476d1ce4e5b9",
                           "0x94d049bb133111eb", "131070", "mul.rn.f32",
                           "add.rn.f32", "cvt.rn.bf16.f32", ".target sm_80"})
    CHECK(ptx.find(part) != std::string::npos);
  CHECK(ptx.find("fma") == std::string::npos);
  CHECK(ptx.find(std::string(".entry ") + kRandomWeightsEntry) !=
        std::string::npos);
}
