// Kernels that trials find wrong: from then on no launch takes one, whatever
// chose it and for whatever problem.
#include "Fakes/FakeCuda.h"
#include "Runtime/Captures.h"
#include "Runtime/RuntimeFixture.h"
#include "trial/TrialParams.h"

#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// The knobs that the entry of \p module names: "sm90", "bm128", "bn256".
std::set<std::string> knobsOf(const std::string &module) {
  const std::string prefix = "kiln_gemm_";
  std::set<std::string> knobs;
  const size_t begin = module.rfind(prefix);
  if (begin == std::string::npos)
    return knobs;
  std::string word;
  for (size_t i = begin + prefix.size(); i < module.size(); ++i) {
    if (std::isalnum(static_cast<unsigned char>(module[i]))) {
      word += module[i];
      continue;
    }
    if (word.rfind("sig", 0) == 0)
      break;
    knobs.insert(word);
    word.clear();
    if (module[i] != '_')
      break;
  }
  return knobs;
}

/// Servers pause: a thread that loads code in the background waits for it.
void pauseTogether() {
  using namespace std::chrono;
  constexpr milliseconds kRound{50}, kPause{25};
  const auto now = steady_clock::now().time_since_epoch();
  if (now % kRound < kPause)
    std::this_thread::sleep_for(kPause - now % kRound);
}

/// Plays a device on which some kernels are wrong, and records launches. A
/// kernel counts as rejected once the log reports the verdict.
class WrongKernels {
public:
  using Clock = std::chrono::steady_clock;

  /// Says whether the kernel of a module text computes wrong results.
  std::function<bool(const std::string &)> isWrong = [](auto &) {
    return false;
  };

  WrongKernels() {
    kilnFakeOnLaunch("kiln_*", &WrongKernels::run, this, 0);
    kilnFakeOnLaunch("trial/TrialTools.cuh", &WrongKernels::compare, this,
                     sizeof(CompareToleranceParams));
  }
  ~WrongKernels() {
    kilnFakeOnLaunch(
        "kiln_*", [](KilnFakeLaunch *, void *) {}, nullptr, 0);
  }

  void watch(kiln_engine_options &options) {
    options.log_user = this;
    options.log = [](void *user, kiln_log_level, const char *message) {
      static_cast<WrongKernels *>(user)->note(message);
    };
  }

  /// Marks the beginning of a call of this thread on \p stream.
  void begin(kiln_stream stream) {
    callStream() = reinterpret_cast<CUstream>(stream);
    callBegan() = Clock::now();
  }

  std::string favoured; ///< the text of a kernel that is faster than others
  std::string slow;     ///< and of one that is slower
  std::atomic<int> violations{0}, launches{0};
  size_t rejectedCount() {
    std::lock_guard<std::mutex> lock(mutex);
    return rejectedAt.size();
  }
  std::string lastLaunched() {
    std::lock_guard<std::mutex> lock(mutex);
    return last;
  }
  size_t compared() {
    std::lock_guard<std::mutex> lock(mutex);
    return comparisons;
  }

private:
  static CUstream &callStream() {
    static thread_local CUstream stream = nullptr;
    return stream;
  }
  static Clock::time_point &callBegan() {
    static thread_local Clock::time_point began = Clock::time_point::max();
    return began;
  }

  static void run(KilnFakeLaunch *launch, void *user) {
    auto *self = static_cast<WrongKernels *>(user);
    const std::string text = launch->moduleText;
    if (text.find("Reference") != std::string::npos)
      return;
    std::lock_guard<std::mutex> lock(self->mutex);
    self->running[launch->stream] = text;
    const auto hash = std::hash<std::string>()(text);
    // All times are close, except that of the best, so that trials compare it.
    launch->durationNs =
        text == self->favoured ? 1000
        : text == self->slow
            ? 20000
            : 5000 + 40 * static_cast<double>((hash >> 7) % 100);
    if (launch->stream != callStream() ||
        callBegan() == Clock::time_point::max())
      return;
    ++self->launches;
    self->last = text;
    auto rejected = self->rejectedAt.find(text);
    self->violations +=
        rejected != self->rejectedAt.end() && rejected->second < callBegan();
  }

