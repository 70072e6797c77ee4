// Verdicts of this process and of others, and their withdrawal.
#include "Store/Verdicts.h"

#include "Store/Records.h"
#include "Store/StoreFixture.h"

#include <doctest/doctest.h>

#include <sys/resource.h>
#include <thread>

using namespace kiln;
using namespace kiln::fake;

namespace {

constexpr const char *kDevice = "h200 class", *kOther = "l40s class";

Verdict verdict(std::string kernel, std::string problem = "fake m=64") {
  return {.kernel = std::move(kernel),
          .config = "fast.t64",
          .problem = std::move(problem),
          .reason = "wrong: 3 of 9 elements"};
}

/// A cache folder, opened as each process would.
struct VerdictFixture {
  std::unique_ptr<cache::Store> open() const {
    cache::StoreOptions options;
    options.writeDir = folder.path() + "/kiln";
    return cache::Store::open(std::move(options));
  }
  TemporaryFolder folder;
  std::unique_ptr<cache::Store> cache = open();
  Verdicts verdicts{*cache, std::chrono::milliseconds(0)};
};

/// Lets the process open no file, while it lives.
class NoDescriptors {
public:
  NoDescriptors() {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
    rlimit none = before;
    none.rlim_cur = 3;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before); }
  NoDescriptors(const NoDescriptors &) = delete;
  NoDescriptors &operator=(const NoDescriptors &) = delete;

private:
  rlimit before;
};

} // namespace

TEST_CASE(
    "a kernel that was found wrong is wrong on all devices of the class") {
  VerdictFixture f;
  CHECK_FALSE(f.verdicts.isWrong(kDevice, "a"));
  CHECK_FALSE(f.verdicts.mayBeWrong(kDevice, "fast.t64"));
  CHECK(f.verdicts.found(kDevice, verdict("a")).status ==
        cache::PublishStatus::Stored);
  CHECK(f.verdicts.isWrong(kDevice, "a"));
  CHECK(f.verdicts.mayBeWrong(kDevice, "fast.t64"));
  CHECK_FALSE(f.verdicts.isWrong(kDevice, "b"));
  CHECK_FALSE(f.verdicts.isWrong(kOther, "a"));
  REQUIRE(f.verdicts.list(kDevice).size() == 1);
  CHECK(f.verdicts.list(kDevice).front().problem == "fake m=64");
  CHECK(f.verdicts.list(kDevice).front().foundAtMs > 0);
}

TEST_CASE("another process knows a verdict, and one that runs learns of it") {
  VerdictFixture f;
  auto cache = f.open();
  Verdicts running(*cache, std::chrono::milliseconds(0));
  CHECK_FALSE(running.isWrong(kDevice, "a"));
  f.verdicts.found(kDevice, verdict("a"));
  CHECK(running.isWrong(kDevice, "a"));
  auto later = f.open();
  CHECK(Verdicts(*later).isWrong(kDevice, "a"));
  running.found(kDevice, verdict("b"));
  CHECK(f.verdicts.isWrong(kDevice, "b"));
  CHECK(f.verdicts.isWrong(kDevice, "a"));
}

TEST_CASE("verdicts that keep their first answers tell of later ones") {
  VerdictFixture f;
  f.verdicts.found(kDevice, verdict("a"));
  auto cache = f.open();
  Verdicts kept(*cache, std::chrono::milliseconds(0), /*keepsFirst=*/true);
  std::string heard;
  kept.listen([&](llvm::StringRef, const Verdict &one, bool wrong) {
    heard += one.kernel + (wrong ? "+" : "-");
  });
  CHECK(kept.isWrong(kDevice, "a"));
  f.verdicts.found(kDevice, verdict("b"));
  CHECK_FALSE(kept.isWrong(kDevice, "b"));
  CHECK(kept.isKnownWrong(kDevice, "b"));
  CHECK(heard == "b+");
  f.verdicts.withdraw(kDevice, "a", "fake m=64");
  CHECK(kept.isWrong(kDevice, "a"));
  CHECK_FALSE(kept.isKnownWrong(kDevice, "a"));
  CHECK(heard == "b+a-");
}

TEST_CASE("a verdict holds in its process where the cache cannot keep it") {
  auto cache = cache::Store::open({});
  Verdicts verdicts(*cache, std::chrono::milliseconds(0));
  verdicts.found(kDevice, verdict("a"));
  CHECK(verdicts.isWrong(kDevice, "a"));
}

TEST_CASE("a verdict goes only where its kernel is right for that problem") {
  VerdictFixture f;
  f.verdicts.found(kDevice, verdict("a"));
  f.verdicts.withdraw(kDevice, "a", "fake m=32");
  CHECK(f.verdicts.isWrong(kDevice, "a"));
  f.verdicts.withdraw(kDevice, "a", "fake m=64");
  CHECK_FALSE(f.verdicts.isWrong(kDevice, "a"));
  CHECK_FALSE(f.verdicts.mayBeWrong(kDevice, "fast.t64"));
  auto later = f.open();
  CHECK_FALSE(Verdicts(*later).isWrong(kDevice, "a"));
}

TEST_CASE("a listener hears each change once, and may ask") {
  VerdictFixture f;
  std::string heard;
  f.verdicts.listen(
      [&](llvm::StringRef device, const Verdict &one, bool wrong) {
        heard += one.kernel + (wrong ? "+" : "-");
        CHECK(f.verdicts.isWrong(device, one.kernel) == wrong);
      });
  f.verdicts.found(kDevice, verdict("a"));
  f.verdicts.withdraw(kDevice, "a", "fake m=64");
  f.verdicts.withdraw(kDevice, "a", "fake m=64");
  CHECK(heard == "a+a-");
}

