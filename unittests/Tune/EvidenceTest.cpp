#include "Tune/Evidence.h"

#include "Tune/RangeTesting.h"

#include <doctest/doctest.h>

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <random>
#include <utility>
#include <vector>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// Two kernels of one template at any m, and one of another template.
struct EvidenceFixture {
  Registry::NamedProblem named = llvm::cantFail(builtinFamilies().parseProblem(
      "gemm m=1 n=6144 k=4096 dtype=bf16 layout=NT"));

  TimedSubject subject(llvm::StringRef config, int64_t m) const {
    auto parsed = llvm::cantFail(named.family->parseConfig(config));
    return {*parsed.tmpl, parsed.config, ExtentPoint{m}, "tensor"};
  }
  TimedSubject wide(int64_t m) const {
    return subject("sm90.bm128.bn256.bk64.st4.wg2.cm1.cn1", m);
  }
  TimedSubject narrow(int64_t m) const {
    return subject("sm90.bm128.bn128.bk64.st5.wg2.cm1.cn1", m);
  }
  TimedSubject other(int64_t m) const {
    return subject("mma.bm128.bn128.bk32.st4.wm2.wn2.mb1", m);
  }
};

Contender contender(TimedSubject subject, double predictedNs, size_t place) {
  return {std::move(subject), predictedNs, predictedNs, place};
}

std::vector<size_t> orderOf(const std::vector<Contender> &contenders) {
  std::vector<size_t> places;
  for (const Contender &one : contenders)
    places.push_back(one.place);
  return places;
}

} // namespace

TEST_CASE_FIXTURE(EvidenceFixture, "without times predictions stand") {
  Evidence evidence;
  evidence.fit();
  CHECK(evidence.expect(wide(64)) == 0);
  CHECK(evidence.uncertainty(wide(64), narrow(64)) > 0.03);
  CHECK(evidence.uncertainty(wide(64), wide(64)) == 0);
}

TEST_CASE_FIXTURE(EvidenceFixture,
                  "two that ran beside each other are told apart there") {
  Evidence evidence;
  evidence.add(wide(64), 0, std::log(1.1));
  evidence.add(narrow(64), 0, std::log(1.0));
  evidence.fit();
  auto longer = [&](int64_t m) {
    return evidence.expect(wide(m)) - evidence.expect(narrow(m));
  };
  CHECK(longer(64) > 0.07);
  CHECK(longer(64) < 0.1);
  CHECK(longer(4096) < longer(64));
  CHECK(evidence.uncertainty(wide(64), narrow(64)) < 0.025);
  CHECK(evidence.uncertainty(wide(4096), narrow(4096)) >
        evidence.uncertainty(wide(64), narrow(64)));
}

TEST_CASE_FIXTURE(EvidenceFixture,
                  "a clock that drifts between series says little") {
  Evidence evidence;
  evidence.add(wide(64), 0, std::log(1.2));
  evidence.add(narrow(64), 1, std::log(1.0));
  evidence.fit();
  CHECK(evidence.expect(wide(64)) - evidence.expect(narrow(64)) < 0.05);
}

TEST_CASE_FIXTURE(EvidenceFixture,
                  "what is measured excludes nothing that was not") {
  Evidence evidence;
  evidence.add(wide(64), 0, 0);
  evidence.fit();
  // A point far away, with a prediction that is faster by 3 %, which stands.
  std::vector<Contender> contenders = {contender(narrow(4096), 100, 0),
                                       contender(wide(4096), 103, 1)};
  judge(contenders, evidence);
  CHECK(orderOf(contenders) == std::vector<size_t>{0, 1});
  CHECK(contenders[0].mayLead);
  CHECK_FALSE(contenders[1].mayLead);
}

