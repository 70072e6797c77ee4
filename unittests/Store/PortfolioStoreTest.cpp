#include "Store/PortfolioStore.h"

#include "Store/StoreFixture.h"
#include "Support/Error.h"

#include <doctest/doctest.h>

#include <chrono>

using namespace kiln;
using namespace kiln::fake;

namespace {

StoredMember member(std::string config, int64_t low, int64_t high,
                    bool isMeasured = false) {
  return {std::move(config), "digest", {low}, {high}, isMeasured, isMeasured};
}

StoredPortfolio portfolio(int64_t low, int64_t high, size_t measured = 1,
                          int64_t when = 1) {
  StoredPortfolio made;
  made.low = {low};
  made.high = {high};
  made.regret = 0.02;
  made.isComplete = true;
  made.measuredAtMs = when;
  for (size_t i = 0; i < 3; ++i)
    made.members.push_back(
        member("fast.t" + std::to_string(i), low, high, i < measured));
  return made;
}

StoredPortfolios parsed(llvm::StringRef json) {
  return must(StoredPortfolios::open(json.str()));
}

const PortfolioKey kKey = PortfolioKey::measured("layer\n", "H200");

TEST_CASE("a portfolio is read as it was written") {
  StoredPortfolios all;
  all.ranges = {portfolio(1, 8192, 3), portfolio(4, 5, 0)};
  all.ranges[0].anchors = {{1}, {7}, {8192}};
  all.ranges[1].isComplete = false;
  CHECK(parsed(all.text()).ranges == all.ranges);
}

TEST_CASE("a store that is outdone by what is there says so") {
  StoreFixture f;
  PortfolioStore store(*f.cache);
  CHECK_FALSE(store.store(kKey, portfolio(1, 64, 3)).isOutdone);
  const PortfolioStore::StoreResult fewer =
      store.store(kKey, portfolio(1, 64, 2, 5));
  CHECK(fewer.isOutdone);
  CHECK(fewer.wasThere);
  CHECK(store.find(kKey, {1}, {64})->measuredMembers() == 3);
  CHECK_FALSE(store.store(kKey, portfolio(1, 64, 2, 5), true).isOutdone);
  CHECK(store.isOnDisk(kKey));
  CHECK_FALSE(store.isOnDisk(PortfolioKey::measured("other\n", "H200")));
}

TEST_CASE("what is damaged is skipped, the rest serves") {
  StoredPortfolios all;
  all.ranges = {portfolio(1, 64, 2), portfolio(65, 128, 1)};
  auto damaged = [&](auto change) {
    return parsed(changedLine(all.text(), 1, [&](llvm::json::Object &first) {
      change(first, *(*first.getArray("members"))[0].getAsObject());
    }));
  };
  using Object = llvm::json::Object;
  // A member that makes no sense goes, and the portfolio is not whole.
  for (auto change : std::vector<std::function<void(Object &)>>{
           [](Object &m) { m["config"] = 7; },
           [](Object &m) { m["kernel"] = ""; },
           [](Object &m) { m.erase("validated"); },
           [](Object &m) { m["low"] = llvm::json::Array{0}; },
           [](Object &m) { m["high"] = llvm::json::Array{65}; },
           [](Object &m) {
             m["low"] = llvm::json::Array{9, 9};
           },
           [](Object &m) { m["high"] = llvm::json::Array{}; },
           [](Object &m) { m["low"] = "1"; }}) {
    StoredPortfolios read =
        damaged([&](Object &, Object &member) { change(member); });
    REQUIRE(read.ranges.size() == 2);
    CHECK(read.ranges[0].members.size() == 2);
    CHECK(read.ranges[0].unreadMembers.size() == 1);
    CHECK_FALSE(read.ranges[0].isComplete);
    CHECK(read.ranges[1] == all.ranges[1]);
  }
  // A range that makes no sense is skipped.
  for (auto change : std::vector<std::function<void(Object &)>>{
           [](Object &p) { p.erase("members"); },
           [](Object &p) { p["members"] = llvm::json::Array{7}; },
           [](Object &p) {
             p["anchors"] = llvm::json::Array{1, 65};
           },
           [](Object &p) { p["low"] = llvm::json::Array{65}; },
           [](Object &p) { p["regret"] = -1; },
           [](Object &p) { p["complete"] = 1; },
           [](Object &p) { p.erase("measuredAtMs"); }}) {
    StoredPortfolios read =
        damaged([&](Object &range, Object &) { change(range); });
    REQUIRE(read.ranges.size() == 1);
    CHECK(read.ranges[0] == all.ranges[1]);
    CHECK(read.other.unread.size() == 1);
  }
  for (const char *text : {"", "[]", "{}", "{\"ranges\": 7}", "{\"ranges\": [",
                           "{\"format\":3,\"holds\":\"portfolio\"}"}) {
    auto read = StoredPortfolios::open(text);
    CHECK_FALSE(read);
    llvm::consumeError(read.takeError());
  }
}

TEST_CASE("a portfolio without members says that nothing is right") {
  StoredPortfolios all;
  all.ranges = {portfolio(1, 64, 0)};
  all.ranges[0].members.clear();
  CHECK(parsed(all.text()).ranges == all.ranges);
  CHECK(all.ranges[0].isHopeless());
}

TEST_CASE("the choice for a value has an entry of its own") {
  StoreFixture f;
  PortfolioStore store(*f.cache);
  const auto key = PortfolioKey::ofValue(f.problem, f.device);
  StoredPortfolio decision = portfolio(64, 64, 0);
  decision.measuredAtMs = 0;
  CHECK_FALSE(store.store(key, decision, true).wasThere);
  CHECK(store.store(key, decision, true).wasThere);
  std::swap(decision.members[0], decision.members[1]);
  CHECK_FALSE(store.store(key, decision, true).wasThere);
  CHECK(store.load(key)->ranges == std::vector{decision});
  const Problem other = makeProblem(f.family, "fake m=65 n=64");
  CHECK(store.load(PortfolioKey::ofValue(other, f.device))->ranges.empty());
}

TEST_CASE("the narrowest measured range that contains the asked one answers") {
  StoredPortfolios all;
  all.ranges = {portfolio(1, 8192), portfolio(1, 64), portfolio(1, 32, 0)};
  auto find = [&](int64_t low, int64_t high) {
    return all.find(std::vector<int64_t>{low}, std::vector<int64_t>{high});
  };
  CHECK(find(1, 64) == &all.ranges[1]);
  CHECK(find(17, 17) == &all.ranges[1]);
  CHECK(find(60, 65) == &all.ranges[0]);
  CHECK(find(1, 9000) == nullptr);
  CHECK(all.findAll(std::vector<int64_t>{1}, std::vector<int64_t>{32}) ==
        std::vector<const StoredPortfolio *>{&all.ranges[1], &all.ranges[0],
                                             &all.ranges[2]});
  CHECK(all.find(std::vector<int64_t>{1, 1}, std::vector<int64_t>{2, 2}) ==
        nullptr);
}

TEST_CASE("a stale portfolio gives way to one of today's kernels") {
  StoredPortfolio stale = portfolio(1, 64, 3, 1),
                  today = portfolio(1, 64, 1, 2);
  for (StoredMember &member : stale.members)
    member.kernel = "of an earlier release";
  StoredPortfolios all;
  all.merge(stale, false);
  all.merge(today, false);
  CHECK(all.ranges.front() == today);
  // This holds for a part of a wider one, too, and even if it claims to be
  // complete.
  StoredPortfolio wider = portfolio(1, 128, 1, 3);
  wider.isComplete = false;
  all.ranges = {stale};
  all.merge(wider, false);
  CHECK(all.ranges == std::vector{wider});
  // Only members that both have count.
  stale.members[0].kernel = stale.members[1].kernel = "digest";
  all.ranges = {stale};
  CHECK_FALSE(all.merge(today, false));
}

TEST_CASE("of two of one range the one with more measured members stays") {
  StoredPortfolios all;
  all.merge(portfolio(1, 64, 2, 1), false);
  all.merge(portfolio(1, 64, 1, 2), false);
  CHECK(all.ranges.front().measuredAtMs == 1);
  all.merge(portfolio(1, 64, 2, 3), false);
  CHECK(all.ranges.front().measuredAtMs == 3);
  all.merge(portfolio(1, 64, 0, 4), true);
  CHECK(all.ranges.front().measuredAtMs == 4);
  CHECK(all.ranges.size() == 1);
  // A wider one replaces a narrower one that knows no more.
  all.merge(portfolio(65, 128, 3, 5), false);
  all.merge(portfolio(1, 8192, 2, 6), false);
  REQUIRE(all.ranges.size() == 2);
  CHECK(all.ranges[0].low[0] == 65);
  // An entry does not grow without end.
  for (int64_t i = 0; i < 20; ++i)
    all.merge(portfolio(10000 + i * 10, 10005 + i * 10, 1, 10 + i), false);
  CHECK(all.ranges.size() == 8);
  CHECK(all.ranges.back().measuredAtMs == 29);
}

TEST_CASE("portfolios are kept in the cache") {
  StoreFixture f;
  PortfolioStore store(*f.cache, {std::chrono::milliseconds(0)});
  CHECK(store.load(kKey)->ranges.empty());
  CHECK(store.store(kKey, portfolio(1, 64)).publish.status ==
        cache::PublishStatus::Stored);
  auto found =
      store.find(kKey, std::vector<int64_t>{3}, std::vector<int64_t>{3});
  REQUIRE(found);
  CHECK(*found == portfolio(1, 64));
  CHECK(store.store(kKey, portfolio(1, 64)).wasThere);
  CHECK_FALSE(store.store(kKey, portfolio(1, 64)).isOutdone);
  CHECK_FALSE(store.store(kKey, portfolio(100, 200)).wasThere);
  CHECK(store.load(kKey)->ranges.size() == 2);
  // An unchanged entry is the same object.
  CHECK(store.load(kKey) == store.load(kKey));
  // Other layers, devices and products have their own.
  CHECK(store.load(PortfolioKey::measured("layer\n", "H100"))->ranges.empty());
  CHECK(store.load(PortfolioKey::measured("other\n", "H200"))->ranges.empty());
  CHECK(
      store.load(PortfolioKey::estimated("layer\n", f.device))->ranges.empty());
  CHECK(f.cache->list(cache::Kind::Portfolio).size() == 1);
}

TEST_CASE("what another process stores is seen after the interval") {
  StoreFixture f;
  PortfolioStore now(*f.cache, {std::chrono::milliseconds(0)});
  PortfolioStore later(*f.cache, {std::chrono::hours(1)});
  CHECK(now.load(kKey)->ranges.empty());
  CHECK(later.load(kKey)->ranges.empty());
  PortfolioStore(*f.cache).store(kKey, portfolio(1, 64));
  CHECK(now.load(kKey)->ranges.size() == 1);
  CHECK(later.load(kKey)->ranges.empty());
  // One's own is seen at once.
  later.store(kKey, portfolio(100, 200));
  CHECK(later.load(kKey)->ranges.size() == 2);
}

TEST_CASE("a store that reads once keeps what it read, whatever is stored") {
  StoreFixture f;
  PortfolioStore once(*f.cache,
                      {.recheckInterval = std::chrono::milliseconds(0),
                       .maxKeptBytes = 1,
                       .readsOnce = true});
  CHECK(once.load(kKey)->ranges.empty());
  PortfolioKey another = kKey;
  another.device = "another";
  CHECK(once.load(another)->ranges.empty());
  PortfolioStore other(*f.cache);
  other.store(kKey, portfolio(1, 64));
  for (RecordAge age : {RecordAge::Recent, RecordAge::Now})
    CHECK(once.load(kKey, age)->ranges.empty());
  // Its own reaches the cache, beside what is there.
  once.store(kKey, portfolio(100, 200));
  CHECK(once.load(kKey)->ranges.empty());
  CHECK(PortfolioStore(*f.cache).load(kKey)->ranges.size() == 2);
}

TEST_CASE("an entry that cannot be read counts as missing, and heals") {
  StoreFixture f;
  PortfolioStore store(*f.cache, {std::chrono::milliseconds(0)});
  f.cache->publish(cache::Kind::Portfolio, kKey.text(), {}, "{\"ranges\": 3}");
  CHECK(store.load(kKey)->ranges.empty());
  store.store(kKey, portfolio(1, 64));
  CHECK(store.load(kKey)->ranges.size() == 1);
}

} // namespace
