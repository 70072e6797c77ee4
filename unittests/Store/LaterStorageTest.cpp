// Shortcomings of the storage of records and portfolios. Each case that is
// marked fails today, and loses its mark with the change that makes it pass.
#include "Cache/Prune.h"
#include "Store/PortfolioStore.h"
#include "Store/RecordFixture.h"
#include "Support/FileOps.h"
#include "Support/Json.h"

#include <doctest/doctest.h>

#include <cstring>
#include <functional>

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
  made.members.push_back(
      {"fast.t64", "digest", {low}, {high}, true, {{{low}, 1000, 900}}});
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

/// Counts what is read.
struct CountingReads : FileOps {
  ssize_t read(int fd, void *to, size_t bytes) override {
    const ssize_t got = FileOps::read(fd, to, bytes);
    total += got > 0 ? static_cast<uint64_t>(got) : 0;
    return got;
  }
  uint64_t total = 0;
};

std::unique_ptr<cache::Store> openAt(const TemporaryFolder &folder,
                                     FileOps *files = nullptr) {
  cache::StoreOptions options;
  options.writeDir = folder.path();
  options.files = files;
  options.lockDeadline = std::chrono::milliseconds(100);
  return cache::Store::open(std::move(options));
}

/// Whether an update of \p kind that was told "stored", while a pruner was
/// about to remove the entry, is found afterwards.
bool survivesPruner(cache::Kind kind) {
  TemporaryFolder folder;
  openAt(folder)->publish(kind, "key", {}, "first");
  BeforeUnlink files;
  bool isStored = false;
  files.action = [&] {
    isStored =
        openAt(folder)
            ->update(kind, "key", {},
                     [](auto old) { return old.value_or("").str() + "2"; })
            .status == cache::PublishStatus::Stored;
  };
  cache::PruneRules rules;
  rules.maxBytes = 0;
  openAt(folder, &files)->prune(rules);
  return !isStored || openAt(folder)->lookup(kind, "key");
}

TEST_CASE("a record that was acknowledged outlives a pruner") {
  CHECK(survivesPruner(cache::Kind::Record));
}

TEST_CASE("a portfolio that was acknowledged outlives a pruner" *
          doctest::should_fail()) {
  CHECK(survivesPruner(cache::Kind::Portfolio));
}

TEST_CASE("a portfolio that cannot be read is kept aside" *
          doctest::should_fail()) {
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

TEST_CASE("fields that later versions add to a portfolio are carried along" *
          doctest::should_fail()) {
  TemporaryFolder folder;
  auto cache = openAt(folder);
  StoredPortfolios all;
  all.ranges = {measuredRange(1, 8, 1)};
  llvm::json::Object text = all.toJson();
  (*(*text.getArray("ranges"))[0].getAsObject())["added"] = "later";
  cache->publish(cache::Kind::Portfolio, kLaterKey.text(), {},
                 printJson(std::move(text)));
  PortfolioStore(*cache).store(kLaterKey, measuredRange(16, 32, 2));
  CHECK(cache->lookup(cache::Kind::Portfolio, kLaterKey.text())
            ->payload.find("later") != std::string::npos);
}

TEST_CASE("stamps from the future do not fill the portfolios of a layer" *
          doctest::should_fail()) {
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

TEST_CASE("the portfolios that are kept parsed have a bound" *
          doctest::should_fail()) {
  TemporaryFolder folder;
  auto cache = openAt(folder);
  PortfolioStore store(*cache);
  std::weak_ptr<const StoredPortfolios> first = store.load(kLaterKey);
  for (int i = 0; i < 10000; ++i)
    store.load(PortfolioKey::measured(std::to_string(i) + "\n", "H200"));
  CHECK(first.expired());
}

// The bar is 1 ms; bytes are the same on each machine, and parsing takes about
// 10 ns for each of them.
TEST_CASE("the first find in a record of 1,000 points reads little of it" *
          doctest::should_fail()) {
  RecordFixture f;
  TuningRecord record;
  for (int64_t m = 1; m <= 1000; ++m) {
    std::vector<Measurement> measurements;
    for (int i = 0; i < 16; ++i)
      measurements.push_back(
          measured(("fast.t" + std::to_string(i)).c_str(), 1000 + i));
    record.points.push_back(point(m, "fast.t0", std::move(measurements)));
  }
  f.cache->publish(cache::Kind::Record,
                   recordKey(f.family, f.problem(1), f.device), {},
                   printJson(record.toJson()));
  CountingReads files;
  auto cache = openAt(f.folder, &files);
  RecordStore store(*cache);
  REQUIRE_FALSE(store.find(f.family, f.problem(500), f.device).configs.empty());
  CHECK(files.total <= 100'000);
}

} // namespace
