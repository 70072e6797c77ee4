// kiln_gemm and kiln_run through the C interface: the kernel's parameters, the
// cost of a hit, and refusals.
#include "Runtime/RuntimeFixture.h"

#include <cstring>
#include <string>

using namespace kiln;
using namespace kiln::testing;

extern "C" int kilnInitialisersAreRight(void); // of InitialisersTest.c

TEST_CASE("initialisers set what zero does not mean") {
  CHECK(kilnInitialisersAreRight());
}

TEST_CASE("a gemm reaches its kernel with its addresses and scalars") {
  RuntimeFixture fixture;
  LaunchLog<> launches;
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = gemmArgs();
  args.alpha = 0.5;
  args.a.leading_dim = 1024;
  CAPTURE(lastError());
  REQUIRE(kiln_gemm(engine, &args, nullptr, fixture.gpu.stream()) ==
          KILN_SUCCESS);
  REQUIRE(launches.count() == 1);
  GemmParams params = launches.last();
  CHECK(params.a == args.a.data);
  CHECK(params.b == args.b.data);
  CHECK(params.d == args.d.data);
  CHECK(params.m == 128);
  CHECK(params.n == 256);
  CHECK(params.k == 512);
  CHECK(params.lda == 1024);
  CHECK(params.ldb == 512);
  CHECK(params.alpha == 0.5f);
  CHECK(params.beta == 0.0f);
  CHECK(statisticsOf(engine).launches == 1);
  CHECK(statisticsOf(engine).dispatch_misses == 1);
}

