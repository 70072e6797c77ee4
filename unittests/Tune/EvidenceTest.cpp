#include "Tune/Evidence.h"

#include "Tune/RangeTesting.h"

#include <doctest/doctest.h>

#include <llvm/ADT/STLExtras.h>

#include <cmath>

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
