#include "Cache/Store.h"

#include "Cache/StoreTesting.h"
#include "Support/WatchedFileOps.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <doctest/doctest.h>
#include <thread>

using namespace kiln;
using namespace kiln::cache;
using namespace kiln::cache::testing;
using kiln::testing::WatchedFileOps;

static const llvm::json::Object kAttributes{{"toolchain", "13.0"}};

TEST_CASE("an entry is found by this and by the next process") {
  TemporaryFolder folder;
  auto store = openStore(folder / "deep/er/cache");
  REQUIRE(store->isPersistent());
  CHECK_FALSE(store->lookup(Kind::Artifact, "key"));
  CHECK(store->publish(Kind::Artifact, "key", kAttributes, "cubin").status ==
        PublishStatus::Stored);
  for (const auto &reader : {openStore(folder / "deep/er/cache"),
                             openStore(folder / "deep/er/cache/")}) {
    auto entry = reader->lookup(Kind::Artifact, "key");
    REQUIRE(entry);
    CHECK(entry->key == "key");
    CHECK(entry->payload == "cubin");
    CHECK(entry->attributes == kAttributes);
    CHECK_FALSE(reader->lookup(Kind::Record, "key"));
    CHECK(reader->statistics().hits == 1);
    CHECK(reader->statistics().misses == 1);
  }
  store->publish(Kind::Artifact, "key", kAttributes, "newer");
  CHECK(store->lookup(Kind::Artifact, "key")->payload == "newer");
  CHECK(store->statistics().stored == 2);
}

TEST_CASE("folders are 0700 and entries 0600, whatever the umask") {
  TemporaryFolder folder;
  mode_t before = ::umask(0);
  auto store = openStore(folder / "cache");
  store->publish(Kind::Artifact, "key", {}, "cubin");
  ::umask(before);
  std::filesystem::perms all = std::filesystem::perms::all;
  int seen = 0;
  for (const auto &item :
       std::filesystem::recursive_directory_iterator(folder.path)) {
    auto expected =
        static_cast<std::filesystem::perms>(item.is_directory() ? 0700 : 0600);
    CHECK((item.status().permissions() & all) == expected);
    ++seen;
  }
  CHECK(seen == 5); // cache, v1, artifact, shard, entry
  CHECK(
      std::filesystem::exists(pathOf(folder / "cache", Kind::Artifact, "key")));
}

TEST_CASE("fault 6: another toolchain is passed over and kept") {
  TemporaryFolder folder;
  auto store = openStore(folder.path);
  store->publish(Kind::Artifact, "key", kAttributes, "cubin");
  auto isToolchain = [](llvm::StringRef wanted) {
    return [wanted](const llvm::json::Object &attributes) {
      return attributes.getString("toolchain") == wanted;
    };
  };
  CHECK_FALSE(store->lookup(Kind::Artifact, "key", isToolchain("12.8")));
  CHECK(store->statistics().unaccepted == 1);
  CHECK(store->statistics().damaged == 0);
  CHECK(store->lookup(Kind::Artifact, "key", isToolchain("13.0")));
}

TEST_CASE("an entry with a mac is served, an update writes none") {
  TemporaryFolder folder;
  const std::string path = pathOf(folder.path, Kind::Record, "key");
  auto store = openStore(folder.path);
  store->publish(Kind::Record, "key", {}, "one");
  writeBytes(path, withAttributes(readBytes(path), "{\"mac\":\"" +
                                                       std::string(64, '7') +
                                                       "\",\"later\":1}"));
  auto entry = store->lookup(Kind::Record, "key");
  REQUIRE(entry);
  CHECK(entry->attributes == llvm::json::Object{{"later", 1}});
  store->update(Kind::Record, "key", kAttributes,
                [](std::optional<llvm::StringRef> old) {
                  return old.value_or("").str() + "+";
                });
  CHECK(readBytes(path).find("mac") == std::string::npos);
  CHECK(store->lookup(Kind::Record, "key")->payload == "one+");
  CHECK(store->statistics().damaged == 0);
}

