#include "Trial/InProcessTrials.h"

#include "Store/LoadedPlan.h"
#include "Trial/TrialsFixture.h"

#include <cuda.h>

#include <set>
#include <thread>
#include <tuple>

using namespace kiln;
using namespace kiln::fake;

TEST_CASE("right candidates are validated and timed") {
  TrialsFixture f;
  f.trials.durations = {{"fast.t64", 3e3}, {"pair.t64", 2e3}};
  auto results = f.run(f.request({"fast.t64", "pair.t64"}));
  REQUIRE(results.size() == 2);
  for (const TrialResult &result : results) {
    CAPTURE(result.message);
    CHECK(result.status == TrialStatus::Ok);
    CHECK(result.validated);
    CHECK(result.maxErrorRatio == 0);
    CHECK(result.samples >= 3);
  }
  CHECK(results[0].config == "fast.t64");
  CHECK(results[0].medianNs == doctest::Approx(3e3));
  CHECK(results[1].medianNs == doctest::Approx(4e3));
  CHECK(f.runner().isAlive());
}

TEST_CASE("what a kernel does wrong has a name") {
  for (auto [misdeed, status] :
       {std::pair(Misdeed::None, TrialStatus::Ok),
        {Misdeed::WrongValue, TrialStatus::Wrong},
        {Misdeed::BeforeOutput, TrialStatus::OutOfBounds},
        {Misdeed::BehindOutput, TrialStatus::OutOfBounds},
        {Misdeed::WritesNothing, TrialStatus::NotWritten},
        {Misdeed::LeavesLast, TrialStatus::NotWritten},
        {Misdeed::Nondeterminism, TrialStatus::Wrong},
        {Misdeed::KillsContext, TrialStatus::ContextDead}}) {
    TrialsFixture f;
    TrialResult result = f.tryMisdeed(misdeed);
    CAPTURE(result.message);
    CHECK(result.status == status);
    CHECK(result.validated == (status == TrialStatus::Ok));
    CHECK(result.message.empty() == (status == TrialStatus::Ok));
    CHECK(result.samples == 0);
    CHECK(f.runner().isAlive() == (status != TrialStatus::ContextDead));
  }
}

TEST_CASE("every output is compared, and the wrong one is named") {
  for (DType type : {DType::FP32, DType::INT8}) {
    for (auto [misdeed, status, begin] :
         {std::tuple(Misdeed::None, TrialStatus::Ok, ""),
          {Misdeed::WrongValue, TrialStatus::Wrong, "y: 1 of 1584 elements "},
          {Misdeed::WrongSecond, TrialStatus::Wrong, "z: 1 of 1584 elements "},
          // No right result is what poison is, except for int8 -1 is.
          {Misdeed::LeavesSecond, TrialStatus::NotWritten,
           "z: 1584 of 1584 elements are not written"},
          {Misdeed::PadsSecond, TrialStatus::OutOfBounds, ""},
          {Misdeed::Nondeterminism, TrialStatus::Wrong, "y: "}}) {
      TrialsFixture f;
      f.options->second = type;
      TrialResult result = f.tryMisdeed(misdeed);
      CAPTURE(result.message);
      CHECK(result.status == status);
      CHECK(result.message.starts_with(begin));
      // Wrong results are compared once more, over fresh data.
      CHECK(f.trials.references == (status == TrialStatus::Ok ? 2 : 4));
    }
  }
}

TEST_CASE(
    "an output that is read is as it was for each run and the reference") {
  TrialsFixture f;
  f.options->second = DType::FP32;
  f.options->accumulates = true;
  CHECK(f.tryMisdeed(Misdeed::None).status == TrialStatus::Ok);
  CHECK(f.tryMisdeed(Misdeed::WrongSecond).status == TrialStatus::Wrong);
  CHECK(f.tryMisdeed(Misdeed::LeavesSecond).status == TrialStatus::Wrong);
  CHECK(f.tryMisdeed(Misdeed::None).status == TrialStatus::Ok);
}

