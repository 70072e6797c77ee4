#include "Tune/KnownCover.h"

#include "Tune/RangeCover.h"
#include "Tune/RangeTesting.h"

#include <doctest/doctest.h>

using namespace kiln;
using namespace kiln::testing;

namespace {

constexpr const char *kLayer = "gemm m=1 n=6144 k=4096 dtype=bf16 layout=NT";

ProblemRange layer(int64_t high) { return rangeOf(kLayer, {{"m", 1, high}}); }

/// A cover of all of layer(64), without any facts.
Portfolio searched() {
  return llvm::cantFail(coverRange(layer(64), h200(), {}));
}

PortfolioMember measuredAt(PortfolioMember member, int64_t m) {
  member.validated = true;
  member.times = {{ExtentPoint{m}, 3000, 2000}};
  return member;
}

} // namespace

TEST_CASE("a known cover has what is known of its members today") {
  Portfolio cover = searched();
  REQUIRE(cover.members().size() > 2);
  // The time is of an earlier session, and not stored.
  cover.mutableMembers()[2] = measuredAt(cover.members()[2], 9);
  const PortfolioMember kept = measuredAt(cover.members()[0], 64);
  const PortfolioMember ofPart = measuredAt(cover.members()[1], 5);
  const BarredConfigs none(layer(64), h200());
  auto renewed = renewCover(cover, layer(64), kept, ofPart, none);
  REQUIRE(renewed);
  const std::vector<PortfolioMember> &members = renewed->members();
  REQUIRE(members.size() == cover.members().size());
  for (size_t i = 0; i < members.size(); ++i) {
    CHECK(members[i].config == cover.members()[i].config);
    CHECK(members[i].validated == (i < 2));
    CHECK(members[i].times.size() == (i < 2 ? 1 : 0));
  }
  CHECK_FALSE(renewed->evidence().empty());
}

TEST_CASE(
    "a known cover is of no use for another range or with other members") {
  const Portfolio cover = searched();
  BarredConfigs barred(layer(64), h200());
  CHECK(renewCover(cover, layer(64), {}, {}, barred));
  CHECK_FALSE(renewCover(cover, layer(63), {}, {}, barred));
  SUBCASE("it lacks one that is kept") {
    Portfolio fewer = cover;
    const PortfolioMember lost = fewer.members().back();
    fewer.mutableMembers().pop_back();
    CHECK_FALSE(renewCover(fewer, layer(64), lost, {}, barred));
  }
  SUBCASE("one is barred") {
    const PortfolioMember &wrong = cover.members().front();
    barred.add(*wrong.tmpl, wrong.config);
    CHECK_FALSE(renewCover(cover, layer(64), {}, {}, barred));
  }
}
