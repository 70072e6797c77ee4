//===- sample/ReferenceSample.cuh - the reference of sample ---------------===//
//
// One block a row, in double. Thresholds are found by bisection, each step of
// which walks over the row.
//
// Kernels compute in fp32, so rounding may decide: whether a token stays, or
// which of two has the greater sum of logit and noise. The reference knows what
// *surely* stays and what *possibly* does. A token may have won if it possibly
// stays, and is not clearly beaten by one that surely does.
// It gives the middle of the lowest and the greatest of these and half of their
// distance as the bound. A clear decision has one token and a bound of 0.
//
// Logits are exact where no step changes them: then equal logits are equal for
// kernels, too, and the order of tokens decides.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Convert.cuh"
#include "sample/ReferenceSampleConfig.h"

namespace kiln {

template <SampleSignature kSignature> class ReferenceSample {
  static constexpr int kThreads = ReferenceSampleConfig{}.threads();
  static constexpr int kPiece = 4096; ///< tokens that are counted at once

public:
  ReferenceSample(const SampleParams &params, long long row)
      : params(params), row(row), vocab(params.vocab) {
    if constexpr (kSignature.penalties) {
      historyBegin = clamped(params.historyBegins[row], 0);
      historyEnd = clamped(params.historyEnds[row], historyBegin);
      outputBegin = static_cast<long long>(params.historyBegins[row]) +
                    max(params.promptLengths[row], 0);
      repetition = params.repetition ? params.repetition[row] : 1;
      frequency = params.frequency ? params.frequency[row] : 0;
      presence = params.presence ? params.presence[row] : 0;
    }
    isExact = params.scale == 1 && !kSignature.softcap;
  }

  /// The elements of one output of the row.
  void compute(int output, double *values, double *bounds) {
    if (output == SampleOperand::Positions ||
        output == SampleOperand::Lengths) {
      const int *counter = output == SampleOperand::Positions ? params.positions
                                                              : params.lengths;
      put(values, bounds, 0, counter[row] + 1.0, 0);
    } else if (output == SampleOperand::Tokens ||
               output == SampleOperand::Logprobs)
      computeToken(output == SampleOperand::Logprobs, values, bounds);
    else
      computeTop(output == SampleOperand::TopLogprobs, values, bounds);
  }

private:
  /// Tokens, of which all may be right.
  struct Choice {
    int first, last;
    double leastLogit, greatestLogit; ///< of step 1
  };
  /// Tokens before a place in the order of the greatest logit, of equals of the
  /// lowest token: those above `value`, and equals up to `last`.
  struct Cut {
    double value;
    int last;
    bool keeps(double x, int token) const {
      return x > value || (x == value && token <= last);
    }
  };
  struct Rules {
    double inverse = 0, topP = 1, leastShift = 0;
    int k = 0;
    bool isDrawn = false, hasMinP = false;
  };

  static double infinity() {
    return __longlong_as_double(0x7ff0000000000000ll);
  }
  static double notANumber() {
    return __longlong_as_double(0x7ff8000000000000ll);
  }

  void put(double *values, double *bounds, int at, double value,
           double bound) const {
    if (threadIdx.x != 0)
      return;
    values[at] = value;
    bounds[at] = bound;
  }

  long long clamped(long long place, long long least) const {
    return min(max(place, least), params.historyCount);
  }

  //===--------------------------------------------------------------------===//
  // Logits
  //===--------------------------------------------------------------------===//

  double rawOf(int token) const {
    double x =
        toFloat<kSignature.in>(static_cast<const Storage<kSignature.in> *>(
            params.logits)[row * params.ld + token]) *
        static_cast<double>(params.scale);
    if constexpr (kSignature.softcap)
      x = params.softcap * tanh(x / params.softcap);
    return x;
  }

  static unsigned *counters() {
    __shared__ unsigned words[2 * kPiece];
    return words;
  }

  /// Calls each(token, logit of step 1, logit of step 3) in some thread for
  /// every token. All threads call it together.
  template <class Each> void forEach(const Each &each) const {
    unsigned *seen = counters(), *times = seen + kPiece;
    for (int first = 0; first < vocab; first += kPiece) {
      if constexpr (kSignature.penalties) {
        __syncthreads();
        for (int i = threadIdx.x; i < kPiece; i += kThreads)
          seen[i] = times[i] = 0;
        __syncthreads();
        for (long long i = historyBegin + threadIdx.x; i < historyEnd;
             i += kThreads) {
          const int token = params.history[i];
          if (token < first || token >= first + kPiece)
            continue;
          atomicAdd(seen + (token - first), 1u);
          if (i >= outputBegin)
            atomicAdd(times + (token - first), 1u);
        }
        __syncthreads();
      }
      const int end = min(first + kPiece, vocab);
      for (int token = first + static_cast<int>(threadIdx.x); token < end;
           token += kThreads) {
        const double raw = rawOf(token);
        double x = raw;
        if constexpr (kSignature.allowed)
          if (!(params.allowed[row * ((vocab + 31) / 32) + token / 32] >>
                    token % 32 &
                1))
            x = -infinity();
        if constexpr (kSignature.penalties) {
          if (seen[token - first] != 0)
            x = x > 0 ? x / repetition : x * repetition;
          x -= frequency * times[token - first];
          if (times[token - first] != 0)
            x -= presence;
        }
        each(token, raw, x);
      }
    }
  }

  //===--------------------------------------------------------------------===//
  // All threads together
  //===--------------------------------------------------------------------===//

  template <class T, class Op> static T reduce(T value, const Op &op) {
    constexpr int kGroup = 16, kGroups = kThreads / kGroup;
    __shared__ T of[kThreads], groups[kGroups];
    of[threadIdx.x] = value;
    __syncthreads();
    if (threadIdx.x < kGroups) {
      T all = of[threadIdx.x * kGroup];
      for (int i = 1; i < kGroup; ++i)
        all = op(all, of[threadIdx.x * kGroup + i]);
      groups[threadIdx.x] = all;
    }
    __syncthreads();
    T all = groups[0];
    for (int i = 1; i < kGroups; ++i)
      all = op(all, groups[i]);
    return all;
  }
  static double sumOf(double value) {
    return reduce(value, [](double a, double b) { return a + b; });
  }
  static double greatestOf(double value) {
    return reduce(value, [](double a, double b) { return a < b ? b : a; });
  }
  static int leastOf(int value) {
    return reduce(value, [](int a, int b) { return a < b ? a : b; });
  }

  /// The sum of what \p each(token, step 1, step 3) returns.
  template <class Each> double sum(const Each &each) const {
    double own = 0;
    forEach(
        [&](int token, double raw, double x) { own += each(token, raw, x); });
    return sumOf(own);
  }
  /// The greatest of it, minus infinity without any; NaN does not count.
  template <class Each> double greatest(const Each &each) const {
    double own = -infinity();
    forEach([&](int token, double raw, double x) {
      const double value = each(token, raw, x);
      own = value > own ? value : own;
    });
    return greatestOf(own);
  }
  /// The tokens for which \p holds.
  template <class Holds> Choice choiceOf(const Holds &holds) const {
    int first = vocab, last = -1;
    double least = infinity(), most = -infinity();
    forEach([&](int token, double raw, double x) {
      if (!holds(token, raw, x))
        return;
      first = min(first, token);
      last = max(last, token);
      least = raw < least ? raw : least;
      most = raw > most ? raw : most;
    });
    return {leastOf(first), -leastOf(-last), -greatestOf(-least),
            greatestOf(most)};
  }

  //===--------------------------------------------------------------------===//
  // Cuts
  //===--------------------------------------------------------------------===//

  // Numbers that are ordered as fp32 values are. Where logits are exact, they
  // are such values; else their errors are greater than the steps between.
  static unsigned keyOfFloat(float x) {
    const unsigned bits = __float_as_uint(x + 0.0f);
    return bits >> 31 ? ~bits : bits | 1u << 31;
  }
  static double valueOfKey(unsigned key) {
    return __uint_as_float(key >> 31 ? key ^ 1u << 31 : ~key);
  }

  /// The tokens before which less than \p target lies, in the measure
  /// \p weight(x) of a token.
  template <class Weight>
  Cut cutAt(double target, double most, const Weight &weight) const {
    auto above = [&](double value) {
      return sum(
          [&](int, double, double x) { return x > value ? weight(x) : 0.0; });
    };
    unsigned low = keyOfFloat(static_cast<float>(-infinity()));
    unsigned high = keyOfFloat(static_cast<float>(most));
    while (low < high) {
      const unsigned middle = low + (high - low) / 2;
      if (above(valueOfKey(middle)) < target)
        high = middle;
      else
        low = middle + 1;
    }
    Cut cut{valueOfKey(high), vocab};
    const double each = weight(cut.value);
    // Equals before which less than the target lies.
    const double room = target - above(cut.value);
    if (!(each > 0) || room >= each * vocab)
      return cut;
    const double equals = ceil(room / each);
    int first = 0, last = vocab - 1;
    while (first < last) {
      const int middle = first + (last - first) / 2;
      const double count = sum([&](int token, double, double x) {
        return x == cut.value && token <= middle ? 1.0 : 0.0;
      });
      if (count >= equals)
        last = middle;
      else
        first = middle + 1;
    }
    cut.last = last;
    return cut;
  }

  //===--------------------------------------------------------------------===//
  // The token
  //===--------------------------------------------------------------------===//

  /// The greatest error of a logit of step 3 in fp32.
  double errorOfLogits() const {
    if (isExact && !kSignature.penalties)
      return 0;
    const double factor = repetition > 1   ? repetition
                          : repetition > 0 ? 1 / repetition
                                           : 1;
    const double size = greatest([&](int, double raw, double x) {
      return isFinite(x) && isFinite(raw) ? fabs(x) + fabs(raw) * factor : 0.0;
    });
    constexpr double kError = 1e-6;
    return kError * (size + frequency + presence +
                     (kSignature.softcap ? params.softcap : 0));
  }
  static bool isFinite(double x) { return fabs(x) < infinity(); }

  Rules readRules(double most) const {
    Rules rules;
    const float temperature =
        kSignature.temperature ? params.temperature[row] : 0;
    if (!(temperature > 0) || !isFinite(most))
      return rules;
    const float inverse = 1.0f / temperature;
    const double scaled = most * static_cast<double>(inverse);
    constexpr double kGreatest = 3.402823466e38;
    if (!(inverse <= kGreatest) || !(fabs(scaled) <= kGreatest))
      return rules;
    rules.isDrawn = true;
    rules.inverse = inverse;
    if (params.topK && params.topK[row] > 0 && params.topK[row] < vocab)
      rules.k = params.topK[row];
    if (params.topP && params.topP[row] < 1)
      rules.topP = params.topP[row];
    if (params.minP && params.minP[row] >= 0x1p-126f) {
      rules.hasMinP = true;
      rules.leastShift = fmin(log(static_cast<double>(params.minP[row])), 0.0);
    }
    return rules;
  }

  /// The tokens that may be right.
  Choice choose() const {
    const int nan = leastOf(firstNan());
    if (nan < vocab)
      return {nan, nan, rawOf(nan), rawOf(nan)};
    const double most = greatest([](int, double, double x) { return x; });
    if (most == -infinity())
      return {0, 0, rawOf(0), rawOf(0)};
    const double error = errorOfLogits();
    const Rules rules = readRules(most);
    if (!rules.isDrawn || rules.topP <= 0 || rules.k == 1) {
      const bool isClear = error == 0 || most == infinity();
      const Choice equal = choiceOf([&](int, double, double x) {
        return isClear ? x == most : x >= most - 2 * error;
      });
      if (!isClear)
        return equal;
      return {equal.first, equal.first, rawOf(equal.first), rawOf(equal.first)};
    }
    return draw(rules, most, error);
  }

  int firstNan() const {
    int first = vocab;
    forEach([&](int token, double, double x) {
      if (x != x)
        first = min(first, token);
    });
    return first;
  }

  Choice draw(const Rules &rules, double most, double error) const {
    const double inverse = rules.inverse;
    auto shiftOf = [&](double x) { return (x - most) * inverse; };
    auto massOf = [&](double x) {
      return x == -infinity() ? 0.0 : exp((x - most) * inverse);
    };
    constexpr double kRounding = 4e-6;
    const double minError =
        kRounding * (1 + fabs(rules.leastShift)) + 2 * inverse * error;
    auto passesMin = [&](double x, double slack) {
      return !rules.hasMinP || x == most ||
             shiftOf(x) >= rules.leastShift + slack;
    };
    const bool cutsK = rules.k > 0, cutsP = rules.topP < 1;
    Cut byCount{-infinity(), vocab};
    if (cutsK)
      byCount = cutAt(rules.k, most, [](double) { return 1.0; });
    auto passesK = [&](double x, int token, double slack) {
      if (!cutsK)
        return true;
      return error == 0 ? byCount.keeps(x, token) : x >= byCount.value + slack;
    };
    // Surely, and possibly.
    Cut byMass[2] = {byCount, byCount};
    if (cutsP)
      for (int i = 0; i < 2; ++i) {
        const double sign = i == 0 ? 1 : -1;
        const double all = sum([&](int token, double, double x) {
          const bool counts =
              passesMin(x, sign * minError) &&
              (params.isJoint || passesK(x, token, sign * 2 * error));
          return counts ? massOf(x) : 0.0;
        });
        constexpr double kMassError = 1e-5;
        const double relative = kMassError + 4 * inverse * error;
        byMass[i] =
            cutAt(rules.topP * all * (1 - sign * relative), most, massOf);
      }
    auto stays = [&](double x, int token, int i) {
      const double sign = i == 0 ? 1 : -1;
      if (x == -infinity() || !passesMin(x, sign * minError) ||
          !passesK(x, token, sign * 2 * error))
        return false;
      if (!cutsP)
        return true;
      return error == 0 ? byMass[i].keeps(x, token)
                        : x >= byMass[i].value + sign * 2 * error;
    };
    auto errorOf = [&](double x, double noise) {
      constexpr double kSum = 4e-7, kNoise = 3e-6;
      return inverse * error + kSum * (fabs(x * inverse) + fabs(noise)) +
             kNoise;
    };
    const double beaten = greatest([&](int token, double, double x) {
      if (!stays(x, token, 0))
        return -infinity();
      const double noise = noiseOf(token);
      return x * inverse + noise - errorOf(x, noise);
    });
    return choiceOf([&](int token, double, double x) {
      if (!stays(x, token, 1))
        return false;
      const double noise = noiseOf(token);
      return x * inverse + noise + errorOf(x, noise) >= beaten;
    });
  }

  /// Philox4x32-10 by the paper, word by word, and the Gumbel number.
  double noiseOf(int token) const {
    unsigned counter[4] = {static_cast<unsigned>(token) / 4, 0,
                           static_cast<unsigned>(params.positions[row]), 0};
    unsigned key[2] = {static_cast<unsigned>(params.seeds[row]),
                       static_cast<unsigned>(params.seeds[row] >> 32)};
    for (int round = 0; round < 10; ++round) {
      const unsigned long long product0 = 0xd2511f53ull * counter[0];
      const unsigned long long product1 = 0xcd9e8d57ull * counter[2];
      const unsigned next[4] = {
          static_cast<unsigned>(product1 >> 32) ^ counter[1] ^ key[0],
          static_cast<unsigned>(product1),
          static_cast<unsigned>(product0 >> 32) ^ counter[3] ^ key[1],
          static_cast<unsigned>(product0)};
      for (int i = 0; i < 4; ++i)
        counter[i] = next[i];
      key[0] += 0x9e3779b9u;
      key[1] += 0xbb67ae85u;
    }
    const double rest = 0x1p33 - 1 - 2.0 * counter[token % 4]; // of u
    return -log(-log1p(-rest * 0x1p-33));
  }

  void computeToken(bool isLogprob, double *values, double *bounds) const {
    const Choice choice = choose();
    if (!isLogprob) {
      put(values, bounds, 0, (double(choice.first) + choice.last) / 2,
          (double(choice.last) - choice.first) / 2);
      return;
    }
    const double least = choice.leastLogit, most = choice.greatestLogit;
    const double log = logOfSum();
    if (least == most) {
      put(values, bounds, 0, least - log, boundOfLogprob(least, log));
      return;
    }
    put(values, bounds, 0, (least + most) / 2 - log,
        (most - least) / 2 + boundOfLogprob(least, log) +
            boundOfLogprob(most, log));
  }

  //===--------------------------------------------------------------------===//
  // Log probabilities
  //===--------------------------------------------------------------------===//

  /// ln(sum(exp(x))) of the logits of step 1; NaN without a distribution.
  double logOfSum() const {
    const double hasNan =
        sum([](int, double raw, double) { return raw != raw ? 1.0 : 0.0; });
    const double most = greatest([](int, double raw, double) { return raw; });
    if (hasNan != 0 || !isFinite(most))
      return notANumber();
    const double all =
        sum([&](int, double raw, double) { return exp(raw - most); });
    return most + log(all);
  }
  double boundOfLogprob(double logit, double log) const {
    constexpr double kError = 2e-6;
    const double size = isFinite(logit) ? fabs(logit) : 0;
    return kError *
           (1 + size + fabs(log) + (kSignature.softcap ? params.softcap : 0));
  }

  void computeTop(bool isLogprob, double *values, double *bounds) const {
    const double log = logOfSum();
    const double error = isExact ? 0 : errorOfRaw();
    // NaN is before all.
    double value = infinity();
    int token = -1;
    bool isNan = true;
    for (int place = 0; place < params.topCount; ++place) {
      if (isNan) {
        int next = vocab;
        forEach([&](int t, double raw, double) {
          if (raw != raw && t > token)
            next = min(next, t);
        });
        next = leastOf(next);
        isNan = next < vocab;
        token = isNan ? next : -1;
      }
      if (!isNan) {
        const double next = greatest([&](int t, double raw, double) {
          return raw < value || (raw == value && t > token) ? raw : -infinity();
        });
        const int after = next == value ? token : -1;
        int lowest = vocab;
        forEach([&](int t, double raw, double) {
          if (raw == next && t > after)
            lowest = min(lowest, t);
        });
        token = leastOf(lowest);
        value = next;
      }
      if (isLogprob) {
        put(values, bounds, place, isNan ? notANumber() : value - log,
            2 * error + boundOfLogprob(value, log));
        continue;
      }
      Choice choice{token, token, 0, 0};
      if (error > 0 && !isNan && isFinite(value))
        choice = choiceOf([&](int, double raw, double) {
          return fabs(raw - value) <= 2 * error;
        });
      put(values, bounds, place, (double(choice.first) + choice.last) / 2,
          (double(choice.last) - choice.first) / 2);
    }
  }

  double errorOfRaw() const {
    const double size = greatest([&](int, double raw, double) {
      return isFinite(raw) ? fabs(raw) : 0.0;
    });
    constexpr double kError = 1e-6;
    return kError * (size + (kSignature.softcap ? params.softcap : 0));
  }

  const SampleParams &params;
  long long row;
  int vocab;
  bool isExact;
  long long historyBegin = 0, historyEnd = 0, outputBegin = 0;
  double repetition = 1, frequency = 0, presence = 0;
};

template <SampleSignature kSignature, ReferenceSampleConfig>
void referenceSample(const ReferenceSampleParams &params) {
  const SampleParams &sample = params.sample;
  const bool isTop = params.output == SampleOperand::TopTokens ||
                     params.output == SampleOperand::TopLogprobs;
  const long long cols = isTop ? sample.topCount : 1;
  for (long long row = params.rowBegin + blockIdx.x; row < params.rowEnd;
       row += gridDim.x) {
    const long long at = (row - params.rowBegin) * cols;
    ReferenceSample<kSignature>(sample, row)
        .compute(params.output, params.reference + at, params.bound + at);
  }
}

} // namespace kiln