  static void compare(KilnFakeLaunch *launch, void *user) {
    auto *self = static_cast<WrongKernels *>(user);
    if (std::string(launch->function) != "kilnCompareTolerance")
      return;
    CompareToleranceParams params;
    std::memcpy(static_cast<void *>(&params), launch->params, sizeof(params));
    const auto count = static_cast<uint64_t>((params.rowEnd - params.rowBegin) *
                                             params.layout.cols);
    params.result->checked += count;
    std::lock_guard<std::mutex> lock(self->mutex);
    const std::string &text = self->running[launch->stream];
    ++self->comparisons;
    if (!self->isWrong(text))
      return;
    self->mismatched.insert(text);
    params.result->mismatches += count;
    params.result->maxRatio = 1e6;
    params.result->firstBad = 0;
  }

  /// "<config> computes wrong results ...": which text is it?
  void note(const std::string &message) {
    const size_t end = message.find(" computes wrong results");
    if (end == std::string::npos)
      return;
    std::set<std::string> said;
    std::string word;
    for (char c : message.substr(0, end) + ".")
      if (c == '.')
        said.insert(std::exchange(word, {}));
      else
        word += c;
    std::lock_guard<std::mutex> lock(mutex);
    for (const std::string &text : mismatched) {
      const std::set<std::string> knobs = knobsOf(text);
      if (!knobs.empty() &&
          std::includes(said.begin(), said.end(), knobs.begin(), knobs.end()))
        rejectedAt.try_emplace(text, Clock::now());
    }
  }

  std::mutex mutex;
  std::map<CUstream, std::string> running;
  std::set<std::string> mismatched;
  std::map<std::string, Clock::time_point> rejectedAt;
  std::string last;
  size_t comparisons = 0;
};

struct VerdictFixture : RuntimeFixture {
  VerdictFixture() { kilnFakeSetHollowMemory(1 << 20); }
  ~VerdictFixture() { destroyAll(); } // they may log verdicts that they notice

  kiln_engine *watched(kiln_mode mode) {
    kiln_engine_options given = options(mode);
    kernels.watch(given);
    return engine(given);
  }
  kiln_status launch(kiln_engine *engine, const kiln_gemm_args &args) {
    kernels.begin(gpu.stream());
    return kiln_gemm(engine, &args, nullptr, gpu.stream());
  }
  /// From now on the kernel that was launched last is wrong.
  void spoilLast() {
    kernels.favoured = kernels.lastLaunched();
    kernels.isWrong = [text = kernels.favoured](const std::string &one) {
      return one == text;
    };
  }
  static kiln_status prepare(kiln_engine *engine, const kiln_gemm_args &args,
                             uint32_t flags = 0, int64_t last = 0) {
    kiln_range range = KILN_INIT(kiln_range);
    range.name = "m";
    range.first = 1;
    range.last = last;
    kiln_problem problem = problemOf(args);
    if (last) {
      problem.ranges = &range;
      problem.range_count = 1;
    }
    kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
    options.flags = flags;
    return kiln_prepare(engine, &problem, 1, &options, nullptr);
  }

  WrongKernels kernels;
};

} // namespace

TEST_CASE(
    "a kernel that one value finds wrong leaves the others of its layer") {
  VerdictFixture f;
  kiln_engine *engine = f.watched(KILN_MODE_TUNE);
  kiln_gemm_args args = gemmArgs(112, 4096, 4096);
  REQUIRE(f.launch(engine, args) == KILN_SUCCESS);
  f.spoilLast();
  REQUIRE(f.prepare(engine, args, KILN_PREPARE_RETUNE) == KILN_SUCCESS);
  REQUIRE(f.kernels.rejectedCount() == 1);
  const int before = f.kernels.launches;
  for (args.m = 100; args.m < 120; ++args.m)
    REQUIRE(f.launch(engine, args) == KILN_SUCCESS);
  CHECK(f.kernels.launches > before);
  CHECK(f.kernels.violations == 0);
}

