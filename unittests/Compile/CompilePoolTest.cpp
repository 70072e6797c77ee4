#include "Compile/CompilePool.h"

#include "Compile/TestUnits.h"
#include "Support/TemporaryFolder.h"

#include <doctest/doctest.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

using namespace kiln;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

static std::shared_ptr<Compiler> fakeCompiler() {
  return std::make_shared<Compiler>(fakeSearch());
}

/// Returns when \p condition holds; false after a minute.
template <class Condition> static bool eventually(Condition condition) {
  for (int i = 0; i < 60000; ++i) {
    if (condition())
      return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

/// System calls of this thread that read, as the kernel counts them; nothing
/// where it does not.
static std::optional<long> readCalls() {
  std::ifstream counts("/proc/thread-self/io");
  std::string name;
  for (long value = 0; counts >> name >> value;)
    if (name == "syscr:")
      return value;
  return std::nullopt;
}

TEST_CASE("a pool that compiles nothing does not ask what the machine has") {
  std::optional<long> first = readCalls(), second = readCalls();
  if (!first || !second) {
    MESSAGE("the kernel counts no calls");
    return;
  }
  const long ofReading = *second - *first;
  CompilePool pool(fakeCompiler());
  std::optional<long> third = readCalls();
  REQUIRE(third);
  CHECK(*third - *second == ofReading);
  CHECK(pool.width() >= 1);
  CHECK(*readCalls() - *third > ofReading);
}

TEST_CASE("every unit is compiled once, at most width at a time") {
  FakeNvrtc fake = FakeNvrtc::open(KILN_BINARY_DIR);
  fake.delayWhen("", 2);
  CompilePool pool(fakeCompiler(), {.threads = 2});
  CHECK(pool.width() <= 2);
  std::atomic<int> good{0}, bad{0};
  for (int i = 0; i < 40; ++i) {
    TranslationUnit unit =
        makeUnit("sm_80", i % 4 ? fmt::format("f{}();", i) : "#error");
    pool.submit(std::move(unit), 0, [&](CompilePool::Result result) {
      ++(result ? good : bad);
      llvm::consumeError(result.takeError());
    });
  }
  CHECK(eventually([&] { return good + bad == 40; }));
  CHECK(good == 30);
  CHECK(bad == 10);
  CHECK(fake.compileCount() == 40);
  CHECK(fake.mostConcurrent() <= static_cast<int>(pool.width()));
  fake.reset();
}

namespace {
/// A folder with the fake as NVRTC and, if wanted, as its alternate build: two
/// files, so two libraries with a state each. (In a new folder each time: the
/// loader knows by name what it loaded.)
class NvrtcFolder {
public:
  explicit NvrtcFolder(bool hasAlternate) {
    fs::copy(FakeNvrtc::path(KILN_BINARY_DIR), folder / kPrimary);
    if (hasAlternate)
      fs::copy(FakeNvrtc::path(KILN_BINARY_DIR), folder / kAlternate);
  }

  FakeNvrtc primary() const { return FakeNvrtc::openFile(folder / kPrimary); }
  FakeNvrtc alternate() const {
    return FakeNvrtc::openFile(folder / kAlternate);
  }
  NvrtcSearch search() const {
    NvrtcSearch search;
    search.explicitPath = folder.path;
    return search;
  }

private:
  static constexpr const char *kPrimary = "libnvrtc.so.13",
                              *kAlternate = "libnvrtc.alt.so.13";
  testing::TemporaryFolder folder;
};
} // namespace

/// Compiles \p count units, each of which takes a while, with \p threads.
static void compileMany(const NvrtcSearch &search, unsigned threads,
                        int count) {
  auto compiler = std::make_shared<Compiler>(search);
  CompilePool pool(compiler, {.threads = threads});
  std::string toolchain = llvm::cantFail(compiler->nvrtc())->identity();
  std::vector<std::future<CompilePool::Result>> results;
  for (int i = 0; i < count; ++i)
    results.push_back(pool.submit(makeUnit("sm_80", fmt::format("f{}();", i))));
  for (auto &result : results) {
    CompilePool::Result artifact = result.get();
    REQUIRE(bool(artifact));
    CHECK(artifact->toolchain == toolchain);
  }
}

/// As many threads as wanted, where a pool has no more than there are cores;
/// each compiles \p each units.
static void compileOnThreads(Compiler &compiler, int count, int each) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&] {
      for (int j = 0; j < each; ++j)
        llvm::cantFail(compiler.compile(makeUnit()));
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST_CASE("many threads share two libraries, few keep to one") {
  NvrtcFolder libraries(/*hasAlternate=*/true);
  FakeNvrtc primary = libraries.primary(), alternate = libraries.alternate();
  primary.delayWhen("", 5);
  alternate.delayWhen("", 5);
  compileMany(libraries.search(), 2, 16);
  CHECK(primary.compileCount() == 16);
  CHECK(alternate.compileCount() == 0);
  Compiler compiler(libraries.search());
  compileOnThreads(compiler, 16, 4); // loads the alternate build
  primary.reset();
  alternate.reset();
  primary.delayWhen("", 5);
  alternate.delayWhen("", 5);
  compileOnThreads(compiler, 16, 8);
  CHECK(primary.compileCount() + alternate.compileCount() == 128);
  CHECK(alternate.compileCount() > 16);
  CHECK(primary.mostConcurrent() <= 8);
  CHECK(alternate.mostConcurrent() <= 8);
}

TEST_CASE("an alternate build of another version does not serve") {
  NvrtcFolder libraries(/*hasAlternate=*/true);
  FakeNvrtc alternate = libraries.alternate();
  alternate.setVersion(13, 1);
  auto nvrtc = llvm::cantFail(Nvrtc::load(libraries.search()));
  ErrorSummary error = summarize(nvrtc->loadAlternate().takeError());
  CHECK(error.code == ErrorCode::CompilerMissing);
  CHECK(error.message.find("NVRTC 13.1 beside 13.0") != std::string::npos);
}

TEST_CASE("without an alternate build one library does everything") {
  NvrtcFolder libraries(/*hasAlternate=*/false);
  FakeNvrtc primary = libraries.primary();
  primary.delayWhen("", 5);
  Compiler compiler(libraries.search());
  compileOnThreads(compiler, 8, 1);
  CHECK(primary.compileCount() == 8);
}

TEST_CASE("lower priority runs first; what waits can be cancelled") {
  FakeNvrtc fake = FakeNvrtc::open(KILN_BINARY_DIR);
  fake.holdWhen("blocker");
  CompilePool pool(fakeCompiler(), {.threads = 1});
  auto blocker = pool.submit(makeUnit("sm_80", "blocker();"));
  REQUIRE(eventually([&] { return fake.heldCount() == 1; }));

  std::mutex mutex;
  std::vector<int> order;
  auto record = [&](int tag) {
    return [&, tag](CompilePool::Result result) {
      std::lock_guard lock(mutex);
      order.push_back(result ? tag : -tag);
      llvm::consumeError(result.takeError());
    };
  };
  pool.submit(makeUnit(), 5, record(1));
  CompilePool::Ticket cancelled = pool.submit(makeUnit(), 0, record(2));
  pool.submit(makeUnit(), -5, record(3));
  pool.submit(makeUnit(), 5, record(4));
  CHECK(pool.cancel(cancelled));
  CHECK_FALSE(pool.cancel(cancelled));
  fake.release();
  CHECK(bool(blocker.get()));
  CHECK(eventually([&] {
    std::lock_guard lock(mutex);
    return order.size() == 4;
  }));
  CHECK(order == std::vector<int>{-2, 3, 1, 4});
  CHECK_FALSE(pool.cancel(12345));
  fake.reset();
}

TEST_CASE("F7: a gate puts a unit off, lets others in front, or drops it") {
  using Admission = CompilePool::Admission;
  FakeNvrtc fake = FakeNvrtc::open(KILN_BINARY_DIR);
  fake.holdWhen("blocker");
  std::vector<std::string> order;
  {
    CompilePool pool(fakeCompiler(), {.threads = 1});
    auto blocker = pool.submit(makeUnit("sm_80", "blocker();"));
    REQUIRE(eventually([&] { return fake.heldCount() == 1; }));
    std::mutex mutex;
    auto record = [&](std::string tag) {
      return [&, tag](CompilePool::Result result) {
        std::lock_guard lock(mutex);
        order.push_back(result ? tag : "no " + tag);
        llvm::consumeError(result.takeError());
      };
    };
    int asked = 0;
    pool.submit(makeUnit(), -5, record("late"), [&] {
      return ++asked < 3 ? Admission::Later : Admission::Compile;
    });
    pool.submit(makeUnit(), -5, record("dropped"),
                [] { return Admission::Drop; });
    pool.submit(makeUnit(), 5, record("other"));
    fake.release();
    CHECK(bool(blocker.get()));
    CHECK(eventually([&] {
      std::lock_guard lock(mutex);
      return order.size() == 3;
    }));
    CHECK(asked == 3);
    CHECK(fake.compileCount() == 3);
    // A unit that is put off for ever ends with the pool.
    pool.submit(makeUnit(), 0, record("never"),
                [] { return Admission::Later; });
  }
  CHECK(order ==
        std::vector<std::string>{"no dropped", "other", "late", "no never"});
  fake.reset();
}

TEST_CASE("a hung compilation is abandoned and its thread replaced") {
  FakeNvrtc fake = FakeNvrtc::open(KILN_BINARY_DIR);
  fake.delayWhen("hang", 2000);
  const auto start = CompilePool::Clock::now();
  {
    CompilePool pool(
        fakeCompiler(),
        {.threads = 1, .compileLimit = 100ms, .shutdownGrace = 10ms});
    auto hung = pool.submit(makeUnit("sm_80", "hang();"));
    auto next = pool.submit(makeUnit());
    size_t abandoned = 0;
    REQUIRE(eventually([&] {
      abandoned += pool.abandonOverdue();
      return abandoned > 0;
    }));
    CHECK(CompilePool::Clock::now() - start >= 100ms);
    auto result = hung.get();
    REQUIRE_FALSE(bool(result));
    ErrorSummary error = summarize(result.takeError());
    CHECK(error.code == ErrorCode::CompileFailed);
    CHECK(error.message.find("abandoned") != std::string::npos);
    CHECK(bool(next.get()));
    CHECK(abandoned == 1);
  }
  CHECK(CompilePool::Clock::now() - start < 1900ms);
  // Its thread comes back to a pool that is gone, and ends.
  std::this_thread::sleep_for(2000ms);
  fake.reset();
}

TEST_CASE("a pool that ends cancels the queue and abandons what hangs") {
  FakeNvrtc fake = FakeNvrtc::open(KILN_BINARY_DIR);
  fake.delayWhen("hang", 1000);
  std::future<CompilePool::Result> hung, queued;
  {
    CompilePool pool(fakeCompiler(), {.threads = 1, .shutdownGrace = 20ms});
    hung = pool.submit(makeUnit("sm_80", "hang();"));
    REQUIRE(eventually([&] { return fake.mostConcurrent() == 1; }));
    queued = pool.submit(makeUnit());
  }
  auto first = hung.get(), second = queued.get();
  CHECK(summarize(first.takeError()).code == ErrorCode::CompileFailed);
  CHECK(summarize(second.takeError()).code == ErrorCode::Cancelled);
  std::this_thread::sleep_for(1100ms);
  fake.reset();
}

TEST_CASE("a callback may use the pool") {
  CompilePool pool(fakeCompiler(), {.threads = 1});
  std::atomic<int> depth{0};
  std::function<void(CompilePool::Result)> again =
      [&](CompilePool::Result result) {
        CHECK(bool(result));
        if (++depth < 5)
          pool.submit(makeUnit(), 0, again);
      };
  pool.submit(makeUnit(), 0, again);
  CHECK(eventually([&] { return depth == 5; }));
}

TEST_CASE("what a callback submits to a pool that ends is cancelled") {
  FakeNvrtc fake = FakeNvrtc::open(KILN_BINARY_DIR);
  fake.delayWhen("slow", 200);
  std::atomic<int> cancelled{0};
  {
    CompilePool pool(fakeCompiler(), {.threads = 1});
    pool.submit(makeUnit("sm_80", "slow();"), 0,
                [&](CompilePool::Result result) {
                  CHECK(bool(result));
                  pool.submit(makeUnit(), 0, [&](CompilePool::Result more) {
                    REQUIRE_FALSE(bool(more));
                    cancelled += summarize(more.takeError()).code ==
                                 ErrorCode::Cancelled;
                  });
                });
    REQUIRE(eventually([&] { return fake.mostConcurrent() == 1; }));
  }
  CHECK(cancelled == 1);
  fake.reset();
}

TEST_CASE("a limit of nothing still lets the threads work") {
  CompilePool pool(fakeCompiler(), {.threads = 1, .compileLimit = 0ms});
  auto future = pool.submit(makeUnit());
  while (future.wait_for(1ms) != std::future_status::ready)
    pool.abandonOverdue();
  llvm::consumeError(future.get().takeError());
}

TEST_CASE("concurrency is at least one and at most the cap") {
  CHECK(compileConcurrency(1) == 1);
  CHECK(compileConcurrency() >= 1);
  CHECK(compileConcurrency(1000000) == compileConcurrency());
}

TEST_CASE("F12: one compilation is given up, and counted until it ends") {
  FakeNvrtc fake = FakeNvrtc::open(KILN_BINARY_DIR);
  fake.holdWhen("hang");
  CompilePool pool(fakeCompiler(), {.threads = 1});
  std::optional<ErrorSummary> error;
  // Compilations of other tests may still end.
  REQUIRE(eventually([] { return CompilePool::lostInProcess() == 0; }));
  const size_t lostBefore = 0;
  CompilePool::Ticket hung = pool.submit(
      makeUnit("sm_80", "hang();"), 0, [&](CompilePool::Result result) {
        error = summarize(result.takeError());
      });
  REQUIRE(eventually([&] { return fake.heldCount() == 1; }));
  CHECK_FALSE(pool.abandon(hung + 1));
  CHECK(pool.abandon(hung));
  REQUIRE(error);
  CHECK(error->code == ErrorCode::Cancelled);
  CHECK(error->message.find("abandoned") != std::string::npos);
  CHECK_FALSE(pool.abandon(hung));
  CHECK(CompilePool::lostInProcess() == lostBefore + 1);
  // Another thread goes on.
  CHECK(bool(pool.submit(makeUnit()).get()));
  fake.release();
  CHECK(eventually([&] { return CompilePool::lostInProcess() == lostBefore; }));
  fake.reset();
}

TEST_CASE("F12: a pool that was stopped takes nothing more") {
  FakeNvrtc fake = FakeNvrtc::open(KILN_BINARY_DIR);
  fake.holdWhen("hang");
  CompilePool pool(fakeCompiler(), {.threads = 1, .shutdownGrace = 10ms});
  auto hung = pool.submit(makeUnit("sm_80", "hang();"));
  REQUIRE(eventually([&] { return fake.heldCount() == 1; }));
  auto queued = pool.submit(makeUnit());
  pool.stop();
  CHECK(summarize(hung.get().takeError()).code == ErrorCode::CompileFailed);
  CHECK(summarize(queued.get().takeError()).code == ErrorCode::Cancelled);
  auto late = pool.submit(makeUnit());
  CHECK(summarize(late.get().takeError()).code == ErrorCode::Cancelled);
  fake.reset();
}

TEST_CASE("signals of the program do not arrive on threads of the pool") {
  auto blocksSignal = [] {
    sigset_t mask;
    return ::pthread_sigmask(SIG_BLOCK, nullptr, &mask) == 0 &&
           ::sigismember(&mask, SIGUSR1) == 1;
  };
  CompilePool pool(fakeCompiler(), {.threads = 1});
  std::promise<bool> isBlocked;
  pool.submit(makeUnit(), 0, [&](CompilePool::Result result) {
    CHECK(bool(result));
    isBlocked.set_value(blocksSignal());
  });
  CHECK(isBlocked.get_future().get());
  CHECK_FALSE(blocksSignal());
}
