// The entries that go, their order, and the entries that always stay.
#include "Cache/Prune.h"

#include "Cache/StoreTesting.h"

#include <doctest/doctest.h>
#include <fcntl.h>

using namespace kiln;
using namespace kiln::cache;
using namespace kiln::cache::testing;

namespace {
constexpr int kHour = 3600, kDay = 24 * kHour;

/// Gives a file a stamp of so many seconds ago.
void age(const std::string &path, int seconds) {
  struct timespec times[2] = {};
  ::clock_gettime(CLOCK_REALTIME, &times[0]);
  times[0].tv_sec -= seconds;
  times[1] = times[0];
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW) == 0);
}

struct PruneFixture {
  TemporaryFolder folder;
  FaultyFileOps ops;
  std::unique_ptr<Store> store = openStore(folder / "cache", &ops);

  std::string put(Kind kind, const std::string &key, int seconds,
                  size_t bytes = 1000) {
    REQUIRE(store->publish(kind, key, {}, makePayload(1, bytes)).status ==
            PublishStatus::Stored);
    age(path(kind, key), seconds);
    return path(kind, key);
  }
  std::string path(Kind kind, const std::string &key) {
    return pathOf(folder / "cache", kind, key);
  }
  bool has(Kind kind, const std::string &key) {
    return std::filesystem::exists(path(kind, key));
  }
  /// A file in the shard of \p key.
  std::string besides(const std::string &key, const std::string &name,
                      int seconds) {
    std::string file =
        std::filesystem::path(path(Kind::Artifact, key)).parent_path() / name;
    writeBytes(file, "x");
    age(file, seconds);
    return file;
  }
};

uint64_t sizeOf(const std::string &path) {
  return std::filesystem::file_size(path);
}
} // namespace

TEST_CASE_FIXTURE(PruneFixture,
                  "F8: temporary files go by age, name and owner") {
  put(Kind::Artifact, "key", 0);
  std::string stale = besides("key", temporaryName(), kHour + 10);
  std::string fresh = besides("key", temporaryName(), 0);
  std::string ahead = besides("key", temporaryName(), -10 * kDay);
  std::string other = besides("key", ".tmp.1.host.0123", kDay);
  std::string text = besides("key", "README", kDay);
  std::string link = besides("key", "target", kDay);
  std::filesystem::path folderOfKey =
      std::filesystem::path(stale).parent_path();
  std::string linkName = folderOfKey / temporaryName();
  std::filesystem::create_symlink(link, linkName);
  age(linkName, kDay);
  std::string theirs = besides("key", temporaryName(), kDay);
  bool isRoot = ::geteuid() == 0;
  if (isRoot)
    REQUIRE(::chown(theirs.c_str(), 12345, 0) == 0);
  else
    std::filesystem::remove(theirs);

  int temporaries = 0;
  for (const VerifyItem &item : store->verify())
    temporaries += item.state == VerifyItem::State::Temporary;
  CHECK(temporaries == (isRoot ? 5 : 4));

  PruneRules rules;
  rules.isDryRun = true;
  CHECK(store->prune(rules).removed.size() == 1);
  CHECK(std::filesystem::exists(stale));
  rules.isDryRun = false;
  PruneResult result = store->prune(rules);
  REQUIRE(result.removed.size() == 1);
  CHECK(result.removed[0].path == stale);
  CHECK(result.removed[0].why == PrunedFile::Why::Temporary);
  CHECK(result.keptEntries == 1);
  CHECK_FALSE(std::filesystem::exists(stale));
  for (const std::string &file : {fresh, ahead, other, text, link})
    CHECK(std::filesystem::exists(file));
  CHECK(std::filesystem::is_symlink(linkName));
  CHECK(std::filesystem::exists(theirs) == isRoot);
}

