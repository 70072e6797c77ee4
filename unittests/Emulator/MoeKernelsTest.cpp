// Kernels that choose experts and add up their rows, emulated: all features,
// sizes at the limits, and a host's choice and stable sort of nasty logits.
#include "Driver/DeviceMemory.h"
#include "Emulator/EmulatedTrials.h"
#include "Families/Route/RouteProblem.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

using namespace kiln;
using namespace kiln::emulated;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

//===----------------------------------------------------------------------===//
// A route on the host
//===----------------------------------------------------------------------===//

/// The results of a route, as kiln/moe.h defines them, of fp32 logits.
struct HostRoute {
  std::vector<int32_t> chosen, ends, sizes;
  std::vector<int32_t> index; ///< -1: undefined
  std::vector<double> weights;

  HostRoute(const RouteProblem &p, const std::vector<float> &logits,
            const std::vector<float> &choiceBias, int64_t validTokens)
      : p(p), logits(logits), choiceBias(choiceBias) {
    for (int64_t token = 0; token < p.tokens; ++token)
      route(token, token < validTokens);
    sort();
  }

private:
  /// The order of values: NaN is behind all.
  static bool isBefore(double a, double b) {
    return std::isnan(b) ? !std::isnan(a) : a > b;
  }

  void route(int64_t token, bool isValid) {
    if (!isValid) {
      chosen.insert(chosen.end(), size_t(p.topK), -1);
      weights.insert(weights.end(), size_t(p.topK), 0);
      return;
    }
    const float *x = &logits[size_t(token * p.experts)];
    std::vector<double> scores(size_t(p.experts)), values(scores);
    double most = -kInfinity, all = 0;
    for (int64_t e = 0; e < p.experts; ++e)
      most = std::fmax(most, x[e]);
    for (int64_t e = 0; e < p.experts; ++e)
      all += std::exp(x[e] - most);
    const bool byScore = signatureOf(p).byScore;
    for (int64_t e = 0; e < p.experts; ++e) {
      scores[e] = p.score == RouterScore::Sigmoid ? 1 / (1 + std::exp(-x[e]))
                                                  : std::exp(x[e] - most) / all;
      values[e] = !byScore       ? x[e]
                  : p.choiceBias ? scores[e] + choiceBias[size_t(e)]
                                 : scores[e];
    }
    const std::vector<bool> stays = keptExperts(values);
    std::vector<int32_t> order(size_t(p.experts));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      if (stays[a] != stays[b])
        return bool(stays[a]);
      return isBefore(values[a], values[b]);
    });
    double sum = 1e-20;
    for (int64_t j = 0; j < p.topK; ++j)
      sum += scores[order[size_t(j)]];
    for (int64_t j = 0; j < p.topK; ++j) {
      const int32_t expert = order[size_t(j)];
      chosen.push_back(expert);
      const double weight =
          scores[expert] / (p.renormalizes ? sum : 1) * p.scale;
      weights.push_back(isLocal(expert) ? weight : 0);
    }
  }

  bool isLocal(int32_t expert) const {
    return expert >= p.first && expert < p.first + p.local;
  }

  std::vector<bool> keptExperts(const std::vector<double> &values) const {
    std::vector<bool> stays(size_t(p.experts), !p.isGrouped());
    if (!p.isGrouped())
      return stays;
    const int64_t size = p.experts / p.groups;
    std::vector<double> best;
    for (int64_t group = 0; group < p.groups; ++group) {
      std::vector<double> own(values.begin() + group * size,
                              values.begin() + (group + 1) * size);
      std::sort(own.begin(), own.end(), isBefore);
      best.push_back(p.groupMax ? own[0] : own[0] + own[1]);
    }
    std::vector<int> order(size_t(p.groups));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return isBefore(best[size_t(a)], best[size_t(b)]);
    });
    for (int64_t i = 0; i < p.topGroups; ++i)
      for (int64_t e = 0; e < size; ++e)
        stays[size_t(order[size_t(i)] * size + e)] = true;
    return stays;
  }

  void sort() {
    index.assign(size_t(p.indexRoom()), -1);
    int64_t row = 0;
    for (int64_t group = 0; group < p.local; ++group) {
      row = (row + p.groupAlign - 1) / p.groupAlign * p.groupAlign;
      const int64_t begin = row;
      for (size_t choice = 0; choice < chosen.size(); ++choice)
        if (chosen[choice] == p.first + group)
          index[size_t(row++)] = static_cast<int32_t>(choice);
      ends.push_back(static_cast<int32_t>(row));
      sizes.push_back(static_cast<int32_t>(row - begin));
    }
  }

  const RouteProblem &p;
  const std::vector<float> &logits, &choiceBias;
};

