// Several processes on one directory. Children report by their exit code.
#include "Cache/Store.h"

#include "Cache/StoreTesting.h"

#include <chrono>
#include <csignal>
#include <doctest/doctest.h>
#include <set>
#include <sstream>

using namespace kiln;
using namespace kiln::cache;
using namespace kiln::cache::testing;

static int countDamaged(const std::string &folder) {
  int damaged = 0;
  for (const VerifyItem &item : openStore(folder)->verify())
    damaged += item.state == VerifyItem::State::Damaged;
  return damaged;
}

TEST_CASE("fault 20: 8 processes publish and read the same key") {
  TemporaryFolder folder;
  int failures = runProcesses(8, [&](int child) {
    auto store = openStore(folder / "cache");
    for (uint32_t i = 0; i < 60; ++i) {
      size_t bytes = 1000 + 5000 * (i % 7);
      uint32_t seed = static_cast<uint32_t>(child) * 1000 + i;
      if (store->publish(Kind::Artifact, "key", {}, makePayload(seed, bytes))
              .status != PublishStatus::Stored)
        return false;
      auto entry = store->lookup(Kind::Artifact, "key");
      if (!entry || !isWhole(entry->payload))
        return false;
    }
    return store->statistics().damaged == 0;
  });
  CHECK(failures == 0);
  CHECK(countDamaged(folder / "cache") == 0);
  CHECK(filesIn(folder.path).size() == 1);
}

TEST_CASE("fault 21: 8 processes publish distinct keys") {
  TemporaryFolder folder;
  int failures = runProcesses(8, [&](int child) {
    auto store = openStore(folder / "cache");
    for (uint32_t i = 0; i < 60; ++i)
      if (store
              ->publish(Kind::Artifact, fmt::format("{}/{}", child, i), {},
                        makePayload(i, 2000))
              .status != PublishStatus::Stored)
        return false;
    return true;
  });
  CHECK(failures == 0);
  auto store = openStore(folder / "cache");
  CHECK(store->list(Kind::Artifact).size() == 480);
  for (int child = 0; child < 8; ++child)
    for (uint32_t i = 0; i < 60; ++i) {
      auto entry =
          store->lookup(Kind::Artifact, fmt::format("{}/{}", child, i));
      REQUIRE(entry);
      CHECK(entry->payload == makePayload(i, 2000));
    }
}

TEST_CASE("fault 17: 4 processes work while a fifth removes the cache") {
  TemporaryFolder folder;
  int failures = runProcesses(5, [&](int child) {
    if (child == 4) {
      for (int i = 0; i < 40; ++i) {
        std::error_code ignored;
        std::filesystem::remove_all(folder / "cache", ignored);
        ::usleep(2000);
      }
      return true;
    }
    auto store = openStore(folder / "cache");
    for (uint32_t i = 0; i < 150; ++i) {
      store->publish(Kind::Artifact, "key", {}, makePayload(i, 3000));
      auto entry = store->lookup(Kind::Artifact, "key");
      if (entry && !isWhole(entry->payload))
        return false;
      store->update(Kind::Record, "record", {},
                    [](std::optional<llvm::StringRef>) { return "r"; });
    }
    return store->statistics().dropped == 0;
  });
  CHECK(failures == 0);
  CHECK(countDamaged(folder / "cache") == 0);
}

/// Adds a line to what is there.
static auto addLine(const std::string &line) {
  return [line](std::optional<llvm::StringRef> old) {
    return (old ? old->str() : "") + line + "\n";
  };
}

static std::multiset<std::string> linesOf(const std::string &text) {
  std::multiset<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    lines.insert(line);
  return lines;
}