TEST_CASE("memory only: the same process still finds its entries") {
  auto store = Store::open({});
  CHECK_FALSE(store->isPersistent());
  CHECK(store->notes().empty());
  CHECK(store->publish(Kind::Record, "key", kAttributes, "one").status ==
        PublishStatus::Memory);
  CHECK(store->lookup(Kind::Record, "key")->payload == "one");
  auto append = [](std::optional<llvm::StringRef> old) {
    return (old ? old->str() : "") + "+";
  };
  store->update(Kind::Record, "key", kAttributes, append);
  CHECK(store->lookup(Kind::Record, "key")->payload == "one+");
  CHECK_FALSE(store->lookup(Kind::Artifact, "key"));
  CHECK(store->statistics().memoryHits == 2);
  REQUIRE(store->list(Kind::Record).size() == 1);
  CHECK(store->list(Kind::Record)[0].tier == TierKind::Memory);
  CHECK(store->list(Kind::Artifact).empty());
  CHECK(store->verify().empty());
}

TEST_CASE("memory is bounded, the oldest entry goes first") {
  StoreOptions options;
  options.maxMemoryBytes = 10 * 4096;
  auto store = Store::open(std::move(options));
  for (int i = 0; i < 100; ++i)
    store->publish(Kind::Artifact, std::to_string(i), {},
                   std::string(2048, 'x'));
  CHECK(store->lookup(Kind::Artifact, "99"));
  CHECK_FALSE(store->lookup(Kind::Artifact, "0"));
  CHECK(store->publish(Kind::Artifact, "large", {}, std::string(50000, 'x'))
            .status == PublishStatus::Dropped);
  CHECK(store->lookup(Kind::Artifact, "99"));
}

TEST_CASE("what the format cannot hold is dropped with one warning") {
  TemporaryFolder folder;
  Warnings warnings;
  auto store = openStore(folder.path, nullptr, warnings.log());
  for (int i = 0; i < 3; ++i)
    CHECK(store->publish(Kind::Artifact, "", {}, "").status ==
          PublishStatus::Dropped);
  CHECK(warnings.lines.size() == 1);
}

TEST_CASE("read tiers stand behind the write tier and are never changed") {
  TemporaryFolder folder;
  openStore(folder / "system")->publish(Kind::Artifact, "a", {}, "system");
  openStore(folder / "system")->publish(Kind::Artifact, "b", {}, "system");
  writeBytes(pathOf(folder / "system", Kind::Artifact, "bad"), "garbage");
  StoreOptions options;
  options.writeDir = folder / "own";
  options.readDirs = {folder / "missing", "relative", folder / "system"};
  auto store = Store::open(std::move(options));
  REQUIRE(store->notes().size() == 2);
  CHECK(store->notes()[0].find("missing") != std::string::npos);
  CHECK(store->notes()[1].find("relative") != std::string::npos);
  CHECK(store->lookup(Kind::Artifact, "a")->payload == "system");
  store->publish(Kind::Artifact, "a", {}, "own");
  CHECK(store->lookup(Kind::Artifact, "a")->payload == "own");
  CHECK(store->lookup(Kind::Artifact, "b")->payload == "system");
  CHECK(store->statistics().readTierHits == 2);
  CHECK_FALSE(store->lookup(Kind::Artifact, "bad"));
  CHECK(store->statistics().damaged == 1);
  CHECK(store->statistics().removed == 0);
  CHECK(readBytes(pathOf(folder / "system", Kind::Artifact, "bad")) ==
        "garbage");
  // An update starts from what is behind and leaves it alone.
  store->update(Kind::Artifact, "b", {},
                [](std::optional<llvm::StringRef> old) {
                  return old->str() + " and own";
                });
  CHECK(store->lookup(Kind::Artifact, "b")->payload == "system and own");
  CHECK(openStore(folder / "system")->lookup(Kind::Artifact, "b")->payload ==
        "system");
}

TEST_CASE("list and verify tell what is there") {
  TemporaryFolder folder;
  auto store = openStore(folder.path);
  std::string longKey(9000, 'k');
  store->publish(Kind::Artifact, "one", kAttributes, std::string(5000, 'x'));
  store->publish(Kind::Artifact, longKey, {}, "");
  store->publish(Kind::Portfolio, "two", {}, "portfolio");
  auto entries = store->list(Kind::Artifact);
  REQUIRE(entries.size() == 2);
  if (entries[0].key != "one")
    std::swap(entries[0], entries[1]);
  CHECK(entries[0].key == "one");
  CHECK(entries[0].attributes == kAttributes);
  CHECK(entries[0].payloadBytes == 5000);
  CHECK(entries[0].tier == TierKind::Write);
  CHECK(entries[0].path == pathOf(folder.path, Kind::Artifact, "one"));
  CHECK(entries[0].fileBytes == std::filesystem::file_size(entries[0].path));
  auto age = std::chrono::system_clock::now() - entries[0].modified;
  CHECK(std::chrono::abs(age) < std::chrono::minutes(5));
  CHECK(entries[1].key == longKey);
  CHECK(store->list(Kind::Portfolio).size() == 1);

  auto items = store->verify();
  CHECK(items.size() == 3);
  for (const VerifyItem &item : items) {
    CHECK(item.state == VerifyItem::State::Ok);
    CHECK_FALSE(item.key.empty());
    CHECK(item.reason.empty());
  }
}