TEST_CASE("operands are filled as they are described") {
  TrialsFixture f;
  f.options->usual.mean = 3;
  f.options->outliers = {.mean = -1,
                         .deviation = 0.5,
                         .mantissaBits = 10,
                         .outlierPeriod = 7,
                         .outlier = 1e4,
                         .minusInfinityPeriod = 9,
                         .rowPeriod = 4,
                         .rowValue = 2};
  TrialRequest request = f.request({"fast.t64"});
  request.options.measure = false;
  f.run(request);
  REQUIRE(f.trials.fills.size() > 0);
  CHECK(f.trials.fills.back().mean == 3);
  CHECK(f.trials.fills.back().deviation == 1);
  CHECK(f.trials.fills.back().outlierPeriod == 0);
  request.options.data = TrialData::Outliers;
  for (int repeat = 0; repeat < 2; ++repeat) {
    CHECK(f.run(request)[0].status == TrialStatus::Ok);
    CHECK(f.trials.references == 2); // again for other data
  }
  const FillNormalParams &fill = f.trials.fills.back();
  CHECK(fill.mean == -1);
  CHECK(fill.deviation == 0.5f);
  CHECK(fill.mantissaBits == 10);
  CHECK(fill.outlierPeriod == 7);
  CHECK(fill.outlier == 1e4f);
  CHECK(fill.minusInfinityPeriod == 9);
  CHECK(fill.rowPeriod == 4);
  CHECK(fill.rowValue == 2);
  CHECK(fill.rowLength == 33);
}

TEST_CASE("a workspace is zeroed where its layout says so, and guarded") {
  TrialsFixture f;
  f.options->zeroedBytes = 256;
  f.options->scratchBytes = 768;
  CHECK(f.tryMisdeed(Misdeed::None).status == TrialStatus::Ok);
  f.trials.scratchBytes = 1024;
  CHECK(f.tryMisdeed(Misdeed::BehindScratch).status ==
        TrialStatus::OutOfBounds);
  f.options->scratchBytes = 1 << 30;
  TrialResult result = f.tryMisdeed(Misdeed::None);
  CHECK(result.status == TrialStatus::OutOfMemory);
  CHECK_FALSE(isConfigFault(result.status));
}

TEST_CASE("one bad candidate spoils no other") {
  TrialsFixture f;
  f.trials.misdeeds = {{"fast.t16", Misdeed::BehindOutput},
                       {"fast.t32", Misdeed::WrongValue}};
  auto results =
      f.run(f.request({"fast.t16", "fast.t64", "fast.t32", "fast.t128"}));
  CHECK(results[0].status == TrialStatus::OutOfBounds);
  CHECK(results[1].status == TrialStatus::Ok);
  CHECK(results[2].status == TrialStatus::Wrong);
  CHECK(results[3].status == TrialStatus::Ok);
  CHECK(results[3].samples > 0);
  CHECK(results[2].samples == 0);
}

TEST_CASE("only what may win is validated") {
  TrialsFixture f;
  f.trials.durations = {{"fast.t16", 1000},
                        {"fast.t32", 2000},
                        {"fast.t64", 2008},
                        {"fast.t128", 3000}};
  f.trials.misdeeds = {{"fast.t16", Misdeed::WrongValue}};
  TrialRequest request =
      f.request({"fast.t128", "fast.t64", "fast.t32", "fast.t16"});
  request.options.validation = TrialValidation::MayWin;
  auto results = f.run(request);
  CHECK(results[3].status == TrialStatus::Wrong);
  CHECK(results[2].validated);
  CHECK(results[1].validated); // a tie
  CHECK(results[0].status == TrialStatus::Ok);
  CHECK_FALSE(results[0].validated);
  CHECK(results[0].medianNs == doctest::Approx(3000));
  // A proof of an earlier request counts, so slower ones are not validated.
  request.candidates[3].isProven = true;
  results = f.run(request);
  CHECK(results[3].validated);
  for (size_t i = 0; i < 3; ++i) {
    CHECK_FALSE(results[i].validated);
    CHECK(results[i].status == TrialStatus::Ok);
  }
}