TEST_CASE_FIXTURE(EvidenceFixture, "a measured kernel leads where it is faster "
                                   "than the estimator's first, beside it") {
  Evidence evidence;
  evidence.add(narrow(64), 0, std::log(1.1));
  evidence.add(wide(64), 0, std::log(1.0));
  evidence.fit();
  std::vector<Contender> contenders = {contender(narrow(80), 100, 0),
                                       contender(wide(80), 103, 1)};
  judge(contenders, evidence);
  CHECK(orderOf(contenders) == std::vector<size_t>{1, 0});
  CHECK(contenders[0].mayLead);
  CHECK(contenders[1].mayLead);
}

TEST_CASE_FIXTURE(EvidenceFixture, "a first choice that is measured to be slow "
                                   "gives way to one that was never timed") {
  Evidence evidence;
  evidence.add(narrow(64), 0, std::log(1.5));
  evidence.add(wide(64), 0, std::log(1.0));
  evidence.fit();
  std::vector<Contender> contenders = {contender(narrow(64), 100, 0),
                                       contender(other(64), 105, 1)};
  judge(contenders, evidence);
  CHECK(orderOf(contenders).front() == 1);
}

TEST_CASE_FIXTURE(
    EvidenceFixture,
    "a prediction that ties with the first is no reason to lead") {
  Evidence evidence;
  evidence.add(wide(64), 0, std::log(0.99));
  evidence.fit();
  std::vector<Contender> contenders = {contender(narrow(4096), 100, 0),
                                       contender(wide(4096), 100, 1)};
  judge(contenders, evidence);
  CHECK(orderOf(contenders).front() == 0);
}

TEST_CASE_FIXTURE(EvidenceFixture, "so many have the lead as are asked for") {
  Evidence evidence;
  evidence.add(narrow(64), 0, std::log(1.3));
  evidence.add(wide(64), 0, std::log(1.0));
  evidence.add(other(64), 0, std::log(1.0));
  evidence.fit();
  const std::vector<Contender> given = {contender(narrow(64), 100, 0),
                                        contender(wide(64), 101, 1),
                                        contender(other(64), 102, 2)};
  auto leadsOf = [&](size_t most) {
    std::vector<Contender> contenders = given;
    judge(contenders, evidence, most);
    return llvm::count_if(contenders,
                          [](const Contender &one) { return one.mayLead; });
  };
  CHECK(leadsOf(3) == 3);
  CHECK(leadsOf(2) == 2);
}

TEST_CASE("nothing to order is ordered") {
  std::vector<Contender> none;
  judge(none, Evidence());
  CHECK(none.empty());
}

TEST_CASE_FIXTURE(EvidenceFixture,
                  "a gain within the noise of readings is no reason to lead") {
  Evidence evidence;
  evidence.add(narrow(64), 0, std::log(1.035));
  evidence.add(wide(64), 0, std::log(1.0));
  evidence.fit();
  std::vector<Contender> contenders = {contender(narrow(64), 100, 0),
                                       contender(wide(64), 102, 1)};
  judge(contenders, evidence);
  CHECK(contenders.back().expectedNs < contenders.front().expectedNs);
  CHECK(orderOf(contenders).front() == 0);
}

TEST_CASE_FIXTURE(EvidenceFixture, "judging again starts anew") {
  Evidence evidence;
  evidence.add(narrow(64), 0, std::log(1.0));
  evidence.add(wide(64), 0, std::log(0.8));
  evidence.fit();
  std::vector<Contender> contenders = {contender(narrow(64), 100, 0),
                                       contender(wide(64), 102, 1)};
  judge(contenders, evidence);
  CHECK(contenders.front().place == 1);
  judge(contenders, Evidence());
  CHECK(contenders.front().place == 1);
  CHECK(contenders.front().mayLead);
  CHECK(!contenders.back().mayLead);
}

namespace {

/// Times of several kernels, configs, bounds and series, drawn by a seed.
struct DrawnEvidence : EvidenceFixture {
  std::mt19937 random{3};