TEST_CASE("kernels keep to the SMs of a green context") {
  RuntimeFixture fixture;
  kilnFakeLimitSms(24);
  struct Grid {
    uint32_t blocks = 0;
    std::string kernel;
  } grid;
  kilnFakeOnLaunch(
      "kiln_*",
      [](KilnFakeLaunch *launch, void *user) {
        auto *seen = static_cast<Grid *>(user);
        seen->blocks = launch->grid[0];
        seen->kernel = launch->moduleText;
      },
      &grid, 0);
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = gemmArgs(4096, 4096, 4096);
  CAPTURE(lastError());
  CHECK(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(grid.kernel.find("Sm90Gemm") != std::string::npos);
  CHECK(grid.blocks == 24);
  kilnFakeOnLaunch(
      "kiln_*", [](KilnFakeLaunch *, void *) {}, nullptr, 0);
}

TEST_CASE("an equal call hits, whatever its scalars and addresses are") {
  RuntimeFixture fixture;
  LaunchLog<> launches;
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = gemmArgs();
  REQUIRE(kiln_gemm(engine, &args, nullptr, fixture.gpu.stream()) ==
          KILN_SUCCESS);
  int compiles = fixture.nvrtc.compileCount();
  args.alpha = -3;
  args.d.data = address(0x900010);
  args.a.leading_dim = 512; // the meaning of 0
  args.d.type = KILN_BF16;  // likewise
  REQUIRE(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(launches.last().alpha == -3.0f);
  CHECK(launches.last().d == args.d.data);
  CHECK(fixture.nvrtc.compileCount() == compiles);
  CHECK(statisticsOf(engine).dispatch_misses == 1);

  args.beta = 2; // C is read: another kernel
  REQUIRE(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(statisticsOf(engine).dispatch_misses == 2);
  CHECK(launches.last().c == args.c.data);
  CHECK(launches.last().beta == 2.0f);
}

TEST_CASE("scalars in device memory reach the kernel") {
  RuntimeFixture fixture;
  LaunchLog<> launches;
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = gemmArgs();
  args.alpha_device = static_cast<float *>(address(0x500000));
  args.beta_device = static_cast<float *>(address(0x500004));
  REQUIRE(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(launches.last().alphaPtr == args.alpha_device);
  CHECK(launches.last().betaPtr == args.beta_device);
  CHECK(launches.last().c == args.c.data);
  args.beta_device = static_cast<float *>(address(0x500002));
  CHECK(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_INVALID_ARGUMENT);
}

TEST_CASE("a hit asks the driver for the context and launches, no more") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = gemmArgs();
  REQUIRE(kiln_gemm(engine, &args, nullptr, fixture.gpu.stream()) ==
          KILN_SUCCESS);
  uint64_t before = kilnFakeTotalCalls();
  REQUIRE(kiln_gemm(engine, &args, nullptr, fixture.gpu.stream()) ==
          KILN_SUCCESS);
  // cuCtxGetCurrent, cuStreamGetCtx, cuCtxGetId, cuLaunchKernelEx.
  CHECK(kilnFakeTotalCalls() - before == 4);
}

TEST_CASE("hooks are called for a miss and not for a hit") {
  RuntimeFixture fixture;
  std::vector<kiln_event_kind> kinds;
  kiln_engine_options options = fixture.options();
  options.event = [](void *user, const kiln_event *event) {
    if (event->kind != KILN_EVENT_WAIT) // a matter of time
      static_cast<std::vector<kiln_event_kind> *>(user)->push_back(event->kind);
  };
  options.event_user = &kinds;
  kiln_engine *engine = fixture.engine(options);
  kiln_gemm_args args = gemmArgs();
  REQUIRE(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(kinds ==
        std::vector<kiln_event_kind>{KILN_EVENT_MISS, KILN_EVENT_COMPILED,
                                     KILN_EVENT_LOADED, KILN_EVENT_CHOSEN});
  kinds.clear();
  REQUIRE(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(kinds.empty());
}

TEST_CASE("an empty problem launches nothing and needs no driver") {
  RuntimeFixture fixture;
  kiln_engine_options options = fixture.options();
  options.driver_path = "/nowhere/libcuda.so";
  kiln_engine *engine = fixture.engine(options);
  for (int which = 0; which < 3; ++which) {
    kiln_gemm_args args = gemmArgs();
    (which == 0 ? args.m : which == 1 ? args.n : args.batch) = 0;
    args.a.data = args.b.data = args.d.data = nullptr;
    CAPTURE(lastError());
    CHECK(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
  }
  kiln_gemm_args args = gemmArgs(0);
  args.n = -1;
  CHECK(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_INVALID_ARGUMENT);
  kiln_gemm_args full = gemmArgs();
  CHECK(kiln_gemm(engine, &full, nullptr, nullptr) == KILN_DRIVER_MISSING);
  CHECK(lastErrorHas("/nowhere/libcuda.so"));
}

TEST_CASE("a sum over nothing is launched without A and B") {
  RuntimeFixture fixture;
  LaunchLog<> launches;
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = gemmArgs(64, 64, 0);
  args.a.data = args.b.data = nullptr;
  CAPTURE(lastError());
  CHECK(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(launches.count() == 1);
}

TEST_CASE("what is wrong with a call is named") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args good = gemmArgs();
  // This call puts a plan into the table, so every refusal below happens in
  // spite of it.
  REQUIRE(kiln_gemm(engine, &good, nullptr, nullptr) == KILN_SUCCESS);
  struct Case {
    const char *name;
    void (*breakIt)(kiln_gemm_args &);
    kiln_status status;
    const char *message;
  };
  static kiln_gemm_scales scales = KILN_INIT(kiln_gemm_scales);
  scales.b = kiln_tensor_scale_init(address(0x700000));
  const Case cases[] = {
      {"negative m", [](kiln_gemm_args &a) { a.m = -1; }, KILN_INVALID_ARGUMENT,
       "m is -1"},
      {"huge n", [](kiln_gemm_args &a) { a.n = int64_t(1) << 31; },
       KILN_UNSUPPORTED, "n is 2147483648"},
      {"null a", [](kiln_gemm_args &a) { a.a.data = nullptr; },
       KILN_INVALID_ARGUMENT, "a.data"},
      {"odd b", [](kiln_gemm_args &a) { a.b.data = address(0x200001); },
       KILN_INVALID_ARGUMENT, "b.data"},
      {"broken promise",
       [](kiln_gemm_args &a) {
         a.d.alignment = 32;
         a.d.data = address(0x400010);
       },
       KILN_INVALID_ARGUMENT, "aligned to 32"},
      {"odd promise", [](kiln_gemm_args &a) { a.d.alignment = 24; },
       KILN_INVALID_ARGUMENT, "alignment"},
      {"short row", [](kiln_gemm_args &a) { a.a.leading_dim = 511; },
       KILN_INVALID_ARGUMENT, "a.leading_dim=511 is below the row length 512"},
      {"negative row", [](kiln_gemm_args &a) { a.d.leading_dim = -256; },
       KILN_INVALID_ARGUMENT, "-256"},
      {"broadcast output", [](kiln_gemm_args &a) { a.batch = 2; },
       KILN_INVALID_ARGUMENT, "d.batch_stride"},
      {"d is a", [](kiln_gemm_args &a) { a.d.data = a.a.data; },
       KILN_INVALID_ARGUMENT, "overlaps a"},
      {"d is c with another row",
       [](kiln_gemm_args &a) {
         a.beta = 1;
         a.c.data = a.d.data;
         a.c.leading_dim = 512;
       },
       KILN_INVALID_ARGUMENT, "overlaps c"},
      {"no type", [](kiln_gemm_args &a) { a.a.type = KILN_DTYPE_NONE; },
       KILN_INVALID_ARGUMENT, "a.type"},
      {"int4", [](kiln_gemm_args &a) { a.a.type = KILN_INT4; },
       KILN_UNSUPPORTED, "a.type"},
      {"mixed types", [](kiln_gemm_args &a) { a.b.type = KILN_FP16; },
       KILN_UNSUPPORTED, "b.type"},
      {"fp16 output", [](kiln_gemm_args &a) { a.d.type = KILN_FP16; },
       KILN_UNSUPPORTED, "d.type"},
      {"layout", [](kiln_gemm_args &a) { a.layout = 5; }, KILN_UNSUPPORTED,
       "layout 5"},
      {"compute", [](kiln_gemm_args &a) { a.compute = 7; }, KILN_UNSUPPORTED,
       "compute 7"},
      {"tf32 of bf16", [](kiln_gemm_args &a) { a.compute = KILN_COMPUTE_TF32; },
       KILN_INVALID_ARGUMENT, "tf32"},
      {"determinism",
       [](kiln_gemm_args &a) {
         a.determinism = KILN_DETERMINISM_BATCH_INVARIANT;
       },
       KILN_UNSUPPORTED, "determinism"},
      {"scale", [](kiln_gemm_args &a) { a.scales = &scales; }, KILN_UNSUPPORTED,
       "takes no scales"},
      {"flags of a", [](kiln_gemm_args &a) { a.a.flags = 2; }, KILN_UNSUPPORTED,
       "a.flags 0x2 are unknown"},
      {"not initialised", [](kiln_gemm_args &a) { a.batch = 0, a.alpha = 0; },
       KILN_INVALID_ARGUMENT, "kiln_gemm_args_init"},
      {"flags", [](kiln_gemm_args &a) { a.flags = 1; }, KILN_UNSUPPORTED,
       "flags"},
      {"reserved", [](kiln_gemm_args &a) { a.reserved[4] = 1; },
       KILN_UNSUPPORTED, "reserved"},
      {"reserved of d", [](kiln_gemm_args &a) { a.d.reserved[0] = 1; },
       KILN_UNSUPPORTED, "reserved"},
      {"size", [](kiln_gemm_args &a) { a.struct_size = 0; },
       KILN_INVALID_ARGUMENT, "struct_size"},
      {"size of c",
       [](kiln_gemm_args &a) {
         a.beta = 1;
         a.c.struct_size = 8;
       },
       KILN_INVALID_ARGUMENT, "c.struct_size"},
      {"long chain", [](kiln_gemm_args &a) { a.pointwise_count = 9; },
       KILN_UNSUPPORTED, "pointwise_count is 9"},
      {"missing chain", [](kiln_gemm_args &a) { a.pointwise_count = 1; },
       KILN_INVALID_ARGUMENT, "pointwise"},
  };
  for (const Case &broken : cases) {
    CAPTURE(broken.name);
    kiln_gemm_args args = good;
    broken.breakIt(args);
    CHECK(kiln_gemm(engine, &args, nullptr, nullptr) == broken.status);
    CAPTURE(lastError());
    CHECK(lastErrorHas(broken.message));
  }
  CHECK(kiln_gemm(nullptr, &good, nullptr, nullptr) == KILN_INVALID_ARGUMENT);
  CHECK(kiln_gemm(engine, nullptr, nullptr, nullptr) == KILN_INVALID_ARGUMENT);
  CHECK(statisticsOf(engine).launches == 1);
}

TEST_CASE("pointwise chains: operands, order, and what is refused") {
  RuntimeFixture fixture;
  LaunchLog<> launches;
  kiln_engine *engine = fixture.engine();
  kiln_pointwise chain[3] = {KILN_INIT(kiln_pointwise),
                             KILN_INIT(kiln_pointwise),
                             KILN_INIT(kiln_pointwise)};
  chain[0].op = KILN_POINTWISE_BIAS;
  chain[0].operand.data = address(0x700000);
  chain[1].op = KILN_POINTWISE_GELU_TANH;
  chain[2].op = KILN_POINTWISE_RESIDUAL;
  chain[2].operand.data = address(0x800000);
  chain[2].operand.leading_dim = 512;
  kiln_gemm_args args = gemmArgs();
  args.pointwise = chain;
  args.pointwise_count = 3;
  CAPTURE(lastError());
  REQUIRE(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(launches.last().bias == chain[0].operand.data);
  CHECK(launches.last().residual == chain[2].operand.data);
  CHECK(launches.last().ldResidual == 512);

  chain[1].op = KILN_POINTWISE_BIAS;
  chain[1].operand.data = address(0x700000);
  CHECK(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_UNSUPPORTED);
  chain[1].op = 266; // 10 in its last byte
  CHECK(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_UNSUPPORTED);
  chain[1].op = KILN_POINTWISE_RELU;
  chain[1].params[2] = 1;
  CHECK(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_UNSUPPORTED);
  chain[1].params[2] = 0;
  chain[1].struct_size = sizeof(kiln_pointwise) + 8;
  CHECK(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_INVALID_ARGUMENT);
}

TEST_CASE("a swiglu reaches its kernel, whose d is half as wide") {
  RuntimeFixture fixture;
  LaunchLog<> launches;
  kiln_engine *engine = fixture.engine();
  kiln_pointwise chain[2] = {KILN_INIT(kiln_pointwise),
                             KILN_INIT(kiln_pointwise)};
  chain[0].op = KILN_POINTWISE_SWIGLU;
  chain[1].op = KILN_POINTWISE_RESIDUAL;
  chain[1].operand.data = address(0x800000);
  kiln_gemm_args args = gemmArgs();
  args.pointwise = chain;
  args.pointwise_count = 2;
  CAPTURE(lastError());
  REQUIRE(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
  GemmParams params = launches.last();
  CHECK(params.n == 256);
  CHECK(params.ldd == 128);
  CHECK(params.ldResidual == 128);
  CHECK(params.residual == chain[1].operand.data);
  args.d.leading_dim = 128; // the meaning of 0
  REQUIRE(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(statisticsOf(engine).dispatch_misses == 1);
  args.d.leading_dim = 127;
  CHECK(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_INVALID_ARGUMENT);
  CHECK(lastErrorHas("d.leading_dim=127 is below the row length 128"));
  args.d.leading_dim = 0;
  args.beta = 1;
  CHECK(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_UNSUPPORTED);
  CHECK(lastErrorHas("takes no C"));
}

TEST_CASE("structs of newer callers work while their new fields are zero") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  struct Newer {
    kiln_gemm_args args;
    uint64_t added[2];
  } newer = {gemmArgs(), {0, 0}};
  newer.args.struct_size = sizeof(Newer);
  CHECK(kiln_gemm(engine, &newer.args, nullptr, nullptr) == KILN_SUCCESS);
  newer.added[1] = 1;
  CHECK(kiln_gemm(engine, &newer.args, nullptr, nullptr) == KILN_UNSUPPORTED);

  struct NewerStatistics {
    kiln_statistics statistics;
    uint64_t added[4];
  } filled;
  std::memset(&filled, 0xff, sizeof(filled));
  filled.statistics.struct_size = sizeof(filled) - sizeof(uint64_t);
  REQUIRE(kiln_get_statistics(engine, &filled.statistics) == KILN_SUCCESS);
  CHECK(filled.statistics.struct_size == sizeof(filled) - sizeof(uint64_t));
  CHECK(filled.statistics.launches == 1);
  CHECK(filled.added[0] == 0);
  CHECK(filled.added[2] == 0);
  CHECK(filled.added[3] == ~uint64_t(0)); // past what the caller offered
  kiln_statistics older = {};
  older.struct_size = 8;
  CHECK(kiln_get_statistics(engine, &older) == KILN_INVALID_ARGUMENT);
}

TEST_CASE("a described problem runs with addresses by slot") {
  RuntimeFixture fixture;
  LaunchLog<> launches;
  kiln_engine *engine = fixture.engine();
  void *operands[KILN_GEMM_SLOT_COUNT] = {};
  operands[KILN_GEMM_A] = address(0x100000);
  operands[KILN_GEMM_B] = address(0x200000);
  operands[KILN_GEMM_D] = address(0x400000);
  operands[KILN_GEMM_POINTWISE + 1] = address(0x700000);
  kiln_arguments arguments = KILN_INIT(kiln_arguments);
  arguments.operands = operands;
  arguments.operand_count = KILN_GEMM_SLOT_COUNT;
  kiln_problem problem = problemOf(
      "gemm m=128 n=256 k=512 dtype=bf16 layout=NT pointwise=relu,bias "
      "alpha=0.25");
  CAPTURE(lastError());
  REQUIRE(kiln_run(engine, &problem, &arguments, nullptr, nullptr) ==
          KILN_SUCCESS);
  CHECK(launches.last().bias == address(0x700000));
  CHECK(launches.last().alpha == 0.25f);
  double scalars[2] = {2, 3};
  arguments.scalars = scalars;
  arguments.scalar_count = 2;
  REQUIRE(kiln_run(engine, &problem, &arguments, nullptr, nullptr) ==
          KILN_SUCCESS);
  CHECK(launches.last().alpha == 2.0f);
  CHECK(launches.last().beta == 0.0f); // made without C
  CHECK(statisticsOf(engine).dispatch_misses == 1);

  operands[KILN_GEMM_B] = address(0x200008);
  CHECK(kiln_run(engine, &problem, &arguments, nullptr, nullptr) ==
        KILN_INVALID_ARGUMENT);
  CHECK(lastErrorHas("aligned to the 16 bytes"));
  operands[KILN_GEMM_B] = nullptr;
  CHECK(kiln_run(engine, &problem, &arguments, nullptr, nullptr) ==
        KILN_INVALID_ARGUMENT);
  operands[KILN_GEMM_B] = operands[KILN_GEMM_D];
  CHECK(kiln_run(engine, &problem, &arguments, nullptr, nullptr) ==
        KILN_INVALID_ARGUMENT);
  CHECK(lastErrorHas("overlaps"));
}

TEST_CASE("bad descriptions are refused") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  kiln_arguments arguments = KILN_INIT(kiln_arguments);
  auto run = [&](const kiln_problem &problem) {
    return kiln_run(engine, &problem, &arguments, nullptr, nullptr);
  };
  CHECK(run(problemOf("gemm m=1 n=1")) == KILN_INVALID_ARGUMENT);
  CHECK(run(problemOf("convolution m=1")) == KILN_INVALID_ARGUMENT);
  CHECK(run(problemOf("gemm m=1 n=1 k=1 dtype=bf16 color=red")) ==
        KILN_INVALID_ARGUMENT);
  CHECK(lastErrorHas("color"));
  kiln_problem problem = KILN_INIT(kiln_problem);
  CHECK(run(problem) == KILN_INVALID_ARGUMENT);
  problem.family = KILN_FAMILY_PREPACK + 1;
  CHECK(run(problem) == KILN_UNSUPPORTED);
  kiln_gemm_args args = gemmArgs();
  problem = problemOf(args);
  kiln_range range = KILN_INIT(kiln_range);
  problem.ranges = &range;
  problem.range_count = 1;
  range.name = "k";
  range.last = 4;
  CHECK(run(problem) == KILN_INVALID_ARGUMENT);
  range.name = "m";
  range.first = 5;
  CHECK(run(problem) == KILN_INVALID_ARGUMENT);
}

TEST_CASE("a gemm that was not initialised is refused wherever it is given") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  const kiln_gemm_args good = gemmArgs();
  kiln_gemm_args zeroed = good;
  zeroed.batch = 0;
  zeroed.alpha = zeroed.beta = 0;
  auto isRefused = [](kiln_status status) {
    return status == KILN_INVALID_ARGUMENT &&
           lastErrorHas("kiln_gemm_args_init");
  };
  CHECK(isRefused(kiln_gemm(engine, &zeroed, nullptr, nullptr)));
  kiln_problem problem = problemOf(good), wrong = problemOf(zeroed);
  CHECK(isRefused(kiln_prepare(engine, &wrong, 1, nullptr, nullptr)));
  kiln_plan *plan = nullptr;
  CHECK(isRefused(kiln_plan_acquire(engine, &wrong, nullptr, &plan)));
  CHECK(isRefused(kiln_problem_text(&wrong, nullptr, 0, nullptr)));
  REQUIRE(kiln_plan_acquire(engine, &problem, nullptr, &plan) == KILN_SUCCESS);
  CHECK(isRefused(kiln_plan_launch_call(plan, KILN_FAMILY_GEMM, &zeroed,
                                        nullptr, nullptr)));
  // An empty batch that is meant is one, and so it is in a text.
  zeroed.alpha = 1;
  CHECK(kiln_gemm(engine, &zeroed, nullptr, nullptr) == KILN_SUCCESS);
  kiln_problem text =
      problemOf("gemm m=64 n=64 k=64 batch=0 dtype=bf16 alpha=0");
  kiln_arguments arguments = KILN_INIT(kiln_arguments);
  CHECK(kiln_run(engine, &text, &arguments, nullptr, nullptr) == KILN_SUCCESS);
  kiln_plan_release(plan);
}
