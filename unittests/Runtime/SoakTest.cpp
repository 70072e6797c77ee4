// Eight threads do whatever the header allows to one engine at once: calls of
// random sizes, ranges, plans, prepared tasks, captures and graphs, streams and
// contexts that come and go. No call may fail in a way that the header does not
// allow, and in a long run memory must not grow. KILN_SOAK_SECONDS sets the
// length; some seconds by default.
#include "Fakes/FakeCuda.h"
#include "Runtime/RuntimeFixture.h"
#include "trial/TrialParams.h"

#include <cuda.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <thread>

using namespace kiln;
using namespace kiln::testing;

namespace {

using Clock = std::chrono::steady_clock;

uint64_t residentBytes() {
  std::ifstream status("/proc/self/statm");
  uint64_t total = 0, resident = 0;
  status >> total >> resident;
  return resident * 4096;
}

/// Statuses that the header does not allow, by operation.
class Complaints {
public:
  void check(const char *operation, kiln_status status,
             std::initializer_list<kiln_status> allowed) {
    if (status == KILN_SUCCESS)
      return;
    for (kiln_status one : allowed)
      if (one == status)
        return;
    std::string text = std::string(operation) + ": " +
                       kiln_status_name(status) + ": " +
                       kiln_last_error_message();
    std::lock_guard<std::mutex> lock(mutex);
    if (seen.size() < 20)
      ++seen[text];
  }
  void check(const char *operation, CUresult result) {
    if (result == CUDA_SUCCESS)
      return;
    const char *name = "?";
    cuGetErrorName(result, &name);
    std::lock_guard<std::mutex> lock(mutex);
    ++seen[std::string(operation) + ": " + name];
  }
  std::string text() {
    std::lock_guard<std::mutex> lock(mutex);
    std::string all;
    for (const auto &[what, count] : seen)
      all += what + " (" + std::to_string(count) + ")\n";
    return all;
  }

private:
  std::mutex mutex;
  std::map<std::string, int> seen;
};

/// One thread of the soak.
class Worker {
public:
  Worker(kiln_engine *engine, CUcontext context, CUstream shared,
         Complaints &complaints, uint64_t seed)
      : engine(engine), context(context), shared(shared),
        complaints(complaints), random(seed) {}

  void run(Clock::time_point end) {
    complaints.check("push", cuCtxPushCurrent(context));
    newStream();
    while (Clock::now() < end) {
      step();
      ++steps;
    }
    for (kiln_plan *plan : plans)
      kiln_plan_release(plan);
    complaints.check("destroy stream", cuStreamDestroy(own));
    CUcontext popped = nullptr;
    complaints.check("pop", cuCtxPopCurrent(&popped));
  }

  uint64_t steps = 0;

private:
  int pick(int count) {
    return static_cast<int>(random() % static_cast<uint64_t>(count));
  }