//===----------------------------------------------------------------------===//
// A kernel beside it
//===----------------------------------------------------------------------===//

/// A launch of one config whose operands are set and read.
struct RouteCase {
  EmulatedTrials &trials;
  DependentCase launched;
  RouteProblem problem;

  RouteCase(EmulatedTrials &trials, const std::string &text,
            const std::string &config)
      : trials(trials), launched(trials.dependent({"route", text}, config)),
        problem(readRouteProblem(launched.problem.values.array().data())) {}

  template <class T> void put(int operand, const std::vector<T> &values) {
    if (values.empty())
      return;
    must(copyToDevice(launched.driver, addressOf(operand), values.data(),
                      values.size() * sizeof(T)));
  }
  template <class T> std::vector<T> take(int operand, size_t count) {
    std::vector<T> values(count);
    if (count == 0)
      return values;
    must(copyToHost(launched.driver, values.data(), addressOf(operand),
                    count * sizeof(T)));
    return values;
  }

  void check(const std::vector<float> &logits,
             const std::vector<float> &choiceBias, int32_t validTokens) {
    const RouteProblem &p = problem;
    put(RouteOperand::Logits, logits);
    if (p.choiceBias)
      put(RouteOperand::ChoiceBias, choiceBias);
    if (p.tokenCount)
      put(RouteOperand::TokenCount, std::vector<int32_t>{validTokens});
    put(RouteOperand::Index,
        std::vector<int32_t>(size_t(p.indexRoom()), kUntouched));
    for (int operand : {RouteOperand::Ends, RouteOperand::Sizes})
      put(operand, std::vector<int32_t>(size_t(p.local), kUntouched));
    trials.emulator.setPredecessor({});
    must(launched.launch(false));
    REQUIRE(trials.emulator.fault() == "");
    const HostRoute expected(p, logits, choiceBias,
                             p.tokenCount ? validTokens : p.tokens);
    CHECK(take<int32_t>(RouteOperand::Chosen, expected.chosen.size()) ==
          expected.chosen);
    CHECK(take<int32_t>(RouteOperand::Ends, expected.ends.size()) ==
          expected.ends);
    CHECK(take<int32_t>(RouteOperand::Sizes, expected.sizes.size()) ==
          expected.sizes);
    auto index = take<int32_t>(RouteOperand::Index, expected.index.size());
    std::replace(index.begin(), index.end(), kUntouched, -1);
    CHECK(index == expected.index);
    checkWeights(expected.weights);
  }

private:
  static constexpr int32_t kUntouched = -77;

  DeviceAddress addressOf(int operand) const {
    return launched.arguments(false).operands[operand].address;
  }

  void checkWeights(const std::vector<double> &expected) {
    const auto weights = take<float>(RouteOperand::Weights, expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      CAPTURE(weights[i]);
      CAPTURE(expected[i]);
      if (std::isnan(expected[i]))
        REQUIRE(std::isnan(weights[i]));
      else
        REQUIRE(std::fabs(weights[i] - expected[i]) <=
                1e-5 * std::fabs(expected[i]) + 1e-17);
    }
  }
};

/// Logits of all kinds, by which tokens differ.
std::vector<float> nastyLogits(const RouteProblem &p, std::mt19937 &random) {
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> logits;
  for (int64_t token = 0; token < p.tokens; ++token)
    for (int64_t e = 0; e < p.experts; ++e) {
      float x = normal(random);
      switch (token % 12) {
      case 1: // all are equal
        x = 0.25f;
        break;
      case 2: // both zeros
        x = random() % 2 ? 0.0f : -0.0f;
        break;
      case 3: // few are not minus infinity
        x = e % 7 == 3 ? x : -kInfinity;
        break;
      case 4:
        x = -kInfinity;
        break;
      case 5:
        x = e % 5 == 1 ? kNan : x;
        break;
      case 6:
        x = kNan;
        break;
      case 7: // ties
        x = std::round(x);
        break;
      case 8: // exponentials that underflow
        x = e == p.experts - 1 ? 200.0f : x;
        break;
      case 9:
        x = e == 0 ? kInfinity : x;
        break;
      }
      logits.push_back(x);
    }
  return logits;
}

