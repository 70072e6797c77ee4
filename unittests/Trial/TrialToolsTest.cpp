#include "Trial/TrialTools.h"

#include "Compile/Compiler.h"
#include "Driver/DeviceMemory.h"
#include "Driver/Stream.h"
#include "Store/FakeDevice.h"
#include "Store/StoreFixture.h"
#include "Support/Environment.h"
#include "Trial/FakeTrials.h"

using namespace kiln;
using namespace kiln::fake;

TEST_CASE("the trial tools compile with the real NVRTC") {
  Compiler compiler(NvrtcSearch::fromEnvironment(
      Environment::fromProcess(), {KILN_SOURCE_DIR "/build/cuda"}));
  if (auto nvrtc = compiler.nvrtc(); !nvrtc) {
    MESSAGE("skipped: ", summarize(nvrtc.takeError()).message);
    return;
  }
  for (const char *name : {"a100-sxm4-80gb", "h200-sxm", "b200-sxm"}) {
    CAPTURE(name);
    auto device = findDevice(name);
    if (!device) {
      FAIL_CHECK(summarize(device.takeError()).message);
      continue;
    }
    auto artifact = compiler.compile(trialToolsUnit(*device));
    if (!artifact)
      FAIL(llvm::toString(artifact.takeError()));
    CHECK_FALSE(artifact->hasSpills());
    for (const char *entry :
         {"kilnFillNormal", "kilnFillIntegers", "kilnFillPattern",
          "kilnCheckRedZone", "kilnCheckGaps", "kilnCountDifferences",
          "kilnFlushL2", "kilnCompareTolerance"})
      CHECK(artifact->cubin.find(entry) != std::string::npos);
  }
}

TEST_CASE("the trial tools come from one module, and sizes of 0 do nothing") {
  FakeDevice gpu;
  StoreFixture f;
  FakeTrials trials;
  {
    TrialTools tools =
        must(TrialTools::load(*gpu.driver, *f.artifacts, f.device));
    CHECK(kilnFakeModulesLoaded() == 1);
    Stream stream = must(Stream::create(*gpu.driver));
    DeviceMemory memory = must(DeviceMemory::allocate(*gpu.driver, 1024));
    uint64_t before = kilnFakeCallCount("cuLaunchKernelEx");
    must(tools.fillPattern({}, stream.handle()));
    must(tools.fillNormal({}, stream.handle()));
    must(tools.flushL2({}, stream.handle()));
    must(tools.compare({}, stream.handle()));
    must(tools.fillIntegers({}, stream.handle()));
    must(tools.checkGaps({}, stream.handle()));
    CHECK(kilnFakeCallCount("cuLaunchKernelEx") == before);
    FillPatternParams params;
    params.data = reinterpret_cast<void *>(memory.address());
    params.bytes = 3;
    params.pattern = 0xabababab;
    must(tools.fillPattern(params, stream.handle()));
    CHECK(reinterpret_cast<unsigned char *>(memory.address())[2] == 0xab);
  }
  CHECK(kilnFakeModulesLoaded() == 0);
}
