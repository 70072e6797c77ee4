#include "Store/DeviceAssembly.h"

#include "Store/FakeDevice.h"
#include "Store/StoreFixture.h"

#include <fstream>

using namespace kiln;
using namespace kiln::fake;

namespace {

ErrorCode codeOf(llvm::Expected<AssembledDevice> assembled) {
  if (assembled)
    return ErrorCode::Success;
  return summarize(assembled.takeError()).code;
}

TEST_CASE("a catalog GPU needs no driver") {
  DeviceSelection selection;
  selection.catalogName = "h200-sxm";
  AssembledDevice assembled =
      must(assembleDevice(nullptr, Environment(), selection));
  CHECK(assembled.model.name == "h200-sxm");
  CHECK_FALSE(assembled.live);
  CHECK(assembled.notes.empty());
  selection.catalogName = "h999";
  CHECK(codeOf(assembleDevice(nullptr, Environment(), selection)) ==
        ErrorCode::InvalidArgument);
}

TEST_CASE("an override goes in front of the catalog") {
  TemporaryFolder folder;
  DeviceSelection selection;
  selection.catalogName = "h200-sxm";
  selection.overridePath = folder.path() + "/override.json";
  CHECK(codeOf(assembleDevice(nullptr, Environment(), selection)) !=
        ErrorCode::Success);
  std::ofstream(selection.overridePath) << R"({"smCount": 66})";
  AssembledDevice assembled =
      must(assembleDevice(nullptr, Environment(), selection));
  CHECK(assembled.model.smCount == 66);
  CHECK(originOf(assembled.model, "smCount").source == ValueSource::Override);
}

TEST_CASE("a live GPU needs a driver and tells what did not answer") {
  CHECK(codeOf(assembleDevice(nullptr, Environment(), {})) ==
        ErrorCode::DriverMissing);
  FakeDevice fake;
  AssembledDevice assembled =
      must(assembleDevice(fake.driver.get(), fakeEnvironment(), {}));
  CHECK(assembled.live);
  CHECK(assembled.model.computeCapability() == 90);
  CHECK(assembled.model.smCount == 132);
  CHECK(originOf(assembled.model, "smCount").source == ValueSource::Driver);
  CHECK_FALSE(assembled.notes.empty()); // there is no NVML
  DeviceSelection second;
  second.ordinal = 1;
  CHECK(codeOf(assembleDevice(fake.driver.get(), fakeEnvironment(), second)) ==
        ErrorCode::InvalidArgument);
}

} // namespace