TEST_CASE("a prepared range drops a member that is found wrong in it") {
  VerdictFixture f;
  kiln_engine *engine = f.watched(KILN_MODE_TUNE);
  kiln_gemm_args args = gemmArgs(112, 4096, 4096);
  REQUIRE(f.prepare(engine, args, 0, 512) == KILN_SUCCESS);
  REQUIRE(f.launch(engine, args) == KILN_SUCCESS);
  f.spoilLast();
  REQUIRE(f.prepare(engine, args, KILN_PREPARE_RETUNE) == KILN_SUCCESS);
  REQUIRE(f.kernels.rejectedCount() == 1);
  for (args.m = 90; args.m < 130; ++args.m)
    REQUIRE(f.launch(engine, args) == KILN_SUCCESS);
  CHECK(f.kernels.violations == 0);
}

TEST_CASE("a kernel that one layer finds wrong is wrong for all, and later") {
  VerdictFixture f;
  kiln_gemm_args args = gemmArgs(112, 4096, 4096);
  {
    kiln_engine *engine = f.watched(KILN_MODE_TUNE);
    REQUIRE(f.launch(engine, args) == KILN_SUCCESS);
    f.spoilLast();
    REQUIRE(f.prepare(engine, args, KILN_PREPARE_RETUNE) == KILN_SUCCESS);
    REQUIRE(f.kernels.rejectedCount() == 1);
    for (int64_t n : {2048, 3072, 8192}) {
      args = gemmArgs(112, n, 4096);
      REQUIRE(f.launch(engine, args) == KILN_SUCCESS);
    }
    f.destroy(engine);
  }
  for (kiln_mode mode :
       {KILN_MODE_PREDICT, KILN_MODE_BACKGROUND, KILN_MODE_TUNE}) {
    CAPTURE(mode);
    kiln_engine *engine = f.watched(mode);
    for (int64_t n : {1024, 4096, 6144})
      for (int64_t m : {96, 112, 113}) {
        args = gemmArgs(m, n, 4096);
        REQUIRE(f.launch(engine, args) == KILN_SUCCESS);
      }
    f.destroy(engine);
  }
  CHECK(f.kernels.violations == 0);
}

TEST_CASE("S5: a decision does not stand against what a range found") {
  VerdictFixture f;
  kiln_gemm_args args = gemmArgs(112, 4096, 4096);
  kiln_engine *predict = f.watched(KILN_MODE_PREDICT);
  REQUIRE(f.prepare(predict, args, KILN_PREPARE_COMPILE_ONLY) == KILN_SUCCESS);
  REQUIRE(f.launch(predict, args) == KILN_SUCCESS);
  f.spoilLast();
  REQUIRE(f.prepare(f.watched(KILN_MODE_TUNE), args, 0, 1024) == KILN_SUCCESS);
  if (f.kernels.rejectedCount() == 0) // the range had no such member
    REQUIRE(f.prepare(f.watched(KILN_MODE_TUNE), args) == KILN_SUCCESS);
  REQUIRE(f.kernels.rejectedCount() == 1);
  for (kiln_mode mode : {KILN_MODE_PREDICT, KILN_MODE_STRICT, KILN_MODE_TUNE})
    REQUIRE(f.launch(f.watched(mode), args) == KILN_SUCCESS);
  CHECK(f.kernels.violations == 0);
}

TEST_CASE("where a range is all wrong, nothing of it is launched any more") {
  for (bool isRange : {true, false}) {
    CAPTURE(isRange);
    VerdictFixture f;
    kiln_engine *engine = f.watched(KILN_MODE_TUNE);
    kiln_gemm_args args = gemmArgs(112, 512, 512);
    const int64_t last = isRange ? 256 : 0;
    REQUIRE(f.prepare(engine, args, 0, last) == KILN_SUCCESS);
    REQUIRE(f.launch(engine, args) == KILN_SUCCESS);
    f.kernels.isWrong = [](auto &) { return true; };
    CHECK(f.prepare(engine, args, KILN_PREPARE_RETUNE, last) ==
          KILN_NO_CANDIDATE);
    CHECK(f.launch(engine, args) == KILN_NO_CANDIDATE);
    CHECK(queryOf(engine, problemOf(args)).state != KILN_STATE_READY);
    CHECK(f.kernels.violations == 0);
  }
}

