// KILN_DETERMINISM_FROZEN_CHOICE: engines with equal caches choose alike,
// whatever the order of their calls and whatever else goes on.
#include "Driver/StreamContext.h"
#include "Fakes/FakeCuda.h"
#include "Runtime/Capi.h"
#include "Runtime/Captures.h"
#include "Runtime/RuntimeFixture.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// A problem that is prepared: a product with k, and m or a range of it.
struct Wanted {
  int64_t k, first, last;
};

constexpr Wanted kWanted[] = {{512, 1, 100}, {512, 50, 600}, {512, 1, 64},
                              {512, 70, 70}, {512, 7, 7},    {1024, 1, 256},
                              {768, 33, 33}};

struct FrozenFixture : RuntimeFixture {
  FrozenFixture() { judgeTrials(); }

  kiln_engine_options frozen(kiln_mode mode = KILN_MODE_PREDICT) const {
    kiln_engine_options made = options(mode);
    made.determinism = KILN_DETERMINISM_FROZEN_CHOICE;
    return made;
  }

  kiln_status prepare(kiln_engine *engine, const Wanted &wanted,
                      int64_t budgetMs = 0) {
    const kiln_gemm_args args = gemmArgs(wanted.last, 256, wanted.k);
    const kiln_range range = rangeOf("m", wanted.first, wanted.last);
    kiln_problem problem = problemOf(args);
    if (wanted.first != wanted.last) {
      problem.ranges = &range;
      problem.range_count = 1;
    }
    kiln_prepare_options prepared = KILN_INIT(kiln_prepare_options);
    prepared.budget_ms = budgetMs;
    return kiln_prepare(engine, &problem, 1, &prepared, nullptr);
  }

  static std::string digestOf(kiln_engine *engine) {
    char text[65] = "";
    size_t length = 0;
    REQUIRE(kiln_plans_digest(engine, nullptr, text, sizeof(text), &length) ==
            KILN_SUCCESS);
    REQUIRE(length == 64);
    return text;
  }

  /// The config that a launch of \p args takes.
  std::string choiceOf(kiln_engine *engine, const kiln_gemm_args &args) {
    const kiln_problem problem = problemOf(args);
    kiln_plan *plan = nullptr;
    const kiln_status status =
        kiln_plan_acquire(engine, &problem, nullptr, &plan);
    if (status != KILN_SUCCESS)
      return "status " + std::to_string(status);
    char text[512] = "";
    kiln_plan_describe(plan, text, sizeof(text), nullptr);
    kiln_plan_release(plan);
    const std::string described = text;
    return described.substr(0, described.find(", predicted"));
  }

  kiln_status launch(kiln_engine *engine, const kiln_gemm_args &args) const {
    return kiln_gemm(engine, &args, nullptr, gpu.stream());
  }

  /// The verdict that the kernel of \p engine's choice is wrong, stored as by
  /// another process.
  void condemn(kiln_engine *engine, const kiln_gemm_args &args) {
    auto context = findContext(gpu.driver(), gpu.stream());
    REQUIRE(static_cast<bool>(context));
    auto state = engine->engine->contextState(gpu.driver(), *context);
    REQUIRE(static_cast<bool>(state));
    const Plan *chosen = nullptr;
    engine->engine->plans().forEachKept(context->id, [&](const KernelFamily &,
                                                         auto values,
                                                         const auto &plan) {
      auto problem = engine->engine->readProblem(&problemIs(args));
      if (llvm::ArrayRef<int64_t>(values) == problem->problem.values.array())
        chosen = &plan.loaded->plan();
    });
    REQUIRE(chosen);
    cache::StoreOptions options;
    options.writeDir = cachePath;
    auto store = cache::Store::open(options);
    Verdict verdict;
    verdict.kernel = kernelDigest(*chosen);
    verdict.config = chosen->config.compiledText();
    verdict.problem = "of another process";
    verdict.reason = "wrong result";
    Verdicts(*store).found((*state)->deviceClass, verdict);
  }
  const kiln_problem &problemIs(const kiln_gemm_args &args) {
    described = problemOf(args);
    return described;
  }
  kiln_problem described{};
};

/// Makes the kernels of trials differ in time, so that measuring speaks against
/// the estimator.
void disorderTimes() {
  kilnFakeOnLaunch(
      "kiln_*",
      [](KilnFakeLaunch *launch, void *) {
        const std::string text = launch->moduleText;
        launch->durationNs =
            3000 + double(std::hash<std::string>()(text) % 9000);
      },
      nullptr, 0);
}

} // namespace

