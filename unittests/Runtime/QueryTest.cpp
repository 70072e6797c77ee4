// Answers of kiln_query for problems that were not launched yet.
#include "Runtime/RuntimeFixture.h"
#include "Store/CalibrationStore.h"
#include "Store/DeviceAssembly.h"

#include <cuda.h>

using namespace kiln;
using namespace kiln::testing;

TEST_CASE("a query tells what a launch will take") {
  RuntimeFixture fixture;
  judgeTrials();
  kilnFakeSetHollowMemory(1 << 20);
  // The layer was measured by another engine.
  kiln_gemm_args measured = gemmArgs(128), other = gemmArgs(1024);
  REQUIRE(kiln_gemm(fixture.engine(KILN_MODE_TUNE), &measured, nullptr,
                    nullptr) == KILN_SUCCESS);
  kiln_engine *engine = fixture.engine(KILN_MODE_PREDICT);
  kiln_problem problem = problemOf(other);
  kiln_query_result before = queryOf(engine, problem);
  CHECK(before.state == KILN_STATE_MISSING);
  REQUIRE(kiln_gemm(engine, &other, nullptr, nullptr) == KILN_SUCCESS);
  kiln_query_result after = queryOf(engine, problem);
  CHECK(after.source == KILN_SOURCE_RECORD);
  CHECK(before.source == after.source);
  CHECK(before.predicted_us == after.predicted_us);
  // Nothing is known about another layer.
  kiln_engine *tuner = fixture.engine(KILN_MODE_TUNE);
  CHECK(queryOf(tuner, problem).source == KILN_SOURCE_RECORD);
  other.n = 512;
  CHECK(queryOf(tuner, problemOf(other)).source == KILN_SOURCE_NONE);
}

TEST_CASE("a query passes over what a launch does") {
  RuntimeFixture fixture;
  judgeTrials();
  SUBCASE("a record whose trials were truncated") {
    kiln_gemm_args args = gemmArgs();
    kilnFakeFailCall("cuGraphInstantiateWithFlags", 1,
                     CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, KilnFakeOnce);
    REQUIRE(tuneValue(fixture.engine(KILN_MODE_TUNE), args) == KILN_SUCCESS);
    auto sourceIn = [&](kiln_mode mode) {
      return queryOf(fixture.engine(mode), problemOf(args)).source;
    };
    CHECK(sourceIn(KILN_MODE_TUNE) == KILN_SOURCE_NONE);
    CHECK(sourceIn(KILN_MODE_PREDICT) == KILN_SOURCE_RECORD);
  }
  SUBCASE("a winner that needs more than is allowed") {
    kiln_gemm_args args = splitArgs();
    kiln_engine *tuner = fixture.engine(KILN_MODE_TUNE);
    REQUIRE(tuneValue(tuner, args) == KILN_SUCCESS);
    const uint64_t needed = queryOf(tuner, problemOf(args)).workspace.bytes;
    REQUIRE(needed > 1);
    kiln_engine_options options = fixture.options();
    options.workspace_limit_bytes = needed - 1;
    kiln_engine *engine = fixture.engine(options);
    const kiln_query_result before = queryOf(engine, problemOf(args));
    REQUIRE(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
    const kiln_query_result after = queryOf(engine, problemOf(args));
    CHECK(before.source == after.source);
    CHECK(before.workspace.bytes == after.workspace.bytes);
    CHECK(before.predicted_us == after.predicted_us);
  }
}

TEST_CASE("an engine takes the numbers that were measured on its GPU") {
  RuntimeFixture fixture;
  const kiln_gemm_args args = gemmArgs();
  auto predictedBy = [&](kiln_engine *engine) {
    REQUIRE(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
    return queryOf(engine, problemOf(args)).predicted_us;
  };
  const double before = predictedBy(fixture.engine());
  REQUIRE(before > 0);
  Environment environment;
  environment.kilnNvml = "/nonexistent/nvml.so";
  const DeviceModel device =
      llvm::cantFail(assembleDevice(&fixture.gpu.driver(), environment, {}))
          .model;
  cache::StoreOptions options;
  options.writeDir = fixture.cachePath;
  CalibrationStore(*cache::Store::open(options))
      .store(device, {device.uuid, "580", 0, {{"launchNs", 1220, "launch"}}});
  CHECK(predictedBy(fixture.engine()) == doctest::Approx(before + 0.6));
  // A device that the caller names is the catalog's.
  kiln_engine_options named = fixture.options();
  named.device_model = "h200-sxm";
  CHECK(predictedBy(fixture.engine(named)) == doctest::Approx(before));
}
