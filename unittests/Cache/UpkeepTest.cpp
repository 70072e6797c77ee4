// The one limit of a folder, its keeper, and the entries that must stay.
#include "Cache/Upkeep.h"

#include "Cache/Prune.h"
#include "Cache/StoreTesting.h"
#include "Cache/Tier.h"

#include <doctest/doctest.h>

using namespace kiln;
using namespace kiln::cache;
using namespace kiln::cache::testing;

namespace {
constexpr size_t kPayload = 5000;

struct UpkeepFixture {
  TemporaryFolder folder;
  Warnings warnings;

  std::unique_ptr<Store> open(uint64_t limit, FileOps *files = nullptr,
                              bool evicts = true) {
    StoreOptions options;
    options.writeDir = folder / "cache";
    options.limitBytes = limit;
    options.evicts = evicts;
    options.files = files;
    options.log = warnings.log();
    return Store::open(std::move(options));
  }
  void put(Store &store, int first, int count) {
    for (int i = first; i < first + count; ++i)
      REQUIRE(store.publish(Kind::Artifact, std::to_string(i), {}, payload(i))
                  .status == PublishStatus::Stored);
  }
  static std::string payload(int i) {
    return makePayload(static_cast<uint32_t>(i), kPayload);
  }
  int countOf(int first, int count) {
    auto reader = openStore(folder / "cache");
    int found = 0;
    for (int i = first; i < first + count; ++i)
      found += reader->isOnDisk(Kind::Artifact, std::to_string(i));
    return found;
  }
  Tier tier() {
    return Tier(FileOps::system(), folder / "cache", TierKind::Write);
  }
};
} // namespace

TEST_CASE("the upkeep file is read as it was written, and else tells nothing") {
  UpkeepState state{123, 4567, 89};
  CHECK(UpkeepState::parse(state.text()) == state);
  state.usedBytes.reset();
  state.limitBytes = kNoLimit;
  CHECK(UpkeepState::parse(state.text()) == state);
  const std::string text = state.text();
  for (size_t length = 0; length < text.size(); ++length)
    CHECK(UpkeepState::parse(text.substr(0, length)) == UpkeepState());
  CHECK(UpkeepState::parse(text + "\n") == UpkeepState());
  state.sweptAt = INT64_MIN;
  CHECK(UpkeepState::parse(state.text()) == UpkeepState());
}

TEST_CASE_FIXTURE(UpkeepFixture,
                  "fault 21: upkeep leaves what the store published or found") {
  auto others = open(0);
  put(*others, 100, 4);
  auto store = open(3 * kPayload);
  CHECK(store->lookup(Kind::Artifact, "100"));
  for (int i = 0; i < 8; ++i) {
    put(*store, i, 1);
    store->upkeep(kPayload);
  }
  CHECK(countOf(0, 8) == 8);
  CHECK(countOf(100, 1) == 1);
  // The rest had to go, which is told.
  CHECK(countOf(101, 3) == 0);
  CHECK(store->statistics().evicted == 3);
  CHECK(store->statistics().evictedBytes > 3 * kPayload);
  CHECK(warnings.mention("under its limit of 15000 bytes"));
  CHECK(warnings.mention("over its limit of 15000: this process uses them"));

  // Another process may make room from them.
  auto next = open(3 * kPayload);
  next->upkeep(0);
  CHECK(countOf(0, 8) == 2);
}

TEST_CASE_FIXTURE(UpkeepFixture,
                  "fault 21: the largest limit that was asked for counts") {
  auto tool = open(kDefaultLimitBytes, nullptr, /*evicts=*/false);
  put(*tool, 0, 8);
  tool->upkeep(8 * kPayload);
  auto neighbour = open(2 * kPayload);
  CHECK(neighbour->limitBytes() == kDefaultLimitBytes);
  put(*neighbour, 8, 4);
  neighbour->upkeep(4 * kPayload);
  CHECK(countOf(0, 12) == 12);

  // Without limit is the largest; a smaller one comes by request alone.
  CHECK(open(kNoLimit)->limitBytes() == kNoLimit);
  PruneRules rules;
  rules.maxBytes = 5 * (kPayload + 500);
  rules.isDryRun = true;
  tool->prune(rules);
  CHECK(tool->limitBytes() == kNoLimit);
  rules.isDryRun = false;
  tool->prune(rules);
  CHECK(tool->limitBytes() == *rules.maxBytes);
  CHECK(open(*rules.maxBytes + 1)->limitBytes() == *rules.maxBytes + 1);
  CHECK(openStore(folder / "other")->limitBytes() == 0);
}

TEST_CASE_FIXTURE(UpkeepFixture, "a store that does not evict never does") {
  auto tool = open(kPayload, nullptr, /*evicts=*/false);
  put(*open(0), 0, 4);
  tool->upkeep(4 * kPayload);
  CHECK(countOf(0, 4) == 4);
}

TEST_CASE_FIXTURE(UpkeepFixture,
                  "fault 21: one evictor at a time, and none that waits") {
  put(*open(0), 0, 4);
  auto store = open(44000);
  store->upkeep(0); // counts what is there
  put(*open(0), 4, 7);
  EvictorClaim stopped(FileOps::system(), tier());
  CHECK_FALSE(stopped.isTheirs());
  CHECK(EvictorClaim(FileOps::system(), tier()).isTheirs());
  store->upkeep(6 * kPayload);
  CHECK(countOf(0, 11) == 11);
  // A quarter over the limit others go on beside it.
  store->upkeep(2 * kPayload);
  CHECK(countOf(0, 11) < 9);
}

TEST_CASE_FIXTURE(UpkeepFixture,
                  "upkeep looks at no entry while there is room") {
  FaultyFileOps files;
  auto store = open(uint64_t(1) << 30, &files);
  put(*store, 0, 200);
  store->upkeep(200 * kPayload);
  files.arm(0, 0);
  store->upkeep(kPayload);
  CHECK(files.calls < 30);
}

TEST_CASE_FIXTURE(UpkeepFixture,
                  "writers of several processes count together") {
  open(1000 * kPayload)->upkeep(0);
  constexpr int kEach = 20;
  CHECK(runProcesses(4, [&](int child) {
          auto store = open(1000 * kPayload);
          for (int i = 0; i < kEach; ++i) {
            put(*store, 1000 * child + i, 1);
            store->upkeep(kPayload);
          }
          return true;
        }) == 0);
  CHECK(readUpkeep(FileOps::system(), tier()).usedBytes.value_or(0) >=
        uint64_t(4 * kEach - 8) * kPayload);
}

TEST_CASE_FIXTURE(UpkeepFixture,
                  "entries on disk are told apart from those in memory") {
  auto store = open(0);
  put(*store, 0, 1);
  CHECK(store->isOnDisk(Kind::Artifact, "0"));
  CHECK_FALSE(store->isOnDisk(Kind::Record, "0"));
  StoreOptions options;
  options.readDirs = {folder / "cache"};
  auto reader = Store::open(std::move(options));
  CHECK(reader->isOnDisk(Kind::Artifact, "0"));
  reader->publish(Kind::Artifact, "1", {}, "x");
  CHECK_FALSE(reader->isOnDisk(Kind::Artifact, "1"));
}
