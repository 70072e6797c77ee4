// The numbers that decide about tokens, compiled for the host: they are the
// same on every device.
#include <bit>
#include <cmath>

static float __uint_as_float(unsigned bits) {
  return std::bit_cast<float>(bits);
}
static unsigned __float_as_uint(float value) {
  return std::bit_cast<unsigned>(value);
}

#include "sample/SampleNumbers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

using namespace kiln;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool gives(unsigned long long key, PhiloxWords counter, PhiloxWords expected) {
  return std::ranges::equal(philox(key, counter).word, expected.word);
}

/// 1 - u of \p word, exactly.
double restOf(unsigned word) { return (2.0 * ~word + 1) / 0x1p33; }

/// The token of the greatest logit with noise.
template <size_t kTokens>
unsigned drawn(const std::array<float, kTokens> &logits, uint64_t seed,
               unsigned position) {
  unsigned long long best = 0;
  for (unsigned token = 0; token < kTokens; ++token) {
    const PhiloxWords four = noiseWords(seed, position, token / 4);
    const float value = logits[token] + gumbelOf(four.word[token % 4]);
    best = std::max(best, rankOf(orderKey(value), token));
  }
  return tokenOf(best);
}

/// The sum of (seen - expected)^2 / expected over the tokens of \p logits.
template <size_t kTokens>
double chiSquare(const std::array<float, kTokens> &logits,
                 const std::vector<unsigned> &tokens) {
  std::array<double, kTokens> seen = {};
  for (unsigned token : tokens)
    ++seen[token];
  double mass = 0;
  for (float logit : logits)
    mass += std::exp(double(logit));
  double sum = 0;
  for (size_t token = 0; token < kTokens; ++token) {
    const double expected =
        double(tokens.size()) * std::exp(double(logits[token])) / mass;
    sum += std::pow(seen[token] - expected, 2) / expected;
  }
  return sum;
}

} // namespace

// The known answers that Random123 is tested with (kat_vectors, philox4x32 10).
TEST_CASE("sample: the random words are those of Philox4x32-10") {
  CHECK(gives(0, {{0, 0, 0, 0}},
              {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}));
  CHECK(gives(~0ull, {{~0u, ~0u, ~0u, ~0u}},
              {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}));
  CHECK(gives(0x299f31d0a4093822,
              {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
              {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}));
}

TEST_CASE("sample: Gumbel numbers are right at both ends of their range") {
  double worst = 0;
  auto look = [&](unsigned word) {
    const double expected = -std::log(-std::log1p(-restOf(word)));
    worst = std::max(worst, std::fabs(gumbelOf(word) - expected));
    CHECK_FALSE(gumbelOf(word) > kMostNoise);
  };
  for (unsigned i = 0; i < 20000; ++i) {
    look(i);
    look(~i);
    look(i * 214748u);
  }
  CHECK(worst < 2e-6);
  CHECK(gumbelOf(~0u) == doctest::Approx(33 * std::log(2)).epsilon(1e-6));
  CHECK(gumbelOf(0) == doctest::Approx(-std::log(33 * std::log(2))));
}

TEST_CASE("sample: masses are exponentials, and their sums fit") {
  CHECK(massOf(0) == kUnitMass);
  CHECK(massOf(-kInfinity) == 0);
  CHECK(massOf(std::nanf("")) == 0);
  double worst = 0;
  for (float x = 0; x > -20; x -= 0.00137f) {
    const double expected = std::exp(double(x)) * double(kUnitMass);
    worst = std::max(worst,
                     (std::fabs(double(massOf(x)) - expected) - 1) / expected);
  }
  CHECK(worst < 3e-7);
  constexpr unsigned long long kMostTokens = 1 << 24;
  CHECK(kUnitMass <= ~0ull / kMostTokens);
}

TEST_CASE("sample: ranks order by logit, and equals by token") {
  std::vector<float> values = {-kInfinity, -1e30f, -1.5f, -1e-40f, 0,
                               1e-40f,     0.5f,   2,     1e30f,   kInfinity};
  for (size_t i = 0; i < values.size(); ++i) {
    CHECK(valueOfKey(orderKey(values[i])) == values[i]);
    if (i != 0)
      CHECK(orderKey(values[i - 1]) < orderKey(values[i]));
  }
  CHECK(orderKey(-kInfinity) == kMinusInfinityKey);
  CHECK(orderKey(kInfinity) == kInfinityKey);
  CHECK(orderKey(std::nanf("")) == kNanKey);
  CHECK(orderKey(-std::nanf("")) == kNanKey);
  CHECK(rankOf(7, 3) > rankOf(7, 4));
  CHECK(rankOf(8, 4) > rankOf(7, 3));
  CHECK(tokenOf(rankOf(7, 16777215)) == 16777215);
  CHECK(keyOf(rankOf(7, 16777215)) == 7);
}

// 99.9 % of the sums of squares with 9 degrees of freedom are below 27.9; these
// do not change from run to run.
TEST_CASE("sample: draws have the distribution of the softmax") {
  constexpr std::array<float, 10> kLogits = {0,  1,     2, -1, 0.5f,
                                             -4, -2.5f, 3, 2,  -6};
  constexpr int kDraws = 200000;
  constexpr double kMost = 27.9;
  std::vector<unsigned> byPosition, bySeed;
  for (int i = 0; i < kDraws; ++i) {
    byPosition.push_back(drawn(kLogits, 12345, static_cast<unsigned>(i)));
    bySeed.push_back(drawn(kLogits, static_cast<uint64_t>(i), 7));
  }
  CHECK(chiSquare(kLogits, byPosition) < kMost);
  CHECK(chiSquare(kLogits, bySeed) < kMost);
  // Draws that follow each other do not depend on each other.
  constexpr std::array<float, 2> kCoin = {0, 0};
  std::vector<unsigned> pairs;
  for (int i = 0; i < kDraws; ++i)
    pairs.push_back(2 * drawn(kCoin, 99, static_cast<unsigned>(2 * i)) +
                    drawn(kCoin, 99, static_cast<unsigned>(2 * i + 1)));
  constexpr std::array<float, 4> kPairs = {0, 0, 0, 0};
  CHECK(chiSquare(kPairs, pairs) < 16.3); // 3 degrees of freedom
}