TEST_CASE_FIXTURE(PruneFixture,
                  "a temporary file whose writer is gone needs not be an hour "
                  "old to go") {
  put(Kind::Artifact, "key", 0);
  std::string left = besides("key", temporaryName(), 60);
  std::string held = besides("key", temporaryName(), kHour - 60);
  std::string inherited = besides("key", temporaryName(), kHour + 60);
  std::vector<ScopedFd> writers;
  for (const std::string &file : {held, inherited}) {
    writers.emplace_back(ops, ops.open(AT_FDCWD, file.c_str(), O_WRONLY, 0));
    REQUIRE(ops.tryLock(writers.back().get(), kWriterLockOffset) == 0);
  }
  const uint64_t entry = sizeOf(path(Kind::Artifact, "key"));
  PruneRules rules;
  rules.isDryRun = true;
  CHECK(store->prune(rules).removed.size() == 2);
  rules.isDryRun = false;
  PruneResult result = store->prune(rules);
  CHECK(result.removed.size() == 2);
  CHECK(result.temporaryBytes == 1);
  CHECK(result.keptBytes == entry);
  CHECK_FALSE(std::filesystem::exists(left));
  CHECK_FALSE(std::filesystem::exists(inherited));
  CHECK(std::filesystem::exists(held));
  // Its bytes count.
  rules.maxBytes = entry;
  CHECK(store->prune(rules).keptEntries == 0);

  // Where there are no locks, an hour decides.
  left = besides("key", temporaryName(), 60);
  ops.failAlways("tryLock", ENOLCK);
  store->prune({});
  CHECK(std::filesystem::exists(left));
}

namespace {
/// A file system with a clock of its own.
struct ShiftedFileOps : FileOps {
  int touch(int fd) override {
    struct timespec times[2] = {};
    ::clock_gettime(CLOCK_REALTIME, &times[0]);
    times[0].tv_sec += shiftSeconds;
    times[1] = times[0];
    return ::futimens(fd, times);
  }
  int64_t shiftSeconds = 0;
};
} // namespace

TEST_CASE_FIXTURE(PruneFixture,
                  "fault 27: ages are told by the clock of the file system") {
  std::string left = (put(Kind::Artifact, "key", 0),
                      besides("key", temporaryName(), kHour + 60));
  put(Kind::Artifact, "old", 3 * kDay + kHour);
  ShiftedFileOps shifted;
  auto late = openStore(folder / "cache", &shifted);
  PruneRules rules;
  rules.maxAge = std::chrono::hours(48);
  shifted.shiftSeconds = -2 * kHour;
  CHECK(late->prune(rules).removed.empty());
  shifted.shiftSeconds = 0;
  CHECK(late->prune(rules).removed.size() == 2);
}

TEST_CASE_FIXTURE(PruneFixture,
                  "fault 27: nothing goes for its age by a clock that is days "
                  "ahead of all stamps") {
  put(Kind::Artifact, "young", 0);
  put(Kind::Artifact, "old", 3 * kDay + kHour);
  std::string left = besides("young", temporaryName(), kHour + 60);
  ShiftedFileOps shifted;
  shifted.shiftSeconds = 3650 * kDay;
  auto store = openStore(folder / "cache", &shifted);
  PruneRules rules;
  rules.maxAge = std::chrono::hours(30 * 24);
  PruneResult result = store->prune(rules);
  CHECK(result.removed.empty());
  CHECK(result.oddClock.find("3650.0 days") != std::string::npos);
  CHECK(result.keptEntries == 2);
  // Removal for size goes by the order of stamps, which needs no clock.
  rules.maxBytes = sizeOf(path(Kind::Artifact, "young")) + 1;
  CHECK(store->prune(rules).removed.size() == 1);
  CHECK(has(Kind::Artifact, "young"));
  rules.maxBytes.reset();
  rules.trustsClock = true;
  result = store->prune(rules);
  CHECK(result.oddClock.empty());
  CHECK(result.removed.size() == 2);
}