TEST_CASE("a candidate that is kept is sampled as long as the fastest") {
  TrialsFixture f;
  f.trials.durations = {
      {"fast.t64", 1e5}, {"fast.t32", 3e5}, {"fast.t16", 3e5}};
  TrialRequest request = f.request({"fast.t16", "fast.t32", "fast.t64"});
  request.candidates[1].isKept = true;
  auto results = f.run(request);
  CHECK(results[0].samples < results[2].samples);
  CHECK(results[1].samples == results[2].samples);
}

TEST_CASE("the reference is computed once a problem, or in slabs") {
  TrialsFixture f;
  TrialRequest request = f.request({"fast.t16", "fast.t32", "fast.t64"});
  request.options.measure = false;
  f.run(request);
  f.run(request);
  CHECK(f.trials.references == 1);
  f.run(f.request({"fast.t16"}, "fake m=8 n=8"));
  CHECK(f.trials.references == 2);

  TrialsFixture tight;
  tight.runnerOptions.scratchBytes = 72 << 10;
  request = tight.request({"fast.t16", "fast.t32"});
  request.options.measure = false;
  for (const TrialResult &result : tight.run(request))
    CHECK(result.status == TrialStatus::Ok);
  CHECK(tight.trials.references > 2);
  tight.trials.misdeeds["fast.t32"] = Misdeed::LeavesLast;
  CHECK(tight.run(request)[1].status == TrialStatus::NotWritten);

  TrialsFixture two; // outputs, whose slabs take turns
  two.options->second = DType::INT8;
  two.runnerOptions.scratchBytes = 100 << 10;
  two.trials.misdeeds["fast.t32"] = Misdeed::WrongSecond;
  request = two.request({"fast.t16", "fast.t32"});
  request.options.measure = false;
  auto results = two.run(request);
  CHECK(results[0].status == TrialStatus::Ok);
  CHECK(results[1].status == TrialStatus::Wrong);
  CHECK(two.trials.references > 4);
}

TEST_CASE("a problem without room on the device is no candidate's fault") {
  TrialsFixture f;
  f.runnerOptions.scratchBytes = 16 << 10;
  CHECK(codeOf(f.runner().run(f.request({"fast.t64"}))) ==
        ErrorCode::DeviceOutOfMemory);
  CHECK(f.runner().isAlive());
}

TEST_CASE("the scratch memory stays below its cap and can be given back") {
  TrialsFixture f;
  f.run(f.request({"fast.t64"}));
  CHECK(kilnFakeBytesInUse() <= f.runnerOptions.scratchBytes);
  CHECK(kilnFakeBytesInUse() > 0);
  f.runner().releaseScratch();
  CHECK(kilnFakeBytesInUse() == 0);
  CHECK(f.run(f.request({"fast.t64"}))[0].status == TrialStatus::Ok);
  f.made.reset();
  CHECK(kilnFakeBytesInUse() == 0);
  CHECK(kilnFakeModulesLoaded() == 0);
}

TEST_CASE("cold samples rotate over copies, hot ones do not") {
  TrialsFixture f;
  TrialRequest request = f.request({"fast.t64"});
  request.options.validation = TrialValidation::None;
  f.run(request);
  std::set<DeviceAddress> cold(f.trials.inputs.begin(), f.trials.inputs.end());
  CHECK(cold.size() > 8);
  f.trials.inputs.clear();
  request.options.mode = MeasurementMode::Hot;
  TrialResult hot = f.run(request)[0];
  CHECK(hot.status == TrialStatus::Ok);
  CHECK_FALSE(hot.validated);
  CHECK(std::set<DeviceAddress>(f.trials.inputs.begin(), f.trials.inputs.end())
            .size() == 1);
}