TEST_CASE(
    "background: what is found wrong is not launched until better comes") {
  VerdictFixture f;
  f.kernels.isWrong = [](auto &) { return true; };
  kiln_engine *engine = f.watched(KILN_MODE_BACKGROUND);
  kiln_gemm_args args = gemmArgs(112, 512, 512);
  REQUIRE(f.prepare(engine, args) == KILN_SUCCESS);
  while (statisticsOf(engine).background_pending)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  REQUIRE(f.kernels.rejectedCount() > 0);
  for (args.m = 100; args.m < 120; ++args.m)
    f.launch(engine, args);
  CHECK(f.kernels.violations == 0);
}

TEST_CASE("wrong results that fresh data does not repeat are no verdict") {
  VerdictFixture f;
  int left = 1; // comparisons that another thread's write spoils
  f.kernels.isWrong = [&](auto &) { return left-- > 0; };
  kiln_engine *engine = f.watched(KILN_MODE_TUNE);
  kiln_gemm_args args = gemmArgs(112, 512, 512);
  REQUIRE(f.prepare(engine, args) == KILN_SUCCESS);
  CHECK(left < 0);
  CHECK(f.kernels.rejectedCount() == 0);
  REQUIRE(f.launch(engine, args) == KILN_SUCCESS);
}

TEST_CASE("a kernel that is measured again and right is launched again") {
  VerdictFixture f;
  kiln_engine *engine = f.watched(KILN_MODE_TUNE);
  kiln_gemm_args args = gemmArgs(112, 512, 512);
  f.kernels.isWrong = [](auto &) { return true; };
  REQUIRE(f.prepare(engine, args) == KILN_NO_CANDIDATE);
  REQUIRE(f.kernels.rejectedCount() > 0);
  f.kernels.isWrong = [](auto &) { return false; };
  CHECK(f.prepare(engine, args) == KILN_NO_CANDIDATE);
  REQUIRE(f.prepare(engine, args, KILN_PREPARE_RETUNE) == KILN_SUCCESS);
  CHECK(f.launch(engine, args) == KILN_SUCCESS);
  CHECK(f.launch(f.engine(KILN_MODE_PREDICT), args) == KILN_SUCCESS);
}

TEST_CASE("an engine that runs hears what another process finds wrong") {
  for (kiln_mode mode : {KILN_MODE_PREDICT, KILN_MODE_BACKGROUND}) {
    CAPTURE(mode);
    VerdictFixture f;
    kiln_gemm_args args = gemmArgs(112, 4096, 4096);
    kiln_engine *server = f.watched(mode);
    REQUIRE(f.launch(server, args) == KILN_SUCCESS);
    const bool isBackground = mode == KILN_MODE_BACKGROUND;
    if (isBackground) {
      while (statisticsOf(server).background_pending)
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      REQUIRE(kiln_background_pause(server) == KILN_SUCCESS);
    }
    REQUIRE(f.launch(server, args) == KILN_SUCCESS);
    f.spoilLast();
    // The background may launch a kernel that trials of the value do not try:
    // one of the layer's set.
    f.prepare(f.watched(KILN_MODE_TUNE), args, KILN_PREPARE_RETUNE,
              isBackground ? 8192 : 0);
    REQUIRE(f.kernels.rejectedCount() > 0);
    // The background's thread looks by itself; other engines when they choose.
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    if (!isBackground)
      REQUIRE(f.launch(server, gemmArgs(60, 4096, 4096)) == KILN_SUCCESS);
    f.kernels.violations = 0;
    for (args.m = 100; args.m < 120; ++args.m)
      REQUIRE(f.launch(server, args) == KILN_SUCCESS);
    CHECK(f.kernels.violations == 0);
  }
}