TEST_CASE_FIXTURE(PruneFixture,
                  "F8: old entries go, and a stamp from the future is "
                  "not old") {
  put(Kind::Artifact, "old", 3 * kDay + kHour);
  // A stamp may be a day older than the last use.
  put(Kind::Artifact, "young", 3 * kDay - kHour);
  put(Kind::Artifact, "ahead", -3650 * kDay);
  put(Kind::Record, "old", 3 * kDay + kHour);
  put(Kind::Probe, "used today", kHour); // so the clock is believed
  PruneRules rules;
  rules.maxAge = std::chrono::hours(48);
  rules.only = Kind::Portfolio;
  CHECK(store->prune(rules).removed.empty());
  rules.only.reset();
  PruneResult result = store->prune(rules);
  CHECK(result.removed.size() == 2);
  CHECK_FALSE(has(Kind::Artifact, "old"));
  CHECK(has(Kind::Artifact, "young"));
  CHECK(has(Kind::Artifact, "ahead"));
  CHECK_FALSE(has(Kind::Record, "old"));
  CHECK(result.keptBytes == sizeOf(path(Kind::Artifact, "young")) +
                                sizeOf(path(Kind::Artifact, "ahead")) +
                                sizeOf(path(Kind::Probe, "used today")));
}

TEST_CASE_FIXTURE(PruneFixture,
                  "F8: for size the least recently used go, artifacts "
                  "first and records last") {
  uint64_t total = 0;
  for (int i = 0; i < 4; ++i)
    total += sizeOf(put(Kind::Artifact, std::to_string(i), (i + 1) * kHour));
  total += sizeOf(put(Kind::Probe, "p", 100 * kDay));
  total += sizeOf(put(Kind::Record, "r", 200 * kDay));
  PruneRules rules;
  rules.maxBytes = total;
  CHECK(store->prune(rules).removed.empty());
  rules.maxBytes = total - 1;
  CHECK(store->prune(rules).removed.size() == 1);
  CHECK_FALSE(has(Kind::Artifact, "3"));
  rules.maxBytes =
      sizeOf(path(Kind::Probe, "p")) + sizeOf(path(Kind::Record, "r"));
  CHECK(store->prune(rules).removed.size() == 3);
  CHECK(has(Kind::Probe, "p"));
  rules.maxBytes = sizeOf(path(Kind::Record, "r"));
  CHECK(store->prune(rules).removed.size() == 1);
  CHECK(has(Kind::Record, "r"));
  rules.maxBytes = 0;
  CHECK(store->prune(rules).keptBytes == 0);
  CHECK_FALSE(has(Kind::Record, "r"));
}

TEST_CASE_FIXTURE(PruneFixture, "a pool goes before what it pins, and alone") {
  put(Kind::Artifact, "pinned", 9 * kDay);
  put(Kind::Artifact, "free", kHour);
  put(Kind::Record, "record", 9 * kDay);
  const llvm::json::Object pins{
      {kPinsAttribute,
       llvm::json::Array{fileNameOf(Kind::Artifact, "pinned"), 7}}};
  store->publish(Kind::Pool, "pool", pins, "{}");
  age(path(Kind::Pool, "pool"), kHour);

  // For its age, an artifact does not go while a younger pool needs it.
  PruneRules rules;
  rules.maxAge = std::chrono::hours(3 * 24);
  store->prune(rules);
  CHECK(has(Kind::Artifact, "pinned"));
  CHECK_FALSE(has(Kind::Record, "record"));

  rules = {};
  rules.maxBytes = 1;
  rules.keepsPools = true;
  store->prune(rules);
  CHECK(has(Kind::Artifact, "pinned"));
  CHECK(has(Kind::Pool, "pool"));
  CHECK_FALSE(has(Kind::Artifact, "free"));

  // Room for the artifact: the pool goes first all the same.
  rules.keepsPools = false;
  rules.maxBytes = sizeOf(path(Kind::Artifact, "pinned"));
  store->prune(rules);
  CHECK_FALSE(has(Kind::Pool, "pool"));
  CHECK(has(Kind::Artifact, "pinned"));
  rules.maxBytes = 1;
  store->prune(rules);
  CHECK_FALSE(has(Kind::Artifact, "pinned"));
}