void checkNasty(const std::string &text,
                const std::vector<std::string> &configs, int sms = 0,
                int32_t validTokens = 0) {
  EmulatedTrials trials(sms);
  for (const std::string &config : configs) {
    CAPTURE(text);
    CAPTURE(config);
    RouteCase launched(trials, "route dtype=fp32 chosen=1 sizes=1 " + text,
                       config);
    std::mt19937 random(17);
    std::vector<float> bias(size_t(launched.problem.experts));
    std::normal_distribution<float> normal(0, 0.3f);
    for (float &each : bias)
      each = normal(random);
    launched.check(nastyLogits(launched.problem, random), bias, validTokens);
  }
}

} // namespace

TEST_CASE("emulated: routes are those of a host, of nasty logits") {
  checkNasty("tokens=75 experts=40 topk=5",
             {"cluster.t64.i2.n4.c1", "cluster.t128.i2.n1.c1",
              "cluster.t64.i2.n1.c4", "spread.t64.i2.n1"});
  checkNasty("tokens=1 experts=8 topk=8 renorm=1",
             {"cluster.t32.i1.n1.c1", "spread.t32.i1.n1"});
  checkNasty("tokens=13 experts=1 topk=1", {"cluster.t32.i1.n1.c2"});
  checkNasty("tokens=40 experts=32 topk=32 renorm=1 scale=2.5",
             {"cluster.t256.i1.n2.c1", "spread.t64.i1.n2"}, 2);
  checkNasty("tokens=14 experts=1024 topk=10 score=sigmoid renorm=1",
             {"cluster.t128.i32.n1.c1", "spread.t64.i32.n1"}, 3);
  checkNasty("tokens=30 experts=100 topk=7 score=sigmoid",
             {"cluster.t64.i4.n1.c8"});
}

// Blocks of a cluster without tokens, and experts that are no whole warps.
TEST_CASE("emulated: routes of fewer tokens than warps") {
  checkNasty("tokens=9 experts=40 topk=5", {"cluster.t64.i2.n1.c8"});
  checkNasty("tokens=1 experts=40 topk=5",
             {"cluster.t64.i2.n1.c8", "spread.t64.i2.n1"});
}

TEST_CASE("emulated: routes of no tokens have empty groups") {
  for (const char *rules :
       {"group_align=16", "first=3 local=7", "count=1 score=sigmoid"})
    checkNasty(
        std::string("tokens=0 experts=40 topk=5 ") + rules,
        {"cluster.t64.i2.n1.c1", "cluster.t64.i2.n1.c8", "spread.t64.i2.n1"}, 0,
        5);
}

TEST_CASE("emulated: routes with local experts, alignment and a count") {
  const std::vector<std::string> configs = {"cluster.t64.i2.n1.c2",
                                            "spread.t64.i2.n1"};
  checkNasty("tokens=50 experts=64 topk=6 first=16 local=24", configs);
  checkNasty("tokens=50 experts=64 topk=6 group_align=16", configs);
  checkNasty("tokens=50 experts=64 topk=6 first=3 local=1 group_align=7 "
             "renorm=1",
             configs);
  for (int32_t count : {-1, 0, 33, 50, 99})
    checkNasty("tokens=50 experts=64 topk=6 count=1", configs, 0, count);
}

TEST_CASE("emulated: one expert takes a choice of every token") {
  EmulatedTrials trials;
  for (const char *config : {"cluster.t64.i1.n2.c2", "spread.t64.i1.n1"}) {
    RouteCase launched(
        trials,
        "route tokens=130 experts=16 topk=1 dtype=fp32 chosen=1 sizes=1",
        config);
    std::vector<float> logits(130 * 16, 0.0f);
    for (size_t token = 0; token < 130; ++token)
      logits[token * 16 + 11] = 5;
    launched.check(logits, {}, 130);
  }
}

