// Rules for all entries that several processes add to.
#include "Cache/Prune.h"
#include "Store/PortfolioStore.h"
#include "Store/RecordFixture.h"
#include "Support/FileOps.h"

#include <doctest/doctest.h>
#include <llvm/ADT/STLExtras.h>

#include <cstring>
#include <functional>
#include <thread>

using namespace kiln;
using namespace kiln::fake;

namespace {

const PortfolioKey kLaterKey = PortfolioKey::measured("layer\n", "H200");

StoredPortfolio measuredRange(int64_t low, int64_t high, int64_t when) {
  StoredPortfolio made;
  made.low = {low};
  made.high = {high};
  made.isComplete = true;
  made.measuredAtMs = when;
  made.members.push_back({"fast.t64", "digest", {low}, {high}, true, true});
  return made;
}

/// Does something just before a file of an entry is removed.
struct BeforeUnlink : FileOps {
  int unlink(int folder, const char *path) override {
    if (action && !std::strstr(path, ".tmp"))
      std::exchange(action, nullptr)();
    return FileOps::unlink(folder, path);
  }
  std::function<void()> action;
};

std::unique_ptr<cache::Store>
openAt(const TemporaryFolder &folder, FileOps *files = nullptr,
       std::chrono::milliseconds deadline = std::chrono::seconds(20)) {
  cache::StoreOptions options;
  options.writeDir = folder.path();
  options.files = files;
  options.lockDeadline = deadline;
  return cache::Store::open(std::move(options));
}

/// Whether an update of \p kind that reported "stored" is found afterwards,
/// although a pruner was about to remove the entry.
bool survivesPruner(cache::Kind kind) {
  TemporaryFolder folder;
  openAt(folder)->publish(kind, "key", {}, "first");
  BeforeUnlink files;
  bool isStored = false;
  files.action = [&] {
    isStored =
        openAt(folder, nullptr, std::chrono::milliseconds(100))
            ->update(kind, "key", {},
                     [](auto old) { return old.value_or("").str() + "2"; })
            .status == cache::PublishStatus::Stored;
  };
  cache::PruneRules rules;
  rules.maxBytes = 0;
  openAt(folder, &files, std::chrono::milliseconds(100))->prune(rules);
  return !isStored || openAt(folder)->lookup(kind, "key");
}

TEST_CASE("a record that was acknowledged outlives a pruner") {
  CHECK(survivesPruner(cache::Kind::Record));
}

TEST_CASE("a portfolio that was acknowledged outlives a pruner") {
  CHECK(survivesPruner(cache::Kind::Portfolio));
}

TEST_CASE("a portfolio that cannot be read is kept aside") {
  TemporaryFolder folder;
  auto cache = openAt(folder);
  cache->publish(cache::Kind::Portfolio, kLaterKey.text(), {},
                 R"({"ranges": 7, "written": "by a later version"})");
  PortfolioStore(*cache).store(kLaterKey, measuredRange(1, 8, 1));
  bool isKept = false;
  for (const cache::EntryInfo &info : cache->list(cache::Kind::Portfolio))
    isKept |= cache->lookup(cache::Kind::Portfolio, info.key)
                  ->payload.find("by a later version") != std::string::npos;
  CHECK(isKept);
}

TEST_CASE("fields that later versions add to a portfolio are carried along") {
  TemporaryFolder folder;
  auto cache = openAt(folder);
  StoredPortfolios all;
  all.ranges = {measuredRange(1, 8, 1)};
  std::string text = changedLine(all.text(), 1, [&](llvm::json::Object &range) {
    range["added"] = "later in range";
    llvm::json::Array &members = *range.getArray("members");
    (*members[0].getAsObject())["added"] = "later in members";
    members.push_back("a member of another kind");
  });
  text = changedLine(text, 0, [](llvm::json::Object &head) {
    head["added"] = "later in head";
  });
  text += "a range of another kind\n";
  cache->publish(cache::Kind::Portfolio, kLaterKey.text(), {}, text);
  PortfolioStore portfolios(*cache);
  portfolios.store(kLaterKey, measuredRange(16, 32, 2));
  // The same kernels, measured again.
  all.ranges[0].measuredAtMs = 3;
  portfolios.store(kLaterKey, all.ranges[0]);
  const std::string now =
      cache->lookup(cache::Kind::Portfolio, kLaterKey.text())->payload;
  CHECK(now.find("\"measuredAtMs\":3") != std::string::npos);
  for (const char *kept :
       {"later in head", "later in range", "later in members",
        "a member of another", "a range of another"})
    CHECK_MESSAGE(now.find(kept) != std::string::npos, kept);
}

TEST_CASE("stamps from the future do not fill the portfolios of a layer") {
  TemporaryFolder folder;
  auto cache = openAt(folder);
  PortfolioStore store(*cache);
  const int64_t now = unixTimeMs();
  constexpr int64_t kTenYearsMs = int64_t(10) * 365 * 24 * 3600 * 1000;
  for (int64_t i = 0; i < 8; ++i)
    store.store(kLaterKey,
                measuredRange(100 * i + 1, 100 * i + 50, now + kTenYearsMs));
  for (int64_t i = 0; i < 4; ++i)
    store.store(kLaterKey,
                measuredRange(10000 + 100 * i, 10050 + 100 * i, now));
  int today = 0;
  for (const StoredPortfolio &range :
       store.load(kLaterKey, RecordAge::Now)->ranges)
    today += range.measuredAtMs == now;
  CHECK(today == 4);
}

TEST_CASE("the portfolios that are kept parsed have a bound") {
  TemporaryFolder folder;
  auto cache = openAt(folder);
  PortfolioStore store(*cache);
  std::weak_ptr<const StoredPortfolios> first = store.load(kLaterKey);
  for (int i = 0; i < 10000; ++i)
    store.load(PortfolioKey::measured(std::to_string(i) + "\n", "H200"));
  CHECK(first.expired());
}

/// A record of \p points points with \p each measurements.
TuningRecord recordWith(int64_t points, int each) {
  TuningRecord record;
  for (int64_t m = 1; m <= points; ++m) {
    std::vector<Measurement> measurements;
    for (int i = 0; i < each; ++i)
      measurements.push_back(
          measured(("fast.t" + std::to_string(i)).c_str(), 1000 + i));
    record.merge(point(m, "fast.t0", std::move(measurements)));
  }
  return record;
}

// The text of points that are not looked up may be anything.
TEST_CASE("the first find in a record of 1,000 points parses one of them") {
  RecordFixture f;
  std::string text = recordWith(1000, 16).text(), unreadable;
  for (llvm::StringRef rest = text; !rest.empty();) {
    auto [line, next] = rest.split('\n');
    rest = next;
    const bool isKept =
        line.starts_with("{\"format") || line.starts_with("{\"extent\":500,");
    unreadable += (isKept ? line : line.drop_back()).str() + "\n";
  }
  f.cache->publish(cache::Kind::Record,
                   recordKey(f.family, f.problem(1), f.device), {}, unreadable);
  auto cache = openAt(f.folder);
  RecordStore store(*cache);
  RecordMatch match = store.find(f.family, f.problem(500), f.device);
  CHECK(match.configs.size() == 15); // the family does not know fast.t0
  CHECK(store.find(f.family, f.problem(499), f.device).extents ==
        ExtentPoint{500});
}

TEST_CASE("8 processes that store 25 layers at once lose none") {
  constexpr int kProcesses = 8, kLayers = 25;
  TemporaryFolder folder;
  FakeFamily family;
  auto layerOf = [&](int layer) {
    return makeProblem(family, fmt::format("fake m=1 n={}", 64 + layer));
  };
  auto storeAll = [&](int process) {
    auto cache = openAt(folder);
    RecordStore records(*cache);
    PortfolioStore portfolios(*cache);
    bool isStored = true;
    for (int layer = 0; layer < kLayers; ++layer) {
      const std::string config = "fast.t" + std::to_string(process);
      isStored &= records
                      .store(family, layerOf(layer), "class",
                             point(1, config.c_str(),
                                   {measured(config.c_str(), 1000 + process)}))
                      .publish.status == cache::PublishStatus::Stored;
      isStored &=
          portfolios
              .store(
                  PortfolioKey::measured(fmt::format("{}\n", layer), "class"),
                  measuredRange(process * 10 + 1, process * 10 + 9, 1000))
              .publish.status == cache::PublishStatus::Stored;
    }
    return isStored;
  };
  std::vector<std::thread> processes;
  std::vector<char> isStored(kProcesses);
  for (int process = 0; process < kProcesses; ++process)
    processes.emplace_back([&, process] {
      isStored[static_cast<size_t>(process)] = storeAll(process);
    });
  for (std::thread &process : processes)
    process.join();
  CHECK(llvm::count(isStored, true) == kProcesses);
  auto cache = openAt(folder);
  RecordStore records(*cache);
  PortfolioStore portfolios(*cache);
  for (int layer = 0; layer < kLayers; ++layer) {
    auto record = records.load(family, layerOf(layer), "class");
    REQUIRE(record->size() == 1);
    CHECK(record->at(0).measurements.size() == kProcesses);
    const auto key =
        PortfolioKey::measured(fmt::format("{}\n", layer), "class");
    CHECK(portfolios.load(key)->ranges.size() == kProcesses);
  }
}

} // namespace