TEST_CASE_FIXTURE(PruneFixture, "F8: a lookup stamps an entry, once a day") {
  std::string used = put(Kind::Artifact, "used", 3 * kDay);
  put(Kind::Artifact, "idle", 2 * kDay + kHour);
  CHECK(store->lookup(Kind::Artifact, "used"));
  auto stamp = std::filesystem::last_write_time(used);
  CHECK(store->lookup(Kind::Artifact, "used"));
  CHECK(std::filesystem::last_write_time(used) == stamp);
  PruneRules rules;
  rules.maxAge = std::chrono::hours(24);
  store->prune(rules);
  CHECK(has(Kind::Artifact, "used"));
  CHECK_FALSE(has(Kind::Artifact, "idle"));
}

TEST_CASE_FIXTURE(PruneFixture,
                  "F8: upkeep evicts over the limit, sweeps once an hour "
                  "and follows no order to go on") {
  std::string stale =
      (put(Kind::Artifact, "0", 40), besides("0", temporaryName(), kDay));
  const uint64_t limit = 4 * sizeOf(path(Kind::Artifact, "0"));
  StoreOptions options;
  options.writeDir = folder / "cache";
  options.limitBytes = limit;
  auto limited = Store::open(std::move(options));
  limited->upkeep(0); // the first one looks at all there is
  CHECK_FALSE(std::filesystem::exists(stale));
  for (int i = 1; i < 8; ++i)
    put(Kind::Artifact, std::to_string(i), 40 - i);
  stale = besides("0", temporaryName(), kDay);
  bool isCancelled = true;
  limited->upkeep(limit, [&] { return isCancelled; });
  CHECK(has(Kind::Artifact, "0"));
  isCancelled = false;
  limited->upkeep(limit, [&] { return isCancelled; });
  CHECK_FALSE(std::filesystem::exists(stale)); // it came by
  CHECK_FALSE(has(Kind::Artifact, "4"));
  CHECK(has(Kind::Artifact, "5"));
  CHECK(has(Kind::Artifact, "7"));
  CHECK(limited->statistics().evicted == 5);

  // Another store of the same hour has nothing to do, and no limit none ever.
  stale = besides("7", temporaryName(), kDay);
  store->upkeep(1u << 30);
  CHECK(std::filesystem::exists(stale));
}

TEST_CASE_FIXTURE(PruneFixture, "F8: what cannot be removed is counted") {
  put(Kind::Artifact, "key", kDay);
  ops.failAlways("unlink", EACCES);
  PruneRules rules;
  rules.maxBytes = 0;
  PruneResult result = store->prune(rules);
  CHECK(result.failed == 1);
  CHECK(result.failure.find("Permission denied") != std::string::npos);
  CHECK(result.keptEntries == 1);
  CHECK(result.removed.empty());
}

TEST_CASE("F8 fault 21: writers, readers and evictors at once") {
  TemporaryFolder folder;
  constexpr uint64_t kLimit = 40 * 5200; // a quarter of what all use
  int failures = runProcesses(6, [&](int child) {
    StoreOptions options;
    options.writeDir = folder / "cache";
    options.limitBytes = kLimit;
    auto store = Store::open(std::move(options));
    std::mt19937 random(static_cast<uint32_t>(child));
    for (uint32_t i = 0; i < 120; ++i) {
      // One process uses less than the limit.
      uint32_t which = static_cast<uint32_t>(child) * 25 + random() % 30;
      std::string key = std::to_string(which);
      auto entry = store->lookup(Kind::Artifact, key);
      if (entry && entry->payload != makePayload(which, 5000))
        return false;
      if (entry)
        continue;
      if (store->publish(Kind::Artifact, key, {}, makePayload(which, 5000))
              .status != PublishStatus::Stored)
        return false;
      store->upkeep(5200);
      if (store
              ->update(Kind::Record, "record", {},
                       [&](std::optional<llvm::StringRef> old) {
                         return (old ? old->str() : "") + "x";
                       })
              .status != PublishStatus::Stored)
        return false;
    }
    store->upkeep(kLimit);
    return store->statistics().damaged == 0;
  });
  CHECK(failures == 0);
  auto store = openStore(folder / "cache");
  uint64_t total = 0;
  for (const EntryInfo &entry : store->list(Kind::Artifact))
    total += entry.fileBytes;
  CHECK(total > 0);
  CHECK(total <= kLimit + 5 * 5200);
  CHECK(store->lookup(Kind::Record, "record"));
}