  TimedSubject draw() {
    static constexpr const char *kConfigs[] = {
        "sm90.bm128.bn256.bk64.st4.wg2.cm1.cn1.rg8",
        "sm90.bm128.bn256.bk64.st4.wg2.cm1.cn1.rg4",
        "sm90.bm128.bn128.bk64.st5.wg2.cm1.cn1",
        "mma.bm128.bn128.bk32.st4.wm2.wn2.mb1",
        "mma.bm64.bn128.bk32.st4.wm2.wn2.mb1"};
    static constexpr const char *kBounds[] = {"tensor", "dram"};
    TimedSubject drawn = subject(kConfigs[random() % std::size(kConfigs)],
                                 1 + int64_t(random() % 64));
    drawn.bound = kBounds[random() % std::size(kBounds)];
    return drawn;
  }
};

struct DrawnTime {
  TimedSubject subject;
  uint32_t series;
  double logFactor;
};

/// Equal to \p share of the greater one. Variances are far below 1, which
/// doctest::Approx adds to what it compares with.
bool isNear(double a, double b, double share) {
  return std::abs(a - b) <= share * std::max(std::abs(a), std::abs(b));
}

Evidence evidenceOf(llvm::ArrayRef<DrawnTime> times) {
  Evidence evidence;
  for (const DrawnTime &time : times)
    evidence.add(time.subject, time.series, time.logFactor);
  evidence.fit();
  return evidence;
}

} // namespace

TEST_CASE_FIXTURE(
    DrawnEvidence,
    "the order of times does not count, and old ones are forgotten") {
  std::vector<DrawnTime> times;
  for (uint32_t i = 0; i < 404; ++i)
    times.push_back({draw(), i / 3, 0.001 * (random() % 200)});
  // Older times than the last 384 are forgotten.
  const Evidence all = evidenceOf(times),
                 last = evidenceOf(llvm::ArrayRef(times).take_back(384));
  auto reversed =
      llvm::to_vector(llvm::reverse(llvm::ArrayRef(times).take_back(384)));
  const Evidence backwards = evidenceOf(reversed);
  Evidence twice;
  for (auto [i, time] : llvm::enumerate(llvm::ArrayRef(times).take_back(384))) {
    twice.add(time.subject, time.series, time.logFactor);
    if (i == 40)
      twice.fit();
  }
  twice.fit();
  for (int i = 0; i < 100; ++i) {
    const TimedSubject a = draw(), b = draw();
    for (const Evidence *same : {&last, &backwards, &std::as_const(twice)}) {
      CHECK(isNear(all.expect(a), same->expect(a), 1e-6));
      CHECK(isNear(all.uncertainty(a, b), same->uncertainty(a, b), 1e-6));
    }
    CHECK(isNear(all.uncertainty(a, b), all.uncertainty(b, a), 1e-9));
    CHECK(all.uncertainty(a, a) == 0);
  }
}

TEST_CASE_FIXTURE(DrawnEvidence, "one time more counts as Bayes' rule says") {
  // The difference of two configs that are timed side by side in a run of their
  // own is known up to the noise of both readings.
  constexpr double kNoise = 0.012;
  std::vector<DrawnTime> times;
  for (uint32_t i = 0; i < 60; ++i)
    times.push_back({draw(), i / 3, 0.001 * (random() % 200)});
  const Evidence before = evidenceOf(times);
  for (int i = 0; i < 100; ++i) {
    const TimedSubject a = draw(), b = draw();
    const double variance = std::pow(before.uncertainty(a, b), 2);
    const double expected = before.expect(a) - before.expect(b);
    constexpr double kSeen = 0.1;
    std::vector<DrawnTime> more = times;
    more.push_back({a, 1000, kSeen});
    more.push_back({b, 1000, 0});
    const Evidence after = evidenceOf(more);
    // Only the difference counts where a run's own error is large beside all.
    const double gain = variance / (variance + 2 * kNoise * kNoise);
    const double seen = after.expect(a) - after.expect(b);
    CHECK(std::abs(seen - expected - gain * (kSeen - expected)) < 0.01);
    const double left = std::pow(after.uncertainty(a, b), 2);
    CAPTURE(variance);
    CAPTURE(gain);
    CHECK(isNear(left, variance * (1 - gain), 0.1));
  }
}