TEST_CASE("frozen choices are for modes without trials") {
  FrozenFixture f;
  for (kiln_mode mode : {KILN_MODE_TUNE, KILN_MODE_BACKGROUND}) {
    const kiln_engine_options options = f.frozen(mode);
    kiln_engine *engine = nullptr;
    CHECK(kiln_engine_create(&options, &engine) == KILN_INVALID_ARGUMENT);
    CHECK(lastErrorHas("predict or strict"));
  }
  kiln_engine_options options = f.options();
  options.determinism = KILN_DETERMINISM_BATCH_INVARIANT;
  kiln_engine *engine = nullptr;
  CHECK(kiln_engine_create(&options, &engine) == KILN_UNSUPPORTED);
}

TEST_CASE("a call that wants a frozen choice gets one or an error") {
  FrozenFixture f;
  kiln_engine *frozen = f.engine(f.frozen());
  kiln_engine *usual = f.engine(KILN_MODE_PREDICT);
  kiln_gemm_args args = gemmArgs();
  CHECK(f.launch(usual, args) == KILN_SUCCESS);
  args.determinism = KILN_DETERMINISM_FROZEN_CHOICE;
  const kiln_problem problem = problemOf(args);
  kiln_plan *plan = nullptr;
  CHECK(f.launch(usual, args) == KILN_UNSUPPORTED);
  CHECK(lastErrorHas("kiln_engine_options.determinism"));
  CHECK(kiln_prepare(usual, &problem, 1, nullptr, nullptr) == KILN_UNSUPPORTED);
  CHECK(kiln_plan_acquire(usual, &problem, nullptr, &plan) == KILN_UNSUPPORTED);
  const uint64_t misses = statisticsOf(frozen).dispatch_misses;
  for (int i = 0; i < 3; ++i)
    CHECK(f.launch(frozen, args) == KILN_SUCCESS);
  CHECK(statisticsOf(frozen).dispatch_misses == misses + 1);
  CHECK(kiln_plan_acquire(frozen, &problem, nullptr, &plan) == KILN_SUCCESS);
  CHECK(kiln_plan_launch_call(plan, KILN_FAMILY_GEMM, &args, nullptr,
                              f.gpu.stream()) == KILN_SUCCESS);
  kiln_plan_release(plan);
}

TEST_CASE("20 starts in any order choose alike, also while an engine tunes") {
  FrozenFixture f;
  disorderTimes();
  // Rank 0 measures some of the problems.
  kiln_engine *tuner = f.engine(KILN_MODE_TUNE);
  for (const Wanted &wanted : {kWanted[1], kWanted[4], kWanted[5]})
    REQUIRE(f.prepare(tuner, wanted) == KILN_SUCCESS);
  std::mt19937 random(7);
  std::set<std::string> digests;
  std::vector<std::set<std::string>> choices(8);
  // Other layers are measured meanwhile.
  std::atomic<bool> isOver{false};
  std::thread tuning([&] {
    onThreads(f, {[&] {
                for (int64_t k = 2048; !isOver; k += 64)
                  CHECK(f.prepare(tuner, {k, 8, 8}, 20) == KILN_SUCCESS);
              }});
  });
  for (int start = 0; start < 20; ++start) {
    kiln_engine *engine = f.engine(f.frozen());
    std::vector<Wanted> order(std::begin(kWanted), std::end(kWanted));
    std::shuffle(order.begin(), order.end(), random);
    // Kernels that happen to be loaded, and values that are met before.
    for (int i = 0; i < start % 4; ++i)
      CHECK(f.launch(engine, gemmArgs(1 + int64_t(random() % 700), 256,
                                      512 << (i % 2))) == KILN_SUCCESS);
    for (const Wanted &wanted : order)
      CHECK(f.prepare(engine, wanted) == KILN_SUCCESS);
    digests.insert(f.digestOf(engine));
    const int64_t values[] = {1, 7, 32, 64, 70, 99, 300, 600};
    for (size_t i = 0; i < 8; ++i)
      choices[i].insert(f.choiceOf(engine, gemmArgs(values[i], 256, 512)));
    f.destroy(engine);
  }
  isOver = true;
  tuning.join();
  CHECK(digests.size() == 1);
  for (const std::set<std::string> &seen : choices)
    CHECK(seen.size() == 1);
}