// The host computes in double: these logits have no ties that rounding makes.
TEST_CASE("emulated: routes by groups and with a bias are those of a host") {
  EmulatedTrials trials;
  for (const char *rules :
       {"experts=64 topk=4 groups=8 top_groups=3 score=sigmoid choice_bias=1 "
        "renorm=1 scale=2.5",
        "experts=60 topk=6 groups=5 top_groups=2 group_max=1",
        "experts=48 topk=3 groups=24 top_groups=5",
        "experts=33 topk=4 "
        "choice_bias=1",
        "experts=256 topk=8 groups=8 top_groups=4 score=sigmoid choice_bias=1",
        "experts=32 topk=2 groups=32 top_groups=7 group_max=1 choice_bias=1"})
    for (const char *config : {"cluster.t64.i8.n1.c1", "spread.t64.i8.n1"}) {
      CAPTURE(rules);
      CAPTURE(config);
      RouteCase launched(trials,
                         std::string("route tokens=20 dtype=fp32 chosen=1 "
                                     "sizes=1 ") +
                             rules,
                         config);
      std::mt19937 random(5);
      std::normal_distribution<float> normal(0, 1);
      auto draw = [&](int64_t count) {
        std::vector<float> values;
        for (int64_t i = 0; i < count; ++i)
          values.push_back(normal(random));
        return values;
      };
      const RouteProblem &p = launched.problem;
      launched.check(draw(p.tokens * p.experts), draw(p.experts), 20);
    }
}

TEST_CASE("emulated: routes where warps have no reductions") {
  Patch warps("common/Warp.cuh", "__CUDA_ARCH__ >= 800", "false");
  checkNasty("tokens=20 experts=64 topk=6 renorm=1",
             {"cluster.t64.i2.n1.c1", "spread.t64.i2.n1"});
}

TEST_CASE("emulated: routes are their references") {
  const std::vector<std::string> configs = {
      "cluster.t64.i2.n1.c1", "cluster.t64.i2.n4.c2", "spread.t64.i2.n1"};
  for (TrialData data : {TrialData::Usual, TrialData::Outliers})
    for (const char *rules :
         {"dtype=bf16 chosen=1 sizes=1 renorm=1", "dtype=fp16 logit_bias=1",
          "dtype=fp32 score=sigmoid choice_bias=1 groups=4 top_groups=2 "
          "renorm=1 scale=2.5 count=1 chosen=1",
          "dtype=bf16 choice_bias=1 logit_bias=1 first=8 local=30 "
          "group_align=8 ldx=75",
          "dtype=fp32 groups=10 top_groups=3 group_max=1 chosen=1"})
      check({{"route", std::string("tokens=70 experts=60 topk=5 ") + rules,
              configs, data}});
}

TEST_CASE("emulated: sums of choices") {
  for (TrialData data : {TrialData::Usual, TrialData::Outliers})
    check({{"combine",
            "tokens=5 cols=520 topk=3 dtype=bf16",
            {"rows.l64.r1.i1.a2", "rows.l32.r4.i2.a4", "rows.l32.r1.i1.a8"},
            data},
           {"combine",
            "tokens=3 cols=1000 topk=5 dtype=fp32 weights=applied shared=1 "
            "residual=1 ldx=1004 ldy=1008",
            {"rows.l128.r1.i2.a4", "rows.l32.r2.i4.a1"},
            data},
           {"combine",
            "tokens=3 cols=77 topk=8 dtype=fp16 weights=present align=2",
            {"rows.l64.r1.i1.a4"},
            data}});
}

TEST_CASE("emulated: sums of choices with their norm") {
  for (TrialData data : {TrialData::Usual, TrialData::Outliers})
    check({{"combine",
            "tokens=5 cols=1032 topk=2 dtype=bf16 residual=1 norm=1 eps=1e-6",
            // One turn, and several, whose sums are read again.
            {"rows.l128.r1.i2.a2", "rows.l64.r1.i1.a4", "rows.l32.r4.i1.a2"},
            data},
           {"combine",
            "tokens=2 cols=1032 topk=4 dtype=fp16 weights=applied shared=1 "
            "norm=1 eps=1e-5",
            {"rows.l256.r1.i1.a4", "rows.l64.r1.i2.a2"},
            data},
           {"combine",
            "tokens=2 cols=301 topk=4 dtype=fp32 weights=present residual=1 "
            "norm=1 eps=1e-5 align=4",
            {"rows.l64.r1.i4.a4"},
            data}});
}