TEST_CASE("a listener hears what another process finds and takes back") {
  VerdictFixture f;
  auto cache = f.open();
  f.verdicts.found(kDevice, verdict("old"));
  Verdicts running(*cache, std::chrono::milliseconds(0));
  std::string heard;
  running.listen([&](llvm::StringRef device, const Verdict &one, bool wrong) {
    heard += one.kernel + (wrong ? "+" : "-");
    CHECK(running.isWrong(device, one.kernel) == wrong);
  });
  CHECK(running.isWrong(kDevice, "old"));
  CHECK(heard.empty());
  f.verdicts.found(kDevice, verdict("a"));
  CHECK(running.isWrong(kDevice, "a"));
  CHECK(heard == "a+");
  running.found(kDevice, verdict("b"));
  CHECK(running.isWrong(kDevice, "b"));
  f.verdicts.withdraw(kDevice, "a", "fake m=64");
  CHECK_FALSE(running.isWrong(kDevice, "a"));
  CHECK(heard == "a+b+a-");
}

TEST_CASE("a kernel that two problems found wrong is right after both") {
  VerdictFixture f;
  auto cache = f.open();
  Verdicts running(*cache, std::chrono::milliseconds(0));
  std::string heard;
  running.listen([&](llvm::StringRef, const Verdict &one, bool wrong) {
    heard += one.problem + (wrong ? "+" : "-");
  });
  f.verdicts.found(kDevice, verdict("a", "one"));
  running.found(kDevice, verdict("a", "two"));
  running.withdraw(kDevice, "a", "two");
  CHECK(running.isWrong(kDevice, "a"));
  CHECK(heard == "two+");
  running.withdraw(kDevice, "a", "one");
  CHECK_FALSE(running.isWrong(kDevice, "a"));
  CHECK(heard == "two+one-");
}

TEST_CASE("what cannot be read for a moment is no withdrawal") {
  VerdictFixture f;
  auto cache = f.open();
  f.verdicts.found(kDevice, verdict("a"));
  Verdicts running(*cache, std::chrono::milliseconds(0));
  std::string heard;
  running.listen([&](llvm::StringRef, const Verdict &one, bool wrong) {
    heard += one.kernel + (wrong ? "+" : "-");
  });
  REQUIRE(running.isWrong(kDevice, "a"));
  f.verdicts.found(kDevice, verdict("b"));
  {
    const NoDescriptors none;
    CHECK(running.isWrong(kDevice, "a"));
  }
  CHECK(running.isWrong(kDevice, "b"));
  CHECK(heard == "b+");
  f.cache->publish(cache::Kind::Record,
                   std::string("kiln verdicts 2\ndevice ") + kDevice + "\n", {},
                   "no json");
  CHECK(running.isWrong(kDevice, "a"));
  CHECK(heard == "b+");
}

TEST_CASE("verdicts are listed and cleared over all device classes") {
  VerdictFixture f;
  f.verdicts.found(kDevice, verdict("a"));
  f.verdicts.found(kDevice, verdict("b"));
  f.verdicts.found(kOther, verdict("a"));
  auto all = Verdicts::readAll(*f.cache);
  REQUIRE(all.size() == 2);
  CHECK(all[0].deviceClass == kDevice);
  CHECK(all[0].verdicts.size() == 2);
  CHECK(
      Verdicts::clear(*f.cache, [](llvm::StringRef device, const Verdict &one) {
        return device == kDevice && one.kernel == "b";
      }) == 1);
  auto later = f.open();
  Verdicts left(*later);
  CHECK(left.isWrong(kDevice, "a"));
  CHECK_FALSE(left.isWrong(kDevice, "b"));
  CHECK(left.isWrong(kOther, "a"));
}

TEST_CASE("a damaged list of verdicts is replaced; fields of others are kept") {
  VerdictFixture f;
  const std::string key =
      std::string("kiln verdicts 2\ndevice ") + kDevice + "\n";
  f.cache->publish(cache::Kind::Record, key, {}, "no json");
  CHECK_FALSE(f.verdicts.isWrong(kDevice, "a"));
  f.verdicts.found(kDevice, verdict("a"));
  auto later = f.open();
  CHECK(Verdicts(*later).isWrong(kDevice, "a"));
  f.cache->publish(cache::Kind::Record, key, {},
                   "{\"format\":2,\"holds\":\"verdicts\",\"more\":1}\n7\n"
                   "{\"kernel\":\"c\"}\n{\"kernel\":\"d\",\"config\":"
                   "\"fast.t1\",\"severity\":9}\n");
  f.verdicts.found(kDevice, verdict("b"));
  auto entry = f.cache->lookup(cache::Kind::Record, key);
  REQUIRE(entry);
  for (const char *kept : {"severity", "more", "\n7\n", "{\"kernel\":\"c\"}"})
    CHECK(entry->payload.find(kept) != std::string::npos);
  CHECK(f.verdicts.isWrong(kDevice, "d"));
}

TEST_CASE("verdicts of many threads are all kept") {
  VerdictFixture f;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 8; ++i)
        f.verdicts.found(kDevice, verdict(std::to_string(t * 8 + i)));
    });
  for (std::thread &thread : threads)
    thread.join();
  auto later = f.open();
  CHECK(Verdicts(*later).list(kDevice).size() == 32);
}