TEST_CASE("values that nothing prepared choose alike in any order") {
  FrozenFixture f;
  disorderTimes();
  kiln_engine *tuner = f.engine(KILN_MODE_TUNE);
  REQUIRE(f.prepare(tuner, {512, 1, 64}) == KILN_SUCCESS);
  REQUIRE(f.prepare(tuner, {512, 1, 1024}) == KILN_SUCCESS);
  for (kiln_mode mode : {KILN_MODE_PREDICT, KILN_MODE_STRICT}) {
    CAPTURE(mode);
    std::vector<int64_t> values = {1, 9, 40, 64, 65, 200, 512, 1000};
    std::vector<std::string> first;
    for (int start = 0; start < 3; ++start) {
      kiln_engine *engine = f.engine(f.frozen(mode));
      std::vector<std::string> choices(values.size());
      for (size_t i = 0; i < values.size(); ++i) {
        const size_t place = start == 1 ? values.size() - 1 - i : i;
        const kiln_gemm_args args = gemmArgs(values[place], 256, 512);
        if (start == 2) // launches come from another thread as well
          onThreads(f,
                    {[&] { CHECK(f.launch(engine, args) == KILN_SUCCESS); },
                     [&] { CHECK(f.launch(engine, args) == KILN_SUCCESS); }});
        choices[place] = f.choiceOf(engine, args);
      }
      if (first.empty())
        first = choices;
      CHECK(choices == first);
    }
  }
}

TEST_CASE("two threads that prepare get what one gets") {
  FrozenFixture f;
  kiln_engine *one = f.engine(f.frozen());
  for (const Wanted &wanted : kWanted)
    REQUIRE(f.prepare(one, wanted) == KILN_SUCCESS);
  kiln_engine *two = f.engine(f.frozen());
  onThreads(f, {[&] {
                  for (size_t i = 0; i < std::size(kWanted); i += 2)
                    CHECK(f.prepare(two, kWanted[i]) == KILN_SUCCESS);
                },
                [&] {
                  for (size_t i = 1; i < std::size(kWanted); i += 2)
                    CHECK(f.prepare(two, kWanted[i]) == KILN_SUCCESS);
                }});
  CHECK(f.digestOf(one) == f.digestOf(two));
}

TEST_CASE("what other processes store later counts for later engines") {
  FrozenFixture f;
  disorderTimes();
  kiln_engine *early = f.engine(f.frozen());
  CHECK(f.launch(early, gemmArgs(16, 256, 512)) == KILN_SUCCESS);
  const std::string estimated = f.choiceOf(early, gemmArgs(16, 256, 512));
  CHECK(estimated.find("by estimate") != std::string::npos);
  kiln_engine *tuner = f.engine(KILN_MODE_TUNE);
  REQUIRE(f.prepare(tuner, {512, 1, 256}) == KILN_SUCCESS);
  CHECK(f.choiceOf(early, gemmArgs(17, 256, 512)).find("by estimate") !=
        std::string::npos);
  kiln_engine *late = f.engine(f.frozen());
  CHECK(f.choiceOf(late, gemmArgs(17, 256, 512)).find("by record") !=
        std::string::npos);
  // Preparing does not change what the engine has read.
  REQUIRE(f.prepare(early, {512, 1, 256}) == KILN_SUCCESS);
  REQUIRE(f.prepare(late, {512, 1, 256}) == KILN_SUCCESS);
  CHECK(f.digestOf(early) != f.digestOf(late));
}

TEST_CASE("kernels that other processes compile later are not there in mode "
          "strict") {
  FrozenFixture f;
  const kiln_gemm_args args = gemmArgs(17, 256, 512);
  kiln_engine *early = f.engine(f.frozen(KILN_MODE_STRICT));
  CHECK(f.launch(early, args) == KILN_MISSING);
  REQUIRE(f.launch(f.engine(), args) == KILN_SUCCESS);
  CHECK(f.launch(early, args) == KILN_MISSING);
  CHECK(f.launch(f.engine(f.frozen(KILN_MODE_STRICT)), args) == KILN_SUCCESS);
}

TEST_CASE("digests differ between kernels of different compilers") {
  FrozenFixture f;
  std::vector<std::string> digests;
  for (int minor : {0, 0, 1}) {
    f.nvrtc.setVersion(13, minor);
    kiln_engine_options options = f.frozen();
    const std::string own = f.cachePath + std::to_string(digests.size());
    options.cache_dir = own.c_str();
    kiln_engine *engine = f.engine(options);
    REQUIRE(f.prepare(engine, {512, 1, 64}) == KILN_SUCCESS);
    digests.push_back(f.digestOf(engine));
    f.destroy(engine); // one compiler serves all engines of its time
  }
  CHECK(digests[0] == digests[1]);
  CHECK(digests[0] != digests[2]);
}

