// kiln_prepare, its tasks, plan handles and ranges.
#include "Driver/Graph.h"
#include "Families/Families.h"
#include "Runtime/Capi.h"
#include "Runtime/Dispatch.h"
#include "Runtime/RuntimeFixture.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

using namespace kiln;
using namespace kiln::testing;

namespace {

struct PlanOwner {
  kiln_plan *plan = nullptr;
  ~PlanOwner() { kiln_plan_release(plan); }
};

} // namespace

TEST_CASE("a problem that fails does not stop the others") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  kiln_problem problems[3] = {
      problemOf("gemm m=64 n=64 k=64 dtype=bf16 layout=NT"),
      problemOf("gemm m=64 n=64"),
      problemOf("gemm m=64 n=128 k=64 dtype=bf16 layout=NT")};
  std::vector<kiln_progress> seen;
  kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
  options.progress = [](void *user, const kiln_progress *progress) {
    static_cast<std::vector<kiln_progress> *>(user)->push_back(*progress);
    return int32_t(0);
  };
  options.progress_user = &seen;
  CHECK(kiln_prepare(engine, problems, 3, &options, nullptr) ==
        KILN_INVALID_ARGUMENT);
  CHECK(lastErrorHas("problem 1"));
  REQUIRE(seen.size() == 3);
  CHECK(seen[2].problems_done == 3);
  CHECK(seen[2].problems_total == 3);
  CHECK(seen[1].problem == 1);
  CHECK(seen[1].problem_status == KILN_INVALID_ARGUMENT);
  CHECK(seen[2].problem_status == KILN_SUCCESS);

  kiln_query_result result = KILN_INIT(kiln_query_result);
  REQUIRE(kiln_query(engine, &problems[2], nullptr, &result) == KILN_SUCCESS);
  CHECK(result.state == KILN_STATE_READY);
}

TEST_CASE("a task is polled, awaited and released") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  fixture.nvrtc.delayWhen("", 50);
  kiln_problem problem = problemOf("gemm m=64 n=64 k=64 dtype=bf16 layout=NT");
  kiln_task *task = nullptr;
  REQUIRE(kiln_prepare(engine, &problem, 1, nullptr, &task) == KILN_SUCCESS);
  REQUIRE(task != nullptr);
  kiln_progress progress = KILN_INIT(kiln_progress);
  CHECK(kiln_task_poll(task, &progress) == KILN_IN_PROGRESS);
  CHECK(progress.problems_total == 1);
  CHECK(kiln_task_wait(task, 0) == KILN_IN_PROGRESS);
  CHECK(kiln_task_wait(task, -1) == KILN_SUCCESS);
  CHECK(kiln_task_poll(task, &progress) == KILN_SUCCESS);
  CHECK(progress.problems_done == 1);
  kiln_task_release(task);
  kiln_query_result result = KILN_INIT(kiln_query_result);
  REQUIRE(kiln_query(engine, &problem, nullptr, &result) == KILN_SUCCESS);
  CHECK(result.state == KILN_STATE_READY);
}

TEST_CASE("a cancelled task ends soon and keeps what is finished") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  fixture.nvrtc.delayWhen("", 100);
  std::vector<std::string> texts;
  std::vector<kiln_problem> problems;
  for (const char *layout : {"NN", "NT", "TN", "TT"})
    for (const char *type : {"bf16", "fp16"})
      texts.push_back(std::string("gemm m=64 n=64 k=64 dtype=") + type +
                      " layout=" + layout);
  for (const std::string &text : texts)
    problems.push_back(problemOf(text.c_str()));
  kiln_task *task = nullptr;
  REQUIRE(kiln_prepare(engine, problems.data(), problems.size(), nullptr,
                       &task) == KILN_SUCCESS);
  CHECK(kiln_task_cancel(task) == KILN_SUCCESS);
  CHECK(kiln_task_wait(task, -1) == KILN_CANCELLED);
  CHECK(fixture.nvrtc.compileCount() < int(problems.size()));
  kiln_task_release(task);
  // The engine ends what is still running.
  REQUIRE(kiln_prepare(engine, problems.data(), problems.size(), nullptr,
                       &task) == KILN_SUCCESS);
  kiln_task_release(task);
  kiln_task_release(nullptr);
}