TEST_CASE("background: whose ranges are measured hears what is found wrong") {
  VerdictFixture f;
  kiln_gemm_args args = gemmArgs(112, 512, 512);
  REQUIRE(f.prepare(f.watched(KILN_MODE_TUNE), args, 0, 256) == KILN_SUCCESS);
  kiln_engine *server = f.watched(KILN_MODE_BACKGROUND);
  REQUIRE(f.prepare(server, args, 0, 256) == KILN_SUCCESS);
  REQUIRE(f.launch(server, args) == KILN_SUCCESS);
  REQUIRE(statisticsOf(server).background_done == 0); // there was nothing to do
  f.spoilLast();
  f.prepare(f.watched(KILN_MODE_TUNE), args, KILN_PREPARE_RETUNE);
  REQUIRE(f.kernels.rejectedCount() > 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  for (int i = 0; i < 20; ++i)
    REQUIRE(f.launch(server, args) == KILN_SUCCESS);
  CHECK(f.kernels.violations == 0);
}

TEST_CASE("a range that is measured again and all wrong is not tried again") {
  VerdictFixture f;
  kiln_engine *engine = f.watched(KILN_MODE_TUNE);
  const kiln_gemm_args args = gemmArgs(112, 512, 512);
  REQUIRE(f.prepare(engine, args, 0, 256) == KILN_SUCCESS);
  f.kernels.isWrong = [](auto &) { return true; };
  REQUIRE(f.prepare(engine, args, KILN_PREPARE_RETUNE, 256) ==
          KILN_NO_CANDIDATE);
  kiln_engine *later = f.watched(KILN_MODE_TUNE);
  CHECK(f.prepare(later, args, 0, 256) == KILN_NO_CANDIDATE);
  CHECK(statisticsOf(later).trials == 0);
}

TEST_CASE("a range that is to be measured again keeps what is right") {
  VerdictFixture f;
  kiln_engine *engine = f.watched(KILN_MODE_TUNE);
  kiln_gemm_args args = gemmArgs(112, 512, 512);
  REQUIRE(f.prepare(engine, args, 0, 256) == KILN_SUCCESS);
  // The first kernels that are compared are wrong; then it is cancelled.
  f.kernels.isWrong = [](auto &) { return true; };
  kiln_range range = rangeOf("m", 1, 256);
  kiln_problem problem = problemOf(args);
  problem.ranges = &range;
  problem.range_count = 1;
  kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
  options.flags = KILN_PREPARE_RETUNE;
  options.progress_user = &f;
  options.progress = [](void *user, const kiln_progress *) -> int32_t {
    return static_cast<VerdictFixture *>(user)->kernels.rejectedCount() > 0;
  };
  CHECK(kiln_prepare(engine, &problem, 1, &options, nullptr) == KILN_CANCELLED);
  REQUIRE(f.kernels.rejectedCount() > 0);
  f.kernels.isWrong = [](auto &) { return false; };
  for (args.m = 1; args.m <= 256; args.m += 51)
    CHECK(f.launch(engine, args) == KILN_SUCCESS);
  CHECK(f.kernels.violations == 0);
}

TEST_CASE("a range that is all wrong hides no older one that is right") {
  VerdictFixture f;
  kiln_engine *engine = f.watched(KILN_MODE_TUNE);
  kiln_gemm_args args = gemmArgs(12, 2048, 2048);
  kiln_stream stream = f.gpu.stream();
  kiln_range range = rangeOf("m", 1, 1024);
  kiln_problem problem = problemOf(args);
  problem.ranges = &range;
  problem.range_count = 1;
  kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
  options.streams = &stream;
  options.stream_count = 1;
  REQUIRE(kiln_prepare(engine, &problem, 1, &options, nullptr) == KILN_SUCCESS);
  range.last = 16;
  options.flags = KILN_PREPARE_RETUNE;
  REQUIRE(kiln_prepare(engine, &problem, 1, &options, nullptr) == KILN_SUCCESS);
  std::set<std::string> narrow; // kernels
  for (args.m = 1; args.m <= 16; args.m += 3) {
    REQUIRE(f.launch(engine, args) == KILN_SUCCESS);
    narrow.insert(f.kernels.lastLaunched());
  }
  f.kernels.isWrong = [&](const std::string &one) {
    return narrow.count(one) > 0;
  };
  // Some of these sizes try a kernel of the range again.
  for (int64_t m = 1; m <= 16; ++m) {
    args.m = m;
    f.prepare(engine, args, KILN_PREPARE_RETUNE);
  }
  REQUIRE(f.kernels.rejectedCount() > 0);
  for (int64_t m : {2, 5, 9, 12, 14, 15, 17, 100}) {
    CAPTURE(m);
    args.m = m;
    REQUIRE(beginCapture(f, stream));
    CHECK(f.launch(engine, args) == KILN_SUCCESS);
    endCapture(f, stream);
  }
  CHECK(f.kernels.violations == 0);
}

TEST_CASE(
    "a plan launches calls with what it has, whatever is measured since") {
  VerdictFixture f;
  kiln_engine *engine = f.watched(KILN_MODE_TUNE);
  kiln_gemm_args args = gemmArgs(112, 512, 512);
  REQUIRE(f.prepare(engine, args) == KILN_SUCCESS);
  REQUIRE(f.launch(engine, args) == KILN_SUCCESS);
  f.kernels.slow = f.kernels.lastLaunched();
  kiln_problem problem = problemOf(args);
  kiln_plan *plan = nullptr;
  REQUIRE(kiln_plan_acquire(engine, &problem, nullptr, &plan) == KILN_SUCCESS);
  REQUIRE(f.prepare(engine, args, KILN_PREPARE_RETUNE) == KILN_SUCCESS);
  REQUIRE(f.launch(engine, args) == KILN_SUCCESS);
  CHECK((f.kernels.lastLaunched() != f.kernels.slow));
  CHECK(kiln_plan_launch_call(plan, KILN_FAMILY_GEMM, &args, nullptr,
                              f.gpu.stream()) == KILN_SUCCESS);
  CHECK((f.kernels.lastLaunched() == f.kernels.slow));
  kiln_plan_release(plan);
}

TEST_CASE("soak: no call launches what was rejected before it began") {
  const char *given = std::getenv("KILN_SOAK_SECONDS");
  const double seconds = given ? std::atof(given) : 2;
  constexpr uint64_t kLeastCalls = 1000;
  for (kiln_mode mode : {KILN_MODE_TUNE, KILN_MODE_BACKGROUND}) {
    CAPTURE(mode);
    VerdictFixture f;
    f.kernels.isWrong = [](const std::string &text) {
      return std::hash<std::string>()(text) % 2 == 0;
    };
    kiln_engine_options options = f.options(mode);
    options.background_permille = 1000;
    f.kernels.watch(options);
    kiln_engine *engine = f.engine(options);
    // Nothing disturbs the first layer: some of it is rejected.
    REQUIRE(f.prepare(engine, gemmArgs(112, 512, 512)) == KILN_SUCCESS);
    while (statisticsOf(engine).background_pending)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    CHECK(f.kernels.rejectedCount() > 0);
    std::atomic<uint64_t> calls{0};
    const auto start = WrongKernels::Clock::now();
    auto isOver = [&] {
      const double passed =
          std::chrono::duration<double>(WrongKernels::Clock::now() - start)
              .count();
      return passed > seconds / 2 && calls > kLeastCalls;
    };
    std::vector<std::function<void()>> bodies;
    for (uint64_t seed = 1; seed <= 8; ++seed)
      bodies.emplace_back([&, seed] {
        std::mt19937_64 random(seed);
        auto pick = [&](uint64_t count) {
          return static_cast<int64_t>(random() % count);
        };
        CUstream own = nullptr;
        REQUIRE(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
        const auto stream = reinterpret_cast<kiln_stream>(own);
        while (!isOver()) {
          pauseTogether();
          kiln_gemm_args args = gemmArgs(1 + pick(uint64_t(1) << pick(10)),
                                         256 + 256 * pick(3), 512);
          if (pick(64) == 0) {
            // Few values: each is work for the thread in the background.
            const kiln_gemm_args prepared =
                gemmArgs(int64_t(64) << pick(3), args.n, 512);
            kiln_problem problem = problemOf(prepared);
            kiln_prepare_options prepare = KILN_INIT(kiln_prepare_options);
            prepare.budget_ms = 30;
            kiln_prepare(engine, &problem, 1, &prepare, nullptr);
          }
          f.kernels.begin(stream);
          kiln_gemm(engine, &args, nullptr, stream);
          ++calls;
        }
        f.kernels.begin(nullptr);
        cuStreamDestroy(own);
      });
    onThreads(f, bodies);
    f.destroy(engine);
    MESSAGE(calls.load() << " calls, " << f.kernels.launches.load()
                         << " launches, " << f.kernels.rejectedCount()
                         << " kernels rejected");
    CHECK(f.kernels.violations == 0);
  }
}
