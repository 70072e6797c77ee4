// Several processes on one directory. Children report by their exit code.
#include "Cache/Store.h"

#include "Cache/StoreTesting.h"

#include <chrono>
#include <csignal>
#include <doctest/doctest.h>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

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

/// Publishes and updates for ever; writes a line to \p out for each update that
/// the store acknowledged.
[[noreturn]] static void writeUntilKilled(const std::string &folder, int round,
                                          int out) {
  auto store = openStore(folder);
  for (uint32_t i = 0;; ++i) {
    store->publish(Kind::Artifact, std::to_string(i % 3), {},
                   makePayload(i, 20000));
    std::string line = fmt::format("{}.{}", round, i);
    auto result = store->update(Kind::Record, "record", {}, addLine(line));
    line += '\n';
    if (result.status == PublishStatus::Stored &&
        ::write(out, line.data(), line.size()) < 0)
      ::_exit(1);
  }
}

TEST_CASE("fault 14: writers are killed at any time") {
  TemporaryFolder folder;
  std::mt19937 random(14);
  std::multiset<std::string> acknowledged;
  for (int round = 0; round < 60; ++round) {
    int pipe[2];
    REQUIRE(::pipe(pipe) == 0);
    pid_t child = ::fork();
    if (child == 0)
      writeUntilKilled(folder / "cache", round, pipe[1]);
    ::close(pipe[1]);
    // Some die before their first entry, the others a while after it.
    std::string text;
    char buffer[4096];
    auto readSome = [&] {
      ssize_t got = ::read(pipe[0], buffer, sizeof buffer);
      text.append(buffer, static_cast<size_t>(std::max<ssize_t>(got, 0)));
      return got > 0;
    };
    if (round % 4 != 0)
      CHECK(readSome());
    ::usleep(static_cast<useconds_t>(random() % 4000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    while (readSome()) {
    }
    ::close(pipe[0]);
    acknowledged.merge(linesOf(text));
  }
  CHECK(acknowledged.size() >= 45);
  CHECK(countDamaged(folder / "cache") == 0);
  auto entry = openStore(folder / "cache")->lookup(Kind::Record, "record");
  REQUIRE(entry);
  auto kept = linesOf(entry->payload);
  int lost = 0;
  for (const std::string &line : acknowledged)
    lost += kept.count(line) != 1;
  CHECK(lost == 0);
}

namespace {
/// Stops its process, once, at the first call of stop() or the first rename.
class StoppingFileOps : public FileOps {
public:
  StoppingFileOps(int ready, bool stopsAtRename)
      : ready(ready), stopsAtRename(stopsAtRename) {}
  void stop() {
    if (!std::exchange(hasStopped, true) && ::write(ready, "x", 1) == 1)
      ::raise(SIGSTOP);
  }
  int rename(int folder, const char *from, const char *to) override {
    if (stopsAtRename)
      stop();
    return FileOps::rename(folder, from, to);
  }

private:
  int ready;
  bool stopsAtRename, hasStopped = false;
};
} // namespace

/// A child that adds "holder" to the record "key" and stops while it merges, or
/// between comparing and replacing. Ends with 0 if it was told "stored".
static pid_t startHolder(const std::string &folder,
                         bool stopsAtRename = false) {
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  pid_t child = ::fork();
  if (child == 0) {
    StoppingFileOps ops(ready[1], stopsAtRename);
    auto result = openStore(folder, &ops)
                      ->update(Kind::Record, "key", {},
                               [&](std::optional<llvm::StringRef> old) {
                                 if (!stopsAtRename)
                                   ops.stop();
                                 return (old ? old->str() : "") + "holder\n";
                               });
    ::_exit(result.status == PublishStatus::Stored ? 0 : 1);
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

/// Continues a stopped child; true if it was told "stored".
static bool continueHolder(pid_t child) {
  int status = 0;
  ::kill(child, SIGCONT);
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static std::unique_ptr<Store> openWithDeadline(const std::string &folder,
                                               int milliseconds) {
  StoreOptions options;
  options.writeDir = folder;
  options.lockDeadline = std::chrono::milliseconds(milliseconds);
  return Store::open(std::move(options));
}

TEST_CASE("F2: a holder that is stopped and continued undoes no update") {
  TemporaryFolder folder;
  pid_t holder = startHolder(folder / "cache");
  auto store = openWithDeadline(folder / "cache", 50);
  CHECK(store->update(Kind::Record, "key", {}, addLine("waiter")).status ==
        PublishStatus::Stored);
  CHECK(continueHolder(holder));
  CHECK(store->lookup(Kind::Record, "key")->payload == "waiter\nholder\n");
}

TEST_CASE("F2: beside a holder that is stopped as it replaces, an update is in "
          "memory and says so") {
  TemporaryFolder folder;
  pid_t holder = startHolder(folder / "cache", true);
  auto store = openWithDeadline(folder / "cache", 50);
  auto result = store->update(Kind::Record, "key", {}, addLine("waiter"));
  CHECK(result.status == PublishStatus::Memory);
  CHECK(result.reason.find("lock") != std::string::npos);
  CHECK(store->lookup(Kind::Record, "key")->payload == "waiter\n");
  CHECK(continueHolder(holder));
  CHECK(openStore(folder / "cache")->lookup(Kind::Record, "key")->payload ==
        "holder\n");
  CHECK(store->update(Kind::Record, "key", {}, addLine("waiter")).status ==
        PublishStatus::Stored);
  CHECK(store->lookup(Kind::Record, "key")->payload == "holder\nwaiter\n");
}

TEST_CASE("F2: 8 processes that do not wait for each other lose no update of a "
          "large record") {
  TemporaryFolder folder;
  constexpr int kProcesses = 8, kUpdates = 5;
  const std::string tail(30000, 'x');
  int failures = runProcesses(kProcesses, [&](int child) {
    auto store = openWithDeadline(folder / "cache", 0);
    for (int i = 0; i < kUpdates; ++i) {
      auto add = addLine(fmt::format("{} {} {}", child, i, tail));
      // An update that was not stored does not count; its process tries again.
      while (store->update(Kind::Record, "key", {}, add).status !=
             PublishStatus::Stored)
        std::this_thread::yield();
    }
    return true;
  });
  CHECK(failures == 0);
  auto lines = linesOf(
      openStore(folder / "cache")->lookup(Kind::Record, "key")->payload);
  CHECK(std::set(lines.begin(), lines.end()).size() == kProcesses * kUpdates);
}

TEST_CASE("F2: a thread that does not wait for another one loses no update in "
          "memory") {
  StoreOptions options;
  options.lockDeadline = std::chrono::milliseconds(0);
  auto store = Store::open(std::move(options));
  bool isFirst = true;
  store->update(Kind::Record, "key", {},
                [&](std::optional<llvm::StringRef> old) {
                  if (std::exchange(isFirst, false))
                    std::thread([&] {
                      store->update(Kind::Record, "key", {}, addLine("other"));
                    }).join();
                  return addLine("own")(old);
                });
  CHECK(store->lookup(Kind::Record, "key")->payload == "other\nown\n");
}