TEST_CASE("after the context died nothing is run, freed or believed") {
  TrialsFixture f;
  f.trials.misdeeds["fast.t32"] = Misdeed::KillsContext;
  auto results = f.run(f.request({"fast.t64", "fast.t32", "fast.t16"}));
  CHECK(results[0].status == TrialStatus::Ok);
  CHECK(results[0].validated);
  CHECK(results[1].status == TrialStatus::ContextDead);
  CHECK(results[2].status == TrialStatus::ContextDead);
  CHECK(f.trials.runsOf("fast.t16") == 0);
  CHECK_FALSE(f.runner().isAlive());
  CHECK(codeOf(f.runner().run(f.request({"fast.t64"}))) ==
        ErrorCode::ContextDead);
}

TEST_CASE("what results of a context that died hold is never unloaded") {
  TrialsFixture f;
  auto results = f.run(f.request({"fast.t64"}));
  REQUIRE(results[0].loaded);
  f.trials.misdeeds["fast.t32"] = Misdeed::KillsContext;
  f.run(f.request({"fast.t32"}));
  CHECK_FALSE(f.runner().isAlive());
  results.clear();
  f.made.reset();
  CHECK(calls("cuModuleUnload") == 0);
}

TEST_CASE(
    "S3: trials mind no other thread's waits, and end no capture of theirs") {
  TrialsFixture f;
  f.trials.misdeeds["fast.t32"] = Misdeed::WrongValue;
  TrialRequest request = f.request({"fast.t64", "pair.t64", "fast.t32"});
  struct Others {
    bool inside = false;
    int waits = 0, failed = 0;
  } others;
  kilnFakeOnStep(
      [](const KilnFakeStep *, void *user) {
        auto *others = static_cast<Others *>(user);
        ++others->waits;
        others->failed += cuCtxSynchronize() != CUDA_SUCCESS;
      },
      &others);
  auto check = [](const std::vector<TrialResult> &results) {
    CHECK(results[0].status == TrialStatus::Ok);
    CHECK(results[0].samples > 0);
    CHECK(results[1].status == TrialStatus::Ok);
    CHECK(results[2].status == TrialStatus::Wrong);
  };
  check(f.run(request));
  CHECK(others.waits > 100);
  CHECK(others.failed == 0);

  kilnFakeOnStep(nullptr, nullptr);
  CUstream stream = nullptr;
  REQUIRE(cuStreamCreate(&stream, CU_STREAM_DEFAULT) == CUDA_SUCCESS);
  CUcontext context = nullptr;
  REQUIRE(cuCtxGetCurrent(&context) == CUDA_SUCCESS);
  std::thread([&] {
    cuCtxPushCurrent(context);
    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  }).join();
  check(f.run(request));
  f.runner().releaseScratch();
  CUstreamCaptureStatus status;
  REQUIRE(cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS);
  CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  cuStreamDestroy(stream);
}

TEST_CASE("S3: only what the device refuses anywhere is a config's fault") {
  for (int code :
       {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NO_BINARY_FOR_GPU,
        CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
        CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
        CUDA_ERROR_INVALID_CLUSTER_SIZE, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUDA_ERROR_UNKNOWN,
        CUDA_ERROR_OPERATING_SYSTEM}) {
    CAPTURE(code);
    const bool isFault = code == CUDA_ERROR_INVALID_VALUE ||
                         code == CUDA_ERROR_NO_BINARY_FOR_GPU ||
                         code == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES ||
                         code == CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE ||
                         code == CUDA_ERROR_INVALID_CLUSTER_SIZE;
    for (const char *symbol :
         {"cuModuleLoadData", "cuGraphInstantiateWithFlags"}) {
      CAPTURE(symbol);
      TrialsFixture f;
      TrialRequest request = f.request({"fast.t64", "fast.t32"});
      f.run(request);
      kilnFakeFailCall(symbol, 1, code, KilnFakeOnce);
      request.options.validation = TrialValidation::None;
      auto results = f.run(request);
      CHECK(results[0].status ==
            (isFault ? TrialStatus::LaunchFailed : TrialStatus::NotTried));
      CHECK(isConfigFault(results[0].status) == isFault);
      CHECK(results[1].status == TrialStatus::Ok);
    }
  }
}