TEST_CASE("a frozen engine stores kernels and no choices") {
  FrozenFixture f;
  const Wanted wanted{512, 1, 256};
  kiln_engine *first = f.engine(f.frozen());
  REQUIRE(f.prepare(first, wanted) == KILN_SUCCESS);
  kiln_engine *strict = f.engine(f.frozen(KILN_MODE_STRICT));
  CHECK(f.prepare(strict, wanted) == KILN_MISSING);
  const int compiles = f.nvrtc.compileCount();
  kiln_engine *second = f.engine(f.frozen());
  REQUIRE(f.prepare(second, wanted) == KILN_SUCCESS);
  CHECK(f.nvrtc.compileCount() == compiles);
  CHECK(f.digestOf(first) == f.digestOf(second));
}

TEST_CASE("what another engine prepared with trials is loaded in mode strict") {
  FrozenFixture f;
  disorderTimes();
  kiln_engine *tuner = f.engine(KILN_MODE_TUNE);
  const Wanted all[] = {{512, 1, 256}, {1024, 1, 64}};
  for (const Wanted &wanted : all)
    REQUIRE(f.prepare(tuner, wanted) == KILN_SUCCESS);
  f.destroy(tuner);
  kiln_engine *ranks[] = {f.engine(f.frozen(KILN_MODE_STRICT)),
                          f.engine(f.frozen(KILN_MODE_STRICT))};
  for (const Wanted &wanted : all)
    REQUIRE(f.prepare(ranks[0], wanted) == KILN_SUCCESS);
  CHECK(f.digestOf(ranks[0]) != f.digestOf(ranks[1]));
  for (int i = 1; i >= 0; --i)
    REQUIRE(f.prepare(ranks[1], all[i]) == KILN_SUCCESS);
  CHECK(f.digestOf(ranks[0]) == f.digestOf(ranks[1]));
}

TEST_CASE("the room for kernels does not choose") {
  FrozenFixture f;
  kiln_engine_options little = f.frozen();
  little.pool_limit_bytes = 1;
  kiln_engine *one = f.engine(little), *two = f.engine(f.frozen());
  for (kiln_engine *engine : {one, two})
    REQUIRE(f.prepare(engine, {512, 1, 1024}) == KILN_SUCCESS);
  CHECK(f.digestOf(one) == f.digestOf(two));
  for (int64_t m : {1, 33, 500, 1024})
    CHECK(f.choiceOf(one, gemmArgs(m, 256, 512)) ==
          f.choiceOf(two, gemmArgs(m, 256, 512)));
}

TEST_CASE("a capture takes the frozen choice or nothing") {
  FrozenFixture f;
  kiln_engine *engine = f.engine(f.frozen());
  REQUIRE(f.prepare(engine, {512, 1, 64}) == KILN_SUCCESS);
  CHECK(f.launch(engine, gemmArgs(300, 256, 512)) == KILN_SUCCESS);
  kiln_stream stream = f.gpu.stream();
  REQUIRE(beginCapture(f, stream));
  CHECK(f.launch(engine, gemmArgs(20, 256, 512)) == KILN_SUCCESS);
  CHECK(f.launch(engine, gemmArgs(300, 256, 512)) == KILN_SUCCESS);
  CHECK(f.launch(engine, gemmArgs(310, 256, 512)) == KILN_NOT_PREPARED);
  endCapture(f, stream);
}

TEST_CASE("a kernel that gets a verdict is neither launched nor replaced") {
  FrozenFixture f;
  const Wanted wanted{512, 16, 16};
  const kiln_gemm_args args = gemmArgs(16, 256, 512);
  kiln_engine *engine = f.engine(f.frozen());
  REQUIRE(f.prepare(engine, wanted) == KILN_SUCCESS);
  CHECK(f.launch(engine, args) == KILN_SUCCESS);
  const std::string lost = f.choiceOf(engine, args);
  f.condemn(engine, args);
  // An engine that begins now chooses another kernel.
  kiln_engine *later = f.engine(f.frozen());
  REQUIRE(f.prepare(later, wanted) == KILN_SUCCESS);
  CHECK(f.choiceOf(later, args) != lost);
  CHECK(f.digestOf(later) != f.digestOf(engine));
  engine->engine->recheckVerdicts();
  CHECK(f.launch(engine, args) == KILN_NO_CANDIDATE);
  CHECK(lastErrorHas("start all of them again"));
  CHECK(f.prepare(engine, wanted) == KILN_NO_CANDIDATE);
  CHECK(f.prepare(engine, {512, 1, 64}) == KILN_NO_CANDIDATE);
  CHECK(f.launch(engine, args) == KILN_NO_CANDIDATE);
  CHECK(f.launch(later, args) == KILN_SUCCESS);
}
