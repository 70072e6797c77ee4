//===- sample/SampleDraw.cuh - the greatest logit with noise --------------===//
//
// argmax of x / T + g over a thread's tokens. A Philox call and two logarithms
// for each token would cost several times the load of its logit, so most of
// both are not computed:
//
// * With u = 1 - c, -ln(u) >= c, so g <= -ln(c), which one instruction of the
//   special unit gives. Only a token that this ceiling lets win gets its exact
//   number. The bound to exceed is shared by the lanes of a warp.
// * A vector whose greatest logit is below the bound by the most noise there is
//   needs no random numbers at all.
//
// Neither changes the result: sums are monotone in the noise, rounded or not.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Ptx.cuh"
#include "sample/SampleLayout.h"
#include "sample/SampleNumbers.h"

namespace kiln {

class SampleDraw {
public:
  SampleDraw(unsigned long long seed, unsigned position, float inverse)
      : seed(seed), position(position), inverse(inverse) {}

  /// Adds the tokens from \p token on, which is a multiple of 4; a logit of
  /// minus infinity is no token.
  template <int kPack> void add(unsigned token, const float (&x)[kPack]) {
    static_assert(kPack % 4 == 0, "tokens share calls of Philox by four");
#pragma unroll
    for (int q = 0; q < kPack; q += 4)
      addFour(token + q, x[q], x[q + 1], x[q + 2], x[q + 3]);
  }

  /// Lets the lanes of the warp, which all call it, share their bounds.
  void shareBound() {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
      bound = max(bound, __shfl_xor_sync(~0u, bound, distance));
  }

  /// The rank of \p token, of \p logit, with its noise.
  unsigned long long rankWithNoise(unsigned token, float logit) const {
    const unsigned word = wordOf(noiseWords(seed, position, token / 4), token);
    return rankOf(orderKey(fmaf(logit, inverse, gumbelOf(word)) + 0.0f), token);
  }

  unsigned long long bestRank() const { return best; }

  /// Gives \p tally the best.
  void tell(SampleTally &tally) const {
    tally.best = best;
    tally.key = key;
  }

private:
  /// Below all that a token may have, and above minus infinity.
  static constexpr float kNone = -0x1.fffffep127f;

  void addFour(unsigned token, float x0, float x1, float x2, float x3) {
    const float most = max(max(x0, x1), max(x2, x3));
    if (!(fmaf(most, inverse, kMostNoise) >= bound))
      return;
    const PhiloxWords four = noiseWords(seed, position, token / 4);
    const float c0 = ceilingOf(x0, four.word[0]);
    const float c1 = ceilingOf(x1, four.word[1]);
    const float c2 = ceilingOf(x2, four.word[2]);
    const float c3 = ceilingOf(x3, four.word[3]);
    const float highest = max(max(c0, c1), max(c2, c3));
    if (!(highest >= bound))
      return;
    // First the one that is most likely to raise the bound for the others.
    const int first = c0 == highest   ? 0
                      : c1 == highest ? 1
                      : c2 == highest ? 2
                                      : 3;
    const float low = first & 1 ? x1 : x0, high = first & 1 ? x3 : x2;
    take(token + first, first & 2 ? high : low, wordOf(four, first));
    if (first != 0 && c0 >= bound)
      take(token, x0, four.word[0]);
    if (first != 1 && c1 >= bound)
      take(token + 1, x1, four.word[1]);
    if (first != 2 && c2 >= bound)
      take(token + 2, x2, four.word[2]);
    if (first != 3 && c3 >= bound)
      take(token + 3, x3, four.word[3]);
  }

  static unsigned wordOf(const PhiloxWords &four, unsigned token) {
    const unsigned low = token & 1 ? four.word[1] : four.word[0];
    const unsigned high = token & 1 ? four.word[3] : four.word[2];
    return token & 2 ? high : low;
  }

  /// At least \p logit over the temperature with the noise of \p word.
  float ceilingOf(float logit, unsigned word) const {
    constexpr float kLn2 = 0.693147180559945f;
    constexpr float kError = 1e-4f; // of the approximation and the number
    return fmaf(logit, inverse,
                fmaf(ptx::lg2ApproxFtz(openUnit(~word)), -kLn2, kError));
  }

  void take(unsigned token, float logit, unsigned word) {
    const float value = fmaf(logit, inverse, gumbelOf(word)) + 0.0f;
    const unsigned long long rank = rankOf(orderKey(value), token);
    if (logit > -__uint_as_float(0x7f800000u) && rank > best) {
      best = rank;
      key = orderKey(logit);
      bound = max(bound, value);
    }
  }

  unsigned long long seed;
  unsigned position;
  float inverse; ///< 1 / T
  float bound = kNone;
  unsigned long long best = 0;
  unsigned key = 0;
};

} // namespace kiln