TEST_CASE("S3: what any config would have met is no config's fault") {
  for (std::string symbol :
       {"cuEventCreate", "cuEventRecord", "cuEventElapsedTime",
        "cuMemsetD8Async", "cuEventQuery"})
    for (const ConfigRefusal &refusal : kConfigRefusals) {
      CAPTURE(symbol);
      CAPTURE(refusal.name.str());
      TrialsFixture f;
      f.options->scratchBytes = 768; // which is filled
      TrialRequest request = f.request({"fast.t64", "fast.t32"});
      request.options.validation = TrialValidation::None;
      f.run(request);
      kilnFakeFailCall(symbol.c_str(), 1, static_cast<int>(refusal.driverCode),
                       KilnFakeOnce);
      CHECK(f.run(request)[0].status == TrialStatus::NotTried);
      CHECK(f.run(request)[0].status == TrialStatus::Ok);
    }
}

TEST_CASE("S10: memory of another problem does not count as this one's") {
  TrialsFixture f;
  f.runnerOptions.scratchBytes = 8 << 20;
  f.run(f.request({"fast.t64"}, "fake m=512 n=512"));
  const uint64_t large = kilnFakeBytesInUse();
  CHECK(large > 4 << 20);
  // Beside a small problem there is room for a workspace of half of it all.
  f.options->scratchBytes = 4 << 20;
  TrialRequest small = f.request({"fast.t64"}, "fake m=8 n=8");
  small.options.measure = false;
  CHECK(f.run(small)[0].status == TrialStatus::Ok);
  CHECK(kilnFakeBytesInUse() <= f.runnerOptions.scratchBytes);
}

TEST_CASE("S10: memory that exceeds what trials may take now is freed") {
  TrialsFixture f;
  f.runnerOptions.scratchBytes = 0;
  kilnFakeSetDeviceMemory(0, 64 << 20);
  f.run(f.request({"fast.t64"}, "fake m=512 n=512"));
  const uint64_t own = kilnFakeBytesInUse();
  constexpr uint64_t kFree = 1 << 20;
  kilnFakeSetFreeMemory(0, kFree);
  CHECK(f.run(f.request({"fast.t64"}))[0].status == TrialStatus::Ok);
  CHECK(kilnFakeBytesInUse() <= (own + kFree) / 2);
}

TEST_CASE("S10: trials take half of what is free now, and try again") {
  TrialsFixture f;
  f.runnerOptions.scratchBytes = 0;
  kilnFakeSetDeviceMemory(0, 64 << 20);
  TrialRequest request = f.request({"fast.t64"});
  auto tryWith = [&](uint64_t freeBytes) {
    f.runner().releaseScratch();
    kilnFakeSetFreeMemory(0, freeBytes);
    auto results = f.runner().run(request);
    if (!results) {
      CHECK(summarize(results.takeError()).code ==
            ErrorCode::DeviceOutOfMemory);
      return false;
    }
    CHECK(results->at(0).status == TrialStatus::Ok);
    CHECK(kilnFakeBytesInUse() > 0);
    CHECK(kilnFakeBytesInUse() <= freeBytes / 2);
    return true;
  };
  CHECK(tryWith(64 << 20));
  CHECK(tryWith(4 << 20));
  CHECK_FALSE(tryWith(20 << 10));
  CHECK(tryWith(32 << 20));
}

