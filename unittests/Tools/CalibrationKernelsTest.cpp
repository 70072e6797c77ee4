// The kernels of kiln calibrate compile for every architecture.
#include "calibrate/CalibrationKernels.h"

#include "Compile/Compiler.h"
#include "Device/Catalog.h"
#include "Store/FakeFamily.h"
#include "Support/Environment.h"

#include <doctest/doctest.h>

#include <set>

using namespace kiln;
using namespace kiln::cli;
using namespace kiln::fake;

TEST_CASE("the kernels of calibration compile with the real NVRTC") {
  Compiler compiler(NvrtcSearch::fromEnvironment(
      Environment::fromProcess(), {KILN_SOURCE_DIR "/build/cuda"}));
  if (auto nvrtc = compiler.nvrtc(); !nvrtc) {
    MESSAGE("skipped: ", summarize(nvrtc.takeError()).message);
    return;
  }
  std::set<std::string> archs;
  for (llvm::StringRef name : catalogNames()) {
    CAPTURE(name.str());
    DeviceModel device = must(findDevice(name));
    if (device.computeCapability() < 75 || // NVRTC 13 has none older
        !archs.insert(device.archName()).second)
      continue;
    for (const TranslationUnit &unit : calibrationUnits(device)) {
      CAPTURE(unit.name());
      auto artifact = compiler.compile(unit);
      if (!artifact)
        FAIL(llvm::toString(artifact.takeError()));
      CHECK_FALSE(artifact->hasSpills());
      CHECK_FALSE(entriesOf(unit).empty());
      for (const std::string &entry : entriesOf(unit))
        CHECK(artifact->cubin.find(entry) != std::string::npos);
    }
  }
  CHECK(archs.count("sm_90") == 1);
  CHECK(archs.size() >= 7);
}

TEST_CASE("tensor instructions are those of the architecture") {
  auto typesOf = [](const char *name) {
    std::string types;
    for (const TensorInstruction &mma : mmaInstructions(must(findDevice(name))))
      types += mma.type + std::string(" ");
    return types;
  };
  CHECK(typesOf("t4").empty());
  CHECK(typesOf("a100-sxm4-80gb") == "Fp64 Tf32 Fp16 Bf16 Int8 ");
  CHECK(typesOf("l40s") == "Fp64 Tf32 Fp16 Bf16 Int8 Fp8 ");
  CHECK(typesOf("h200-sxm") == "Tf32 Fp16 Bf16 Int8 Fp64 ");
  CHECK(wgmmaInstructions(must(findDevice("b200-sxm"))).empty());
  const auto wide = wgmmaInstructions(must(findDevice("h200-sxm")));
  CHECK(wide.size() == 5 * wgmmaWidths().size());
  CHECK(wide.back().columns == 256);
}