  void newStream() {
    complaints.check("create stream",
                     cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
  }

  /// Mostly a stream of this thread's, which is never captured elsewhere.
  CUstream anyStream() {
    switch (pick(8)) {
    case 0:
      return nullptr;
    case 1:
      return CU_STREAM_LEGACY;
    case 2:
      return CU_STREAM_PER_THREAD;
    case 3:
    case 4:
      return shared;
    default:
      return own;
    }
  }

  kiln_gemm_args anyGemm() {
    static constexpr int64_t kWidths[] = {64, 256, 1000};
    static constexpr int64_t kDepths[] = {512, 1023, 4096};
    kiln_gemm_args args =
        gemmArgs(1 + pick(1 << pick(13)), kWidths[pick(3)], kDepths[pick(3)]);
    args.beta = pick(2);
    return args;
  }

  void call(CUstream stream, std::initializer_list<kiln_status> allowed) {
    kiln_gemm_args args = anyGemm();
    kiln_workspace given = KILN_INIT(kiln_workspace);
    given.data = address(0xa000000);
    given.bytes = uint64_t(256) << 20;
    given.flags = KILN_WORKSPACE_ZEROED;
    complaints.check("gemm",
                     kiln_gemm(engine, &args, pick(8) ? nullptr : &given,
                               reinterpret_cast<kiln_stream>(stream)),
                     allowed);
  }

  void callRows(CUstream stream) {
    std::string text = "rmsnorm rows=" + std::to_string(1 + pick(4096)) +
                       " cols=1024 dtype=bf16";
    kiln_problem problem = problemOf(text.c_str());
    void *operands[32];
    for (size_t i = 0; i < std::size(operands); ++i)
      operands[i] = address(0x1000000 * (i + 1));
    kiln_arguments arguments = KILN_INIT(kiln_arguments);
    arguments.operands = operands;
    arguments.operand_count = std::size(operands);
    complaints.check("run",
                     kiln_run(engine, &problem, &arguments, nullptr,
                              reinterpret_cast<kiln_stream>(stream)),
                     {});
  }

  void usePlan() {
    if (plans.size() < 4) {
      kiln_gemm_args args = anyGemm();
      kiln_problem problem = problemOf(args);
      kiln_range range = KILN_INIT(kiln_range);
      range.name = "m";
      range.first = 1;
      range.last = args.m + 64;
      if (pick(2)) {
        problem.ranges = &range;
        problem.range_count = 1;
      }
      kiln_plan *plan = nullptr;
      complaints.check("acquire",
                       kiln_plan_acquire(engine, &problem,
                                         reinterpret_cast<kiln_stream>(own),
                                         &plan),
                       {});
      if (!plan)
        return;
      plans.push_back(plan);
      last.push_back(problem.range_count ? args.m + 64 : 0);
      return;
    }
    int which = pick(static_cast<int>(plans.size()));
    void *operands[32];
    for (size_t i = 0; i < std::size(operands); ++i)
      operands[i] = address(0x1000000 * (i + 1));
    kiln_arguments arguments = KILN_INIT(kiln_arguments);
    arguments.operands = operands;
    arguments.operand_count = std::size(operands);
    // These two are scalars by address, but the problems have them by value.
    operands[KILN_GEMM_ALPHA] = operands[KILN_GEMM_BETA] = nullptr;
    int64_t m = 0;
    if (last[which]) {
      m = 1 + pick(static_cast<int>(last[which]));
      arguments.extents = &m;
      arguments.extent_count = 1;
    }
    complaints.check("plan launch",
                     kiln_plan_launch(plans[which], &arguments, nullptr,
                                      reinterpret_cast<kiln_stream>(own)),
                     {});
    if (pick(20) == 0) {
      kiln_plan_release(plans[which]);
      plans.erase(plans.begin() + which);
      last.erase(last.begin() + which);
    }
  }

  void prepare() {
    kiln_gemm_args args = anyGemm();
    kiln_problem problem = problemOf(args);
    kiln_range range = KILN_INIT(kiln_range);
    range.name = "m";
    range.first = 1;
    range.last = args.m;
    problem.ranges = &range;
    problem.range_count = 1;
    kiln_stream stream = reinterpret_cast<kiln_stream>(own);
    kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
    options.streams = &stream;
    options.stream_count = 1;
    options.budget_ms = 20;
    kiln_task *task = nullptr;
    bool inTask = pick(2);
    complaints.check(
        "prepare",
        kiln_prepare(engine, &problem, 1, &options, inTask ? &task : nullptr),
        {});
    if (!task)
      return;
    if (pick(2))
      complaints.check("cancel", kiln_task_cancel(task), {});
    complaints.check("wait", kiln_task_wait(task, -1), {KILN_CANCELLED});
    kiln_task_release(task);
  }

  /// A capture on the thread's own stream, which must come out whole.
  void capture() {
    static constexpr CUstreamCaptureMode kModes[] = {
        CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
        CU_STREAM_CAPTURE_MODE_RELAXED};
    complaints.check("begin capture",
                     cuStreamBeginCapture(own, kModes[pick(3)]));
    for (int i = pick(6); i > 0; --i)
      call(own, {KILN_NOT_PREPARED});
    CUgraph graph = nullptr;
    complaints.check("end capture", cuStreamEndCapture(own, &graph));
    if (graph)
      complaints.check("destroy graph", cuGraphDestroy(graph));
  }

  /// A short-lived context, with calls in it.
  void otherContext() {
    CudaContext made = kilnFakeCreateContext(0);
    complaints.check("push", cuCtxPushCurrent(made));
    kiln_gemm_args args = gemmArgs(1 + pick(8), 256, 1023);
    complaints.check("gemm in a context of a moment",
                     kiln_gemm(engine, &args, nullptr, nullptr), {});
    CUcontext popped = nullptr;
    complaints.check("pop", cuCtxPopCurrent(&popped));
    kilnFakeDestroyContext(made);
  }

  void query() {
    kiln_gemm_args args = anyGemm();
    kiln_problem problem = problemOf(args);
    kiln_query_result result = KILN_INIT(kiln_query_result);
    complaints.check("query",
                     kiln_query(engine, &problem,
                                reinterpret_cast<kiln_stream>(own), &result),
                     {});
  }

  void step() {
    int which = pick(1000);
    if (which < 700)
      return call(anyStream(), {});
    if (which < 800)
      return usePlan();
    if (which < 860)
      return callRows(anyStream());
    if (which < 920)
      return capture();
    if (which < 960)
      return query();
    if (which < 980) {
      complaints.check("destroy stream", cuStreamDestroy(own));
      return newStream();
    }
    if (which < 998)
      return prepare();
    otherContext();
  }

  kiln_engine *engine;
  CUcontext context;
  CUstream shared, own = nullptr;
  Complaints &complaints;
  std::mt19937_64 random;
  std::vector<kiln_plan *> plans;
  std::vector<int64_t> last; ///< of each plan's range; 0: it has none
};

double soakSeconds() {
  const char *given = std::getenv("KILN_SOAK_SECONDS");
  return given ? std::atof(given) : 3;
}

} // namespace

TEST_CASE("soak: eight threads do what the header allows") {
  constexpr int kThreads = 8, kParts = 3;
  RuntimeFixture fixture;
  judgeTrials();
  kiln_engine_options options = fixture.options(KILN_MODE_TUNE);
  options.tune_budget_ms = 5;
  options.scratch_limit_bytes = uint64_t(8) << 20;
  kiln_engine *engine = fixture.engine(options);
  auto context = fixture.gpu.context();
  CUstream shared = nullptr;
  REQUIRE(cuStreamCreate(&shared, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  Complaints complaints;
  uint64_t steps = 0, resident[kParts] = {}, device[kParts] = {};
  auto part = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(soakSeconds() / kParts));
  for (int i = 0; i < kParts; ++i) {
    std::vector<Worker> workers;
    for (int t = 0; t < kThreads; ++t)
      workers.emplace_back(engine, context, shared, complaints,
                           uint64_t(i * kThreads + t + 1));
    std::vector<std::thread> threads;
    Clock::time_point end = Clock::now() + part;
    for (Worker &worker : workers)
      threads.emplace_back([&worker, end] { worker.run(end); });
    for (std::thread &thread : threads)
      thread.join();
    for (Worker &worker : workers)
      steps += worker.steps;
    resident[i] = residentBytes();
    device[i] = kilnFakeBytesInUse();
  }
  CHECK(complaints.text() == "");
  MESSAGE(steps << " steps; resident MiB " << (resident[0] >> 20) << ", "
                << (resident[1] >> 20) << ", " << (resident[2] >> 20)
                << "; device MiB " << (device[0] >> 20) << ", "
                << (device[1] >> 20) << ", " << (device[2] >> 20));
  // In a long run the last third meets few new problems, so memory must not
  // grow. A short run still meets new problems in its last third.
  constexpr double kLongSeconds = 30;
  if (soakSeconds() >= kLongSeconds) {
    CHECK(resident[2] < resident[1] + resident[1] / 10 + (16u << 20));
    CHECK(device[2] < device[1] + device[1] / 10 + (16u << 20));
  }
  REQUIRE(cuStreamDestroy(shared) == CUDA_SUCCESS);
}