TEST_CASE("fault 25: 8 processes update two records and lose nothing") {
  TemporaryFolder folder;
  int failures = runProcesses(8, [&](int child) {
    StoreOptions options;
    options.writeDir = folder / "cache";
    options.lockDeadline = std::chrono::seconds(60);
    auto store = Store::open(std::move(options));
    for (int i = 0; i < 40; ++i)
      if (store
              ->update(Kind::Record, i % 2 ? "odd" : "even", {},
                       addLine(fmt::format("{} {}", child, i)))
              .status != PublishStatus::Stored)
        return false;
    return store->statistics().unlockedUpdates == 0;
  });
  CHECK(failures == 0);
  auto store = openStore(folder / "cache");
  for (const char *key : {"odd", "even"}) {
    auto lines = linesOf(store->lookup(Kind::Record, key)->payload);
    CHECK(lines.size() == 160);
    CHECK(std::set(lines.begin(), lines.end()).size() == 160);
  }
}

TEST_CASE("fault 14: writers are killed at any time") {
  TemporaryFolder folder;
  std::mt19937 random(14);
  std::multiset<std::string> acknowledged;
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(4);
  for (int round = 0; round < 60 || acknowledged.empty(); ++round) {
    REQUIRE(std::chrono::steady_clock::now() < end + std::chrono::seconds(30));
    if (round >= 20 && !acknowledged.empty() &&
        std::chrono::steady_clock::now() > end)
      break;
    int pipe[2];
    REQUIRE(::pipe(pipe) == 0);
    pid_t child = ::fork();
    if (child == 0) {
      auto store = openStore(folder / "cache");
      for (uint32_t i = 0;; ++i) {
        store->publish(Kind::Artifact, std::to_string(i % 3), {},
                       makePayload(i, 20000));
        std::string line = fmt::format("{}.{}", round, i);
        if (store->update(Kind::Record, "record", {}, addLine(line)).status ==
            PublishStatus::Stored) {
          line += "\n";
          if (::write(pipe[1], line.data(), line.size()) < 0)
            ::_exit(1);
        }
      }
    }
    ::close(pipe[1]);
    ::usleep(static_cast<useconds_t>(random() % 8000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    std::string text;
    char buffer[4096];
    for (ssize_t got; (got = ::read(pipe[0], buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<size_t>(got));
    ::close(pipe[0]);
    acknowledged.merge(linesOf(text));
  }
  CHECK(countDamaged(folder / "cache") == 0);
  auto store = openStore(folder / "cache");
  auto kept = linesOf(store->lookup(Kind::Record, "record")->payload);
  for (const std::string &line : acknowledged)
    CHECK(kept.count(line) == 1);
}

/// A child that takes the lock of "key" inside an update and stays there.
static pid_t startHolder(const std::string &folder) {
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  pid_t child = ::fork();
  if (child == 0) {
    openStore(folder)->update(Kind::Record, "key", {},
                              [&](std::optional<llvm::StringRef>) {
                                if (::write(ready[1], "x", 1) == 1)
                                  ::raise(SIGSTOP);
                                return "holder";
                              });
    ::_exit(0);
  }
  char byte;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  ::close(ready[0]);
  ::close(ready[1]);
  return child;
}

TEST_CASE("fault 22: a stopped holder delays an update until its deadline") {
  TemporaryFolder folder;
  pid_t holder = startHolder(folder / "cache");
  StoreOptions options;
  options.writeDir = folder / "cache";
  options.lockDeadline = std::chrono::milliseconds(150);
  auto store = Store::open(std::move(options));
  auto start = std::chrono::steady_clock::now();
  auto result = store->update(Kind::Record, "key", {}, addLine("waiter"));
  auto waited = std::chrono::steady_clock::now() - start;
  CHECK(result.status == PublishStatus::Stored);
  CHECK(waited >= std::chrono::milliseconds(150));
  CHECK(waited < std::chrono::seconds(5));
  CHECK(store->statistics().unlockedUpdates == 1);
  CHECK(store->lookup(Kind::Record, "key")->payload == "waiter\n");
  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
}

TEST_CASE("fault 22: a killed holder frees its lock") {
  TemporaryFolder folder;
  pid_t holder = startHolder(folder / "cache");
  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
  auto store = openStore(folder / "cache");
  CHECK(store->update(Kind::Record, "key", {}, addLine("next")).status ==
        PublishStatus::Stored);
  CHECK(store->statistics().unlockedUpdates == 0);
}
