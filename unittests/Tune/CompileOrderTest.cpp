#include "Tune/CompileOrder.h"

#include "Store/StoreFixture.h"

using namespace kiln;
using namespace kiln::fake;

namespace {
/// Configs of the fake family as candidates.
struct Ranking {
  void add(llvm::StringRef config, double ns) {
    const KernelFamily::NamedConfig named = must(family.parseConfig(config));
    Candidate &candidate = ranked.emplace_back();
    candidate.tmpl = named.tmpl;
    candidate.config = named.config;
    candidate.estimate.totalNs = ns;
  }
  std::optional<size_t> next(llvm::ArrayRef<size_t> tried) const {
    return nextToCompile(ranked, tried, [](size_t) { return true; });
  }

  FakeFamily family;
  std::vector<Candidate> ranked;
};
} // namespace

TEST_CASE("configs that differ in run-time knobs alone share a kernel") {
  Ranking f;
  for (const char *config :
       {"fast.t64", "fast.t64.s4", "fast.t32", "plain.t32"})
    f.add(config, 1000);
  CHECK(sharesKernel(f.ranked[0], f.ranked[1]));
  CHECK_FALSE(sharesKernel(f.ranked[0], f.ranked[2]));
  CHECK_FALSE(sharesKernel(f.ranked[2], f.ranked[3]));
}

TEST_CASE("what was refused is compiled with no other run-time knobs") {
  Ranking f;
  for (const char *config : {"fast.t64", "fast.t64.s4", "fast.t32"})
    f.add(config, 1000);
  CHECK(f.next({}) == 0);
  CHECK(f.next({0}) == 2);
  CHECK(f.next({0, 2}) == std::nullopt);
  CHECK(nextToCompile(f.ranked, {}, [](size_t rank) { return rank > 1; }) == 2);
}

TEST_CASE(
    "a generic kernel has its turn in its place unless it is far slower") {
  Ranking f;
  f.add("fast.t64", 1000);
  SUBCASE("in its place") {
    f.add("plain.t32", 8000);
    f.add("fast.t32", 9000);
    CHECK(f.next({0}) == 1);
    CHECK(f.next({0, 1}) == 2);
  }
  SUBCASE("behind the others") {
    f.add("plain.t32", 8001);
    f.add("fast.t32", 9000);
    CHECK(f.next({0}) == 2);
    CHECK(f.next({0, 2}) == 1);
    CHECK(f.next({0, 1, 2}) == std::nullopt);
  }
}

TEST_CASE("of a ranking of nothing nothing is compiled") {
  CHECK(Ranking().next({}) == std::nullopt);
}