TEST_CASE("update builds on what is there") {
  TemporaryFolder folder;
  auto store = openStore(folder.path);
  bool first = false;
  CHECK(store
            ->update(Kind::Record, "key", kAttributes,
                     [&](std::optional<llvm::StringRef> old) {
                       first = !old;
                       return std::string("a");
                     })
            .status == PublishStatus::Stored);
  CHECK(first);
  store->update(
      Kind::Record, "key", kAttributes,
      [](std::optional<llvm::StringRef> old) { return old->str() + "b"; });
  CHECK(openStore(folder.path)->lookup(Kind::Record, "key")->payload == "ab");
  CHECK(store->statistics().unlockedUpdates == 0);
  CHECK(store->verify().size() == 1); // it passes over the lock file
}

TEST_CASE("an update of what is known reads nothing") {
  TemporaryFolder folder;
  WatchedFileOps files("record/");
  auto store = openStore(folder.path, &files);
  auto appendTo = [&](const std::string &known, const Stamp &stamp) {
    auto merge = [&] { return known + "k"; };
    Store::KnownEntry entry{stamp, merge};
    const int before = files.reads();
    CHECK(store
              ->update(
                  Kind::Record, "key", kAttributes,
                  [](std::optional<llvm::StringRef> old) {
                    return (old ? old->str() : "") + "r";
                  },
                  &entry)
              .status == PublishStatus::Stored);
    return files.reads() - before;
  };
  auto payload = [&] {
    return openStore(folder.path)->lookup(Kind::Record, "key")->payload;
  };
  const Stamp nothing = store->stampOf(Kind::Record, "key");
  CHECK(nothing.isNothing);
  CHECK(appendTo("", nothing) == 0);
  CHECK(payload() == "k");
  // A file that was just written may look like one that follows at once.
  const Stamp fresh = store->stampOf(Kind::Record, "key");
  CHECK_FALSE(fresh.isNothing);
  CHECK_FALSE(fresh.isSettled);
  CHECK(appendTo("k", fresh) == 1);
  CHECK(payload() == "kr");
  files.age = std::chrono::seconds(10);
  const Stamp settled = store->stampOf(Kind::Record, "key");
  CHECK(settled.isSettled);
  CHECK(appendTo("kr", settled) == 0);
  CHECK(payload() == "krk");
  // Meanwhile it has changed, or gone.
  CHECK(appendTo("kr", settled) == 1);
  CHECK(payload() == "krkr");
  CHECK(appendTo("", nothing) == 1);
  CHECK(payload() == "krkrr");
}

TEST_CASE("threads share a store") {
  TemporaryFolder folder;
  auto store = openStore(folder.path);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (uint32_t i = 0; i < 50; ++i) {
        std::string key = std::to_string(i % 5);
        store->publish(Kind::Artifact, key, {}, makePayload(t * 100 + i, 3000));
        auto entry = store->lookup(Kind::Artifact, key);
        wrong += !entry || !isWhole(entry->payload);
        store->update(Kind::Record, "count", {},
                      [](std::optional<llvm::StringRef> old) {
                        return (old ? old->str() : "") + "x";
                      });
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  CHECK(wrong == 0);
  CHECK(store->lookup(Kind::Record, "count")->payload.size() == 200);
}

#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__)
TEST_CASE("a hit on 64 KiB takes at most 200 us") {
  TemporaryFolder folder;
  auto store = openStore(folder.path);
  store->publish(Kind::Artifact, "key", kAttributes, makePayload(1, 65536));
  std::vector<double> us;
  for (int i = 0; i < 201; ++i) {
    auto start = std::chrono::steady_clock::now();
    auto entry = store->lookup(Kind::Artifact, "key");
    auto end = std::chrono::steady_clock::now();
    REQUIRE(entry);
    us.push_back(
        std::chrono::duration<double, std::micro>(end - start).count());
  }
  std::sort(us.begin(), us.end());
  MESSAGE("median " << us[100] << " us, best " << us[0] << " us");
  // The best tenth: other work on the machine is not what is measured.
  CHECK(us[20] <= 200);
}
#endif