TEST_CASE("S10: operands may use what is spared for workspaces") {
  TrialsFixture f;
  TrialRequest request = f.request({"fast.t64"}, "fake m=512 n=512");
  request.options.measure = false;
  // Two operands of a MiB and what was written once more: 3.1 MiB.
  f.runnerOptions.scratchBytes = 3300 << 10;
  CHECK(f.run(request)[0].status == TrialStatus::Ok);
  CHECK(kilnFakeBytesInUse() <= f.runnerOptions.scratchBytes);
}

TEST_CASE("time that is over begins no work") {
  TrialsFixture f;
  TrialRequest request = f.request({"fast.t64"});
  request.options.timeLimit = std::chrono::milliseconds(-1);
  CHECK(f.run(request)[0].status == TrialStatus::Timeout);
  request.options.validation = TrialValidation::MayWin;
  CHECK(f.run(request)[0].status == TrialStatus::Timeout);
  CHECK(f.trials.runs.empty());
}

TEST_CASE("requests that nobody can run are errors") {
  TrialsFixture f;
  TrialRequest request = f.request({"fast.t64"});
  TrialRequest changed = request;
  changed.problem = makeProblem(*f.tried, "fake m=0 n=1");
  CHECK(codeOf(f.runner().run(changed)) == ErrorCode::InvalidArgument);
  changed = request;
  changed.candidates[0].artifacts.clear();
  CHECK(codeOf(f.runner().run(changed)) == ErrorCode::InvalidArgument);
}

TEST_CASE("an operand of a type that trials do not know is an error") {
  TrialsFixture f;
  f.options->second = DType::E8M0;
  auto results = f.runner().run(f.request({"fast.t64"}));
  REQUIRE_FALSE(static_cast<bool>(results));
  CHECK(summarize(results.takeError()).message ==
        "fake: trials can neither fill nor compare operand z of type e8m0; "
        "bf16, fp16, fp32, fp64, e4m3, e5m2, int8, int32 and int64 work");
}

TEST_CASE("what a result hands on is not loaded again") {
  TrialsFixture f;
  f.trials.misdeeds["fast.t32"] = Misdeed::WrongValue;
  TrialRequest request = f.request({"fast.t64", "fast.t32"});
  auto results = f.run(request);
  REQUIRE(results[0].loaded);
  CHECK(results[0].loaded->plan().configText() == "fast.t64");
  CHECK_FALSE(results[1].loaded); // it is wrong
  request.candidates.pop_back();
  request.candidates[0].loaded = results[0].loaded;
  const uint64_t loads = calls("cuModuleLoadData");
  results = f.run(request);
  CHECK(results[0].status == TrialStatus::Ok);
  CHECK(results[0].loaded == request.candidates[0].loaded);
  CHECK(calls("cuModuleLoadData") == loads);
  // Dropping the plan unloads it, also after the runner's end.
  f.made.reset();
  CHECK(kilnFakeModulesLoaded() == 1);
  results.clear();
  request.candidates.clear();
  CHECK(kilnFakeModulesLoaded() == 0);
}

TEST_CASE("short memory and refused launches are told apart") {
  TrialsFixture f;
  f.run(f.request({"fast.t64"}));
  constexpr int kOutOfMemory = 2, kInvalidValue = 1;
  kilnFakeFailCall("cuModuleLoadData", 1, kOutOfMemory, KilnFakeOnce);
  auto results = f.run(f.request({"fast.t64", "fast.t32"}));
  CHECK(results[0].status == TrialStatus::OutOfMemory);
  CHECK(results[1].status == TrialStatus::Ok);
  kilnFakeFailCall("cuModuleLoadData", 1, kInvalidValue, KilnFakeOnce);
  results = f.run(f.request({"fast.t64", "fast.t32"}));
  CHECK(results[0].status == TrialStatus::LaunchFailed);
  CHECK(results[1].status == TrialStatus::Ok);
}
