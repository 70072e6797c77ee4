#include "Kernel/Space.h"

#include "Kernel/ConfigSchema.h"

#include <doctest/doctest.h>

using namespace kiln;

static Candidate candidate(int32_t order, double ns, uint64_t classKey,
                           int32_t classRank = 0) {
  Candidate c;
  c.order = order;
  c.estimate.totalNs = ns;
  c.candidateClass = {classKey, classRank};
  return c;
}

static std::vector<int32_t> ranked(std::vector<Candidate> candidates) {
  rankCandidates(candidates);
  std::vector<int32_t> orders;
  for (const Candidate &c : candidates)
    orders.push_back(c.order);
  return orders;
}

TEST_CASE("the best of each class precedes every second-best") {
  CHECK(ranked({candidate(0, 100, 1), candidate(1, 110, 1),
                candidate(2, 200, 2), candidate(3, 300, 3),
                candidate(4, 190, 2)}) == std::vector<int32_t>{0, 4, 3, 1, 2});
}

TEST_CASE("templates choose the keys of their classes freely") {
  Candidate a = candidate(0, 100, ~uint64_t{0}), b = candidate(1, 110, 0);
  Candidate c = candidate(2, 120, ~uint64_t{0}), d = c;
  // Only told apart, never called.
  d.tmpl = reinterpret_cast<const Template *>(&d);
  d.order = 3;
  CHECK(ranked({d, c, b, a}) == std::vector<int32_t>{0, 1, 3, 2});
}

TEST_CASE("ties follow the class's rank, then the order of the space") {
  // 100, 101 and 102 tie with the best of the set; 102.5 does not.
  CHECK(ranked({candidate(0, 102, 1, 0), candidate(1, 101, 2, 1),
                candidate(2, 100, 3, 1), candidate(3, 102.5, 4, 0)}) ==
        std::vector<int32_t>{0, 1, 2, 3});
}

TEST_CASE("a set begins again with the first that does not tie") {
  // 101.9 ties with 100; 103.9 ties with 103 and not with 101.9.
  CHECK(ranked({candidate(0, 103.9, 1, 0), candidate(1, 103, 2, 1),
                candidate(2, 101.9, 3, 0), candidate(3, 100, 4, 1)}) ==
        std::vector<int32_t>{2, 3, 0, 1});
}

TEST_CASE("what ranks by time has neither a leader nor ties") {
  auto byTime = [](Candidate candidate) {
    candidate.candidateClass.ranksByTime = true;
    return candidate;
  };
  CHECK(ranked({byTime(candidate(0, 101, 1)), byTime(candidate(1, 100, 1)),
                byTime(candidate(2, 300, 1)), candidate(3, 200, 2),
                candidate(4, 210, 2), candidate(5, 199, 3)}) ==
        std::vector<int32_t>{1, 0, 3, 5, 2, 4});
  // Sums of the same parts in other orders are one time.
  const double ns = 0.1 + 0.2 + 0.3, other = 0.1 + (0.2 + 0.3);
  REQUIRE(ns != other);
  for (const auto &[first, second] : {std::pair(ns, other), {other, ns}})
    CHECK(ranked({byTime(candidate(1, first, 1)),
                  byTime(candidate(0, second, 1))}) ==
          std::vector<int32_t>{0, 1});
}

namespace {
struct ToyConfig {
  int blockM = 16, stages = 2, splitK = 1;
  template <class F> static constexpr void forEachField(F &&f) {
    f("bm", "blockM", &ToyConfig::blockM, 16);
    f("st", "stages", &ToyConfig::stages, 2);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&f) {
    f("sk", "splitK", &ToyConfig::splitK, 1);
  }
  bool operator==(const ToyConfig &) const = default;
};
} // namespace

TEST_CASE("a config's field list gives its records and its initialiser") {
  Schema schema = makeConfigSchema<ToyConfig>("toy");
  ToyConfig config{.blockM = 64, .stages = 3, .splitK = 4};
  Values values = toValues(config, schema);
  CHECK(values.text() == "toy.bm64.st3.sk4");
  CHECK(toValues(ToyConfig{}, schema).text() == "toy.bm16.st2");
  CHECK(fromValues<ToyConfig>(values) == config);
  CHECK(initializerText(config) == "{.blockM = 64, .stages = 3}");
  CHECK(!!Values::parse(schema, "toy.bm64.st3"));
  auto zero = Values::parse(schema, "toy.bm0.st3");
  CHECK(!zero);
  llvm::consumeError(zero.takeError());
}