TEST_CASE("a task that is cancelled in its last problem says so") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  fixture.nvrtc.delayWhen("", 100);
  kiln_problem problem = problemOf("gemm m=64 n=64 k=64 dtype=bf16 layout=NT");
  kiln_task *task = nullptr;
  REQUIRE(kiln_prepare(engine, &problem, 1, nullptr, &task) == KILN_SUCCESS);
  CHECK(kiln_task_cancel(task) == KILN_SUCCESS);
  CHECK(kiln_task_wait(task, -1) == KILN_CANCELLED);
  kiln_task_release(task);
}

TEST_CASE("who waits for a task's problem is not cancelled with it") {
  RuntimeFixture fixture;
  kiln_engine_options options = fixture.options(KILN_MODE_TUNE);
  options.tune_budget_ms = 1;
  kiln_engine *engine = fixture.engine(options);
  fixture.nvrtc.delayWhen("", 200);
  kiln_problem problem = problemOf("gemm m=64 n=64 k=64 dtype=bf16 layout=NT");
  kiln_task *task = nullptr;
  REQUIRE(kiln_prepare(engine, &problem, 1, nullptr, &task) == KILN_SUCCESS);
  kiln_query_result result = KILN_INIT(kiln_query_result);
  do
    REQUIRE(kiln_query(engine, &problem, nullptr, &result) == KILN_SUCCESS);
  while (result.state == KILN_STATE_MISSING);
  PlanOwner owner;
  kiln_status status = KILN_INTERNAL;
  std::thread waiter([&] {
    auto scope =
        ScopedContext::push(fixture.gpu.driver(), fixture.gpu.context());
    if (scope)
      status = kiln_plan_acquire(engine, &problem, nullptr, &owner.plan);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(kiln_task_cancel(task) == KILN_SUCCESS);
  CHECK(kiln_task_wait(task, -1) == KILN_CANCELLED);
  waiter.join();
  CHECK(status == KILN_SUCCESS);
  kiln_task_release(task);
}

TEST_CASE("values are dropped, except for those that are kept") {
  Registry registry = makeBuiltinRegistry();
  const KernelFamily &gemm = *registry.find("gemm");
  const size_t fields = gemm.problemSchema().fields().size();
  DispatchTable table(fields);
  auto plan = std::make_shared<ActivePlan>();
  std::vector<std::vector<int64_t>> values;
  for (int64_t first = 0; first < 4; ++first) {
    values.emplace_back(fields, 7);
    values.back()[0] = first;
  }
  auto key = [&](size_t i, uint64_t context = 1) {
    return DispatchKey{&gemm, context, values[i]};
  };
  for (size_t i = 0; i < 4; ++i)
    table.publish(key(i), {plan});
  table.publish(key(1, 2), {plan});
  table.keep(key(2), {plan});
  CHECK(table.planCount() == 1);
  CHECK_FALSE(table.setAside(key(1)));
  CHECK(table.setAside(key(2)));
  CHECK_FALSE(table.setAside(key(3)));
  CHECK_FALSE(table.setAside(key(3, 2)));  // it is not there
  CHECK(table.find(key(0)) == plan.get()); // not meant
  CHECK(table.find(key(1)) == nullptr);
  CHECK(table.find(key(2)) == plan.get()); // kept
  CHECK(table.find(key(3)) == nullptr);
  CHECK(table.find(key(1, 2)) == plan.get()); // of another context
  // A capture may still use the plan that was set aside, until there is a new
  // one.
  CHECK(table.findAside(key(1)).plan == plan);
  CHECK_FALSE(table.findAside(key(0)));
  CHECK_FALSE(table.findAside(key(1, 2)));
  table.publish(key(1), {plan});
  CHECK_FALSE(table.findAside(key(1)));
  table.drop(key(1));
  // Plans are counted as values come and go.
  for (auto [place, context] : {std::pair(0, 1), {2, 1}, {1, 2}})
    table.drop(key(static_cast<size_t>(place), static_cast<uint64_t>(context)));
  CHECK(table.planCount() == 0);
  table.forgetContext(1);
  CHECK_FALSE(table.findAside(key(3)));
}

TEST_CASE("the kernels of many problems compile in parallel") {
  RuntimeFixture fixture;
  fixture.nvrtc.delayWhen("", 50);
  kiln_engine_options options = fixture.options();
  options.threads = 2;
  kiln_engine *engine = fixture.engine(options);
  kiln_problem problems[] = {problemOf("gemm m=64 n=64 k=64 dtype=bf16"),
                             problemOf("gemm m=64 n=64 k=64 dtype=fp16"),
                             problemOf("gemm m=64 n=64 k=64 dtype=fp32")};
  CAPTURE(lastError());
  REQUIRE(kiln_prepare(engine, problems, 3, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(fixture.nvrtc.compileCount() == 3);
  if (std::thread::hardware_concurrency() > 1)
    CHECK(fixture.nvrtc.mostConcurrent() == 2);
}

TEST_CASE("tasks run where the executor says") {
  RuntimeFixture fixture;
  struct Queue {
    std::vector<std::pair<void (*)(void *), void *>> work;
  } queue;
  kiln_executor executor = KILN_INIT(kiln_executor);
  executor.user = &queue;
  executor.submit = [](void *user, void (*work)(void *),
                       void *argument) -> kiln_status {
    static_cast<Queue *>(user)->work.push_back({work, argument});
    return KILN_SUCCESS;
  };
  kiln_engine_options options = fixture.options();
  options.executor = &executor;
  kiln_engine *engine = fixture.engine(options);
  kiln_problem problem = problemOf("gemm m=64 n=64 k=64 dtype=bf16 layout=NT");
  kiln_task *task = nullptr;
  REQUIRE(kiln_prepare(engine, &problem, 1, nullptr, &task) == KILN_SUCCESS);
  CHECK(kiln_task_poll(task, nullptr) == KILN_IN_PROGRESS);
  REQUIRE(queue.work.size() == 1);
  queue.work[0].first(queue.work[0].second);
  CHECK(kiln_task_poll(task, nullptr) == KILN_SUCCESS);
  kiln_task_release(task);
}

TEST_CASE("prepare refuses what it does not know") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  kiln_problem problem = problemOf("gemm m=64 n=64 k=64 dtype=bf16");
  kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
  options.flags = 64;
  CHECK(kiln_prepare(engine, &problem, 1, &options, nullptr) ==
        KILN_UNSUPPORTED);
  options.flags = 0;
  options.budget_ms = -1;
  CHECK(kiln_prepare(engine, &problem, 1, &options, nullptr) ==
        KILN_INVALID_ARGUMENT);
  options.budget_ms = 0;
  options.stream_count = 1;
  CHECK(kiln_prepare(engine, &problem, 1, &options, nullptr) ==
        KILN_INVALID_ARGUMENT);
  CHECK(kiln_prepare(engine, nullptr, 1, nullptr, nullptr) ==
        KILN_INVALID_ARGUMENT);
  CHECK(kiln_prepare(engine, nullptr, 0, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(kiln_task_poll(nullptr, nullptr) == KILN_INVALID_ARGUMENT);
}

TEST_CASE("a prepared range serves every value of it, also under capture") {
  RuntimeFixture fixture;
  LaunchLog<> launches;
  kiln_engine *engine = fixture.engine();
  kiln_stream stream = fixture.gpu.stream();
  for (kiln_layout layout : {KILN_LAYOUT_NT, KILN_LAYOUT_TN}) {
    // With A stored [k, m], its rows are m long: m decides the alignment.
    CAPTURE(layout);
    kiln_gemm_args args = gemmArgs(1, 256, 512);
    args.layout = layout;
    kiln_problem problem = problemOf(args);
    kiln_range range = rangeOf("m", 0, 100, 7);
    problem.ranges = &range;
    problem.range_count = 1;
    kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
    options.streams = &stream;
    options.stream_count = 1;
    CAPTURE(lastError());
    REQUIRE(kiln_prepare(engine, &problem, 1, &options, nullptr) ==
            KILN_SUCCESS);
    int compiles = fixture.nvrtc.compileCount();
    llvm::Error began = Graph::beginCapture(fixture.gpu.driver(), stream);
    REQUIRE_FALSE(static_cast<bool>(began));
    for (int64_t m : {0, 1, 2, 3, 5, 7, 16, 33, 64, 65, 99, 100}) {
      CAPTURE(m);
      args.m = m;
      CHECK(kiln_gemm(engine, &args, nullptr, stream) == KILN_SUCCESS);
    }
    args.m = 101;
    CHECK(kiln_gemm(engine, &args, nullptr, stream) == KILN_NOT_PREPARED);
    auto graph = Graph::endCapture(fixture.gpu.driver(), stream);
    REQUIRE(static_cast<bool>(graph));
    CHECK(graph->nodeCount() == 11);
    CHECK(fixture.nvrtc.compileCount() == compiles);
    kiln_query_result result = KILN_INIT(kiln_query_result);
    REQUIRE(kiln_query(engine, &problem, stream, &result) == KILN_SUCCESS);
    CHECK(result.state == KILN_STATE_READY);
    CHECK(result.capturable == 1);
  }
}

TEST_CASE("S7: a range has all values below the leading dimension it ends at") {
  RuntimeFixture fixture;
  LaunchLog<> launches;
  kiln_engine *engine = fixture.engine();
  kiln_stream stream = fixture.gpu.stream();
  kiln_gemm_args args = gemmArgs(1, 256, 512);
  args.layout = KILN_LAYOUT_TN; // A is stored [k, m]
  kiln_range range = rangeOf("m", 1, 104);
  kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
  options.streams = &stream;
  options.stream_count = 1;
  // Rows of 104 elements, then packed ones: at m = 104 one and the same.
  for (int64_t ld : {104, 0}) {
    args.a.leading_dim = ld;
    kiln_problem problem = problemOf(args);
    problem.ranges = &range;
    problem.range_count = 1;
    REQUIRE(kiln_prepare(engine, &problem, 1, &options, nullptr) ==
            KILN_SUCCESS);
  }
  for (int64_t ld : {104, 0}) {
    CAPTURE(ld);
    args.a.leading_dim = ld;
    llvm::Error began = Graph::beginCapture(fixture.gpu.driver(), stream);
    REQUIRE_FALSE(static_cast<bool>(began));
    for (int64_t m : {1, 64, 65, 72, 96, 103, 104}) {
      CAPTURE(m);
      args.m = m;
      CHECK(kiln_gemm(engine, &args, nullptr, stream) == KILN_SUCCESS);
    }
    auto graph = Graph::endCapture(fixture.gpu.driver(), stream);
    REQUIRE(static_cast<bool>(graph));
    CHECK(graph->nodeCount() == 7);
  }
}

TEST_CASE("S14d: a range of one extent serves no other value of another") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = splitArgs();
  args.batch = 5;
  args.a.batch_stride = args.m * args.k;
  args.b.batch_stride = args.n * args.k;
  args.d.batch_stride = args.m * args.n;
  kiln_range ranges[2] = {rangeOf("m", 9, 16), rangeOf("batch", 5, 8)};
  kiln_problem problem = problemOf(args);
  problem.ranges = ranges;
  problem.range_count = 2;
  CAPTURE(lastError());
  REQUIRE(kiln_prepare(engine, &problem, 1, nullptr, nullptr) == KILN_SUCCESS);
  auto launched = [&](int64_t batch) {
    args.batch = batch;
    REQUIRE(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
  };
  launched(5);
  launched(8);
  // The range has a single batch size, and a hint, so that it has its own
  // choice.
  args.batch = 5;
  ranges[0].hint = 12;
  problem.range_count = 1;
  REQUIRE(kiln_prepare(engine, &problem, 1, nullptr, nullptr) == KILN_SUCCESS);
  args.batch = 8;
  kiln_problem largest = problemOf(args);
  auto spec = ProblemSpec::parse(engine->engine->families(), &largest);
  REQUIRE(static_cast<bool>(spec));
  auto primary = contextId(fixture.gpu.driver(), fixture.gpu.context());
  REQUIRE(static_cast<bool>(primary));
  ChosenPlan serving = engine->engine->plans().lookup(
      {spec->family, *primary, spec->problem.values.array()});
  REQUIRE(static_cast<bool>(serving));
  CHECK(serving.plan->loaded->plan().problem.get("batch") >= 8);
}

TEST_CASE("S7: what was prepared stays ready, whatever else is launched") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  kiln_stream stream = fixture.gpu.stream();
  kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
  options.streams = &stream;
  options.stream_count = 1;
  kiln_gemm_args args[] = {gemmArgs(), gemmArgs(64, 64, 64)};
  // One value was launched before, and one was not.
  REQUIRE(kiln_gemm(engine, &args[0], nullptr, stream) == KILN_SUCCESS);
  for (const kiln_gemm_args &each : args) {
    kiln_problem problem = problemOf(each);
    REQUIRE(kiln_prepare(engine, &problem, 1, &options, nullptr) ==
            KILN_SUCCESS);
  }
  // More values than the table holds.
  DispatchTable &table = engine->engine->plans();
  const KernelFamily &gemm = *engine->engine->families().find("gemm");
  auto plan = std::make_shared<ActivePlan>();
  std::vector<int64_t> values(gemm.problemSchema().fields().size());
  for (values[0] = 0; values[0] < 3 * 65536; ++values[0])
    table.publish({&gemm, ~uint64_t(0), values}, {plan});
  uint64_t misses = statisticsOf(engine).dispatch_misses;
  llvm::Error began = Graph::beginCapture(fixture.gpu.driver(), stream);
  REQUIRE_FALSE(static_cast<bool>(began));
  for (const kiln_gemm_args &each : args)
    CHECK(kiln_gemm(engine, &each, nullptr, stream) == KILN_SUCCESS);
  auto graph = Graph::endCapture(fixture.gpu.driver(), stream);
  REQUIRE(static_cast<bool>(graph));
  CHECK(graph->nodeCount() == 2);
  CHECK(statisticsOf(engine).dispatch_misses == misses);
}

TEST_CASE("a plan tells its operands, launches, and checks its context") {
  RuntimeFixture fixture;
  LaunchLog<> launches;
  kiln_engine *engine = fixture.engine();
  kiln_problem problem =
      problemOf("gemm m=48 n=64 k=32 dtype=bf16 out=fp32 layout=NT beta=1 "
                "pointwise=bias align=8");
  PlanOwner owner;
  CAPTURE(lastError());
  REQUIRE(kiln_plan_acquire(engine, &problem, nullptr, &owner.plan) ==
          KILN_SUCCESS);
  std::vector<kiln_operand_info> operands;
  for (uint32_t i = 0;; ++i) {
    kiln_operand_info info = KILN_INIT(kiln_operand_info);
    kiln_status status = kiln_plan_operand(owner.plan, i, &info);
    if (status == KILN_INVALID_ARGUMENT)
      break;
    REQUIRE(status == KILN_SUCCESS);
    operands.push_back(info);
  }
  REQUIRE(operands.size() == 5);
  CHECK(std::string(operands[0].name) == "a");
  CHECK(operands[0].slot == KILN_GEMM_A);
  CHECK(operands[0].bytes == 48 * 32 * 2);
  CHECK(operands[0].type == KILN_BF16);
  CHECK(operands[0].alignment == 8);
  CHECK(operands[3].slot == KILN_GEMM_D);
  CHECK(operands[3].role == KILN_ROLE_OUTPUT);
  CHECK(operands[3].type == KILN_FP32);
  CHECK(operands[4].slot == KILN_GEMM_POINTWISE);

  void *addresses[KILN_GEMM_POINTWISE + 1] = {};
  for (const kiln_operand_info &info : operands)
    addresses[info.slot] = address(0x100000 * (info.slot + 1) + 8);
  kiln_arguments arguments = KILN_INIT(kiln_arguments);
  arguments.operands = addresses;
  arguments.operand_count = KILN_GEMM_POINTWISE + 1;
  REQUIRE(kiln_plan_launch(owner.plan, &arguments, nullptr, nullptr) ==
          KILN_SUCCESS);
  CHECK(launches.last().bias == addresses[KILN_GEMM_POINTWISE]);
  CHECK(launches.last().c == addresses[KILN_GEMM_C]);
  CHECK(launches.last().beta == 1.0f);
  addresses[KILN_GEMM_C] = addresses[KILN_GEMM_D]; // D may be C
  CHECK(kiln_plan_launch(owner.plan, &arguments, nullptr, nullptr) ==
        KILN_SUCCESS);
  addresses[KILN_GEMM_A] = address(0x100004);
  CHECK(kiln_plan_launch(owner.plan, &arguments, nullptr, nullptr) ==
        KILN_INVALID_ARGUMENT);
  addresses[KILN_GEMM_A] = address(0x100008);

  char text[512];
  size_t length = 0;
  REQUIRE(kiln_plan_describe(owner.plan, text, sizeof(text), &length) ==
          KILN_SUCCESS);
  CHECK(std::strlen(text) == length);
  CHECK(std::string(text).find("estimate") != std::string::npos);

  CudaContext other = kilnFakeCreateContext(0);
  {
    auto scope = ScopedContext::push(fixture.gpu.driver(), other);
    REQUIRE(static_cast<bool>(scope));
    CHECK(kiln_plan_launch(owner.plan, &arguments, nullptr, nullptr) ==
          KILN_INVALID_ARGUMENT);
    CHECK(lastErrorHas("context"));
  }
  kilnFakeDestroyContext(other);
}

TEST_CASE("a plan of a range takes its extents at launch") {
  RuntimeFixture fixture;
  LaunchLog<> launches;
  kiln_engine *engine = fixture.engine();
  kiln_problem problem =
      problemOf("gemm m=1 n=64 k=32 dtype=bf16 layout=NT batch=1");
  kiln_range ranges[2] = {rangeOf("m", 1, 300), rangeOf("batch", 1, 4)};
  problem.ranges = ranges;
  problem.range_count = 2;
  PlanOwner owner;
  CAPTURE(lastError());
  REQUIRE(kiln_plan_acquire(engine, &problem, nullptr, &owner.plan) ==
          KILN_SUCCESS);
  void *addresses[4] = {address(0x100000), address(0x200000), nullptr,
                        address(0x400000)};
  int64_t extents[2] = {17, 3};
  kiln_arguments arguments = KILN_INIT(kiln_arguments);
  arguments.operands = addresses;
  arguments.operand_count = 4;
  arguments.extents = extents;
  arguments.extent_count = 2;
  auto launch = [&] {
    return kiln_plan_launch(owner.plan, &arguments, nullptr, nullptr);
  };
  REQUIRE(launch() == KILN_SUCCESS);
  CHECK(launches.last().m == 17);
  CHECK(launches.last().batch == 3);
  extents[0] = 300;
  CHECK(launch() == KILN_SUCCESS);
  CHECK(launches.last().m == 300);
  extents[0] = 301;
  CHECK(launch() == KILN_INVALID_ARGUMENT);
  extents[0] = 0;
  CHECK(launch() == KILN_INVALID_ARGUMENT);
  arguments.extent_count = 3;
  CHECK(launch() == KILN_INVALID_ARGUMENT);
}

TEST_CASE("texts are canonical and cut short as asked") {
  kiln_gemm_args args = gemmArgs();
  args.alpha = 2;
  kiln_problem problem = problemOf(args);
  char text[256];
  size_t length = 0;
  REQUIRE(kiln_problem_text(&problem, text, sizeof(text), &length) ==
          KILN_SUCCESS);
  CHECK(std::string(text) ==
        "gemm m=128 n=256 k=512 dtype=bf16 layout=NT alpha=2");
  CHECK(length == std::strlen(text));
  char few[6];
  REQUIRE(kiln_problem_text(&problem, few, sizeof(few), nullptr) ==
          KILN_SUCCESS);
  CHECK(std::string(few) == "gemm ");
  CHECK(kiln_problem_text(&problem, nullptr, 0, &length) == KILN_SUCCESS);
  CHECK(kiln_problem_text(&problem, nullptr, 9, &length) ==
        KILN_INVALID_ARGUMENT);
  CHECK(kiln_problem_text(nullptr, nullptr, 0, &length) ==
        KILN_INVALID_ARGUMENT);
}

TEST_CASE("a kernel's name is read without an engine") {
  char text[64] = "as it was";
  size_t length = 0;
  kiln_family family = -1;
  const char *step = "kiln_gemm_step_gather_sig01ef";
  REQUIRE(kiln_kernel_name_parse(step, &family, text, sizeof(text), &length) ==
          KILN_SUCCESS);
  CHECK(family == KILN_FAMILY_GEMM);
  CHECK(std::string(text) == "gemm step gather");
  CHECK(length == std::strlen(text));
  const char *tiled = "kiln_transpose2d_tiled_tr32_tc64_t128_v4_sig01ef";
  REQUIRE(kiln_kernel_name_parse(tiled, nullptr, text, sizeof(text), nullptr) ==
          KILN_SUCCESS);
  CHECK(std::string(text) == "transpose2d tiled.tr32.tc64.t128.v4");
  char few[6];
  CHECK(kiln_kernel_name_parse(tiled, &family, few, sizeof(few), &length) ==
        KILN_SUCCESS);
  CHECK(std::string(few) == "trans");
  CHECK(family == KILN_FAMILY_TRANSPOSE);

  family = -1;
  for (const char *name :
       {"", "kilnFlushL2", "ampere_sgemm_128x64_nn", "kiln_gemm_step_gather"}) {
    CHECK(kiln_kernel_name_parse(name, &family, text, sizeof(text), &length) ==
          KILN_INVALID_ARGUMENT);
    CHECK(lastErrorHas("is not the name of a kernel of Kiln"));
  }
  CHECK(kiln_kernel_name_parse(nullptr, &family, text, sizeof(text), &length) ==
        KILN_INVALID_ARGUMENT);
  CHECK(kiln_kernel_name_parse(step, &family, nullptr, 9, &length) ==
        KILN_INVALID_ARGUMENT);
  CHECK(family == -1);
  CHECK(std::string(text) == "transpose2d tiled.tr32.tc64.t128.v4");
}

TEST_CASE("reserved functions answer unsupported") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  kiln_template user = KILN_INIT(kiln_template);
  CHECK(kiln_pack_import(engine, "x", nullptr) == KILN_UNSUPPORTED);
  CHECK(kiln_pack_export(engine, "x", nullptr, 0, nullptr) == KILN_UNSUPPORTED);
  CHECK(kiln_register_template(engine, &user) == KILN_UNSUPPORTED);
  CHECK(kiln_pack_import(nullptr, "x", nullptr) == KILN_INVALID_ARGUMENT);
  CHECK(std::string(kiln_status_name(KILN_UNSUPPORTED)) == "unsupported");
  CHECK(std::string(kiln_status_name(12345)) == "unknown");
  CHECK(std::string(kiln_state_name(KILN_STATE_READY)) == "ready");
  CHECK(std::string(kiln_state_name(12345)) == "unknown");
  CHECK(std::string(kiln_source_name(KILN_SOURCE_STAND_IN)) == "stand-in");
  CHECK(std::string(kiln_source_name(12345)) == "unknown");
  CHECK(kiln_abi_version() == KILN_ABI_VERSION);
}

TEST_CASE("compiling ranges ahead says that it was cancelled") {
  for (uint64_t kernels : {0, 2}) { // so many are there when it is
    CAPTURE(kernels);
    RuntimeFixture fixture;
    kiln_engine_options options = fixture.options();
    options.device_model = "h200-sxm";
    kiln_engine *engine = fixture.engine(options);
    fixture.nvrtc.delayWhen("", 50);
    const kiln_range range = rangeOf("m", 1, 512);
    kiln_problem problems[2] = {
        problemOf("gemm m=64 n=512 k=512 dtype=bf16 layout=NT"),
        problemOf("gemm m=64 n=1024 k=512 dtype=bf16 layout=NT")};
    for (kiln_problem &problem : problems) {
      problem.ranges = &range;
      problem.range_count = 1;
    }
    std::string statuses;
    kiln_prepare_options prepare = KILN_INIT(kiln_prepare_options);
    prepare.flags = KILN_PREPARE_COMPILE_ONLY;
    prepare.progress_user = &statuses;
    prepare.progress = [](void *user, const kiln_progress *progress) {
      if (progress->problems_done > 0)
        *static_cast<std::string *>(user) +=
            std::string(kiln_status_name(progress->problem_status)) + " ";
      return int32_t(0);
    };
    kiln_task *task = nullptr;
    REQUIRE(kiln_prepare(engine, problems, 2, &prepare, &task) == KILN_SUCCESS);
    while (statisticsOf(engine).compiles < kernels)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    REQUIRE(kiln_task_cancel(task) == KILN_SUCCESS);
    CHECK(kiln_task_wait(task, -1) == KILN_CANCELLED);
    CHECK(statuses == "cancelled cancelled ");
    kiln_task_release(task);
  }
}
