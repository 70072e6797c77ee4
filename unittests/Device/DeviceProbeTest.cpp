#include "Device/DeviceProbe.h"

#include "Support/Error.h"

#include <doctest/doctest.h>
#include <llvm/ADT/SmallString.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>

using namespace kiln;

/// The answers of an H200 under a driver that still knows clocks.
static ProbedAttributes h200Answers() {
  ProbedAttributes probed;
  probed.marketingName = "NVIDIA H200";
  probed.uuid = "GPU-12";
  probed.ccMajor = 9;
  probed.ccMinor = 0;
  probed.smCount = 132;
  probed.smClockKHz = 1980000;
  probed.memoryClockKHz = 3201000;
  probed.memoryBusBits = 6016;
  probed.memoryBytes = 150754820096;
  probed.l2Bytes = 62914560;
  probed.sharedBytesPerSm = 233472;
  probed.sharedBytesPerBlockOptin = 232448;
  probed.sharedBytesReservedPerBlock = 1024;
  probed.registersPerSm = 65536;
  probed.maxThreadsPerSm = 2048;
  probed.maxThreadsPerBlock = 1024;
  probed.maxBlocksPerSm = 32;
  probed.warpSize = 32;
  probed.powerLimitWatts = 700;
  return probed;
}

/// A file with \p text that is removed at the end of the test.
struct ScratchFile {
  llvm::SmallString<128> path;

  explicit ScratchFile(llvm::StringRef text) {
    int fd = -1;
    REQUIRE(!llvm::sys::fs::createTemporaryFile("device", "json", fd, path));
    llvm::raw_fd_ostream(fd, /*shouldClose=*/true) << text;
  }
  ~ScratchFile() { llvm::sys::fs::remove(path); }
};

TEST_CASE("a live H200 is its catalog entry with the driver's figures") {
  std::vector<std::string> notes;
  DeviceModel model =
      llvm::cantFail(assembleDeviceModel(h200Answers(), {}, notes));
  CHECK(notes.empty());
  CHECK(model.name == "h200-sxm");
  CHECK(model.uuid == "GPU-12");
  CHECK(model.maxWarpsPerSm == 64);
  CHECK(originOf(model, "smCount").source == ValueSource::Driver);
  CHECK(originOf(model, "powerLimitWatts").source == ValueSource::Nvml);
  CHECK(originOf(model, "l2GBs").source == ValueSource::Catalog);
  CHECK(originOf(model, "tensorBf16FlopsPerClock").source ==
        ValueSource::Architecture);
  CHECK(model.dramGBs == 4290);
}

TEST_CASE("clocks fall back from driver to NVML to catalog") {
  ProbedAttributes probed = h200Answers();
  probed.smClockKHz = 0;
  probed.nvmlSmClockMHz = 1970;
  probed.memoryClockKHz.reset();
  std::vector<std::string> notes;
  DeviceModel model = llvm::cantFail(assembleDeviceModel(probed, {}, notes));
  CHECK(model.smClockMHz == 1970);
  CHECK(originOf(model, "smClockMHz").source == ValueSource::Nvml);
  CHECK(model.memoryClockMHz == 3201);
  CHECK(originOf(model, "memoryClockMHz").source == ValueSource::Catalog);
  REQUIRE(notes.size() == 1);
  CHECK(notes[0] == "memoryClockMHz: no answer from nvml max memory clock");
}

TEST_CASE("an unknown GPU gets the rules of its architecture") {
  ProbedAttributes probed;
  probed.marketingName = "NVIDIA RTX A6000";
  probed.ccMajor = 8;
  probed.ccMinor = 6;
  probed.smCount = 84;
  probed.smClockKHz = 1800000;
  std::vector<std::string> notes;
  DeviceModel model = llvm::cantFail(assembleDeviceModel(probed, {}, notes));
  CHECK(model.name == "nvidia-rtx-a6000");
  CHECK(model.sharedBytesPerBlock == 101376);
  CHECK(originOf(model, "sharedBytesPerBlock").source ==
        ValueSource::Architecture);
  CHECK(originOf(model, "memoryBusBits").source == ValueSource::Fallback);
  CHECK(model.maxClusters2 == 0);
}

TEST_CASE("an unknown GeForce has half the tensor rate") {
  ProbedAttributes probed;
  probed.marketingName = "NVIDIA GeForce RTX 3090";
  probed.ccMajor = 8;
  probed.ccMinor = 6;
  std::vector<std::string> notes;
  DeviceModel model = llvm::cantFail(assembleDeviceModel(probed, {}, notes));
  CHECK(model.tensorFp16FlopsPerClock == 512);
  CHECK(model.mmaSyncTf32FlopsPerClock == 256);
  CHECK(model.tensorInt8FlopsPerClock == 2048);
}

TEST_CASE("nothing at all still gives a usable model, and says so") {
  ProbedAttributes probed;
  probed.failures = {"nvml: libnvidia-ml.so.1 not found"};
  probed.smCount = -3;
  std::vector<std::string> notes;
  DeviceModel model = llvm::cantFail(assembleDeviceModel(probed, {}, notes));
  CHECK(model.name == "unknown");
  CHECK(model.smCount > 0);
  CHECK(model.dramGBs > 0);
  CHECK(notes.front() == "nvml: libnvidia-ml.so.1 not found");
  CHECK(std::find(notes.begin(), notes.end(),
                  "smCount: -3 is negative (driver multiprocessor count)") !=
        notes.end());
}

TEST_CASE("a MIG slice gets neither the chip's bandwidth nor its clusters") {
  ProbedAttributes probed = h200Answers();
  probed.marketingName = "NVIDIA H200 MIG 1g.18gb";
  probed.migProfile = "1g.18gb";
  probed.smCount = 16;
  probed.memoryBusBits = 752;
  std::vector<std::string> notes;
  DeviceModel model = llvm::cantFail(assembleDeviceModel(probed, {}, notes));
  CHECK(model.name == "h200-sxm");
  CHECK(model.migProfile == "1g.18gb");
  CHECK(model.dramGBs < 700);
  CHECK(model.maxClusters2 == 8);
}

TEST_CASE("an override beats driver and catalog") {
  ScratchFile preferred(R"({"dramGBs": 4000, "smCount": 100})");
  std::vector<std::string> notes;
  DeviceModel model =
      llvm::cantFail(assembleDeviceModel(h200Answers(), preferred.path, notes));
  CHECK(notes.empty());
  CHECK(model.dramGBs == 4000);
  CHECK(originOf(model, "dramGBs").source == ValueSource::Override);
  CHECK(model.smCount == 100);
}

TEST_CASE("a bad override is an error") {
  ScratchFile bad(R"({"dramGBs": "fast"})");
  std::string path = bad.path.c_str();
  std::vector<std::string> notes;
  auto model = assembleDeviceModel(h200Answers(), path, notes);
  REQUIRE(!model);
  CHECK(summarize(model.takeError()).message ==
        path + ": dramGBs: expected a number");
  auto missing = assembleDeviceModel(h200Answers(), path + ".missing", notes);
  CHECK(!missing);
  llvm::consumeError(missing.takeError());
  CHECK(notes.empty());
}
