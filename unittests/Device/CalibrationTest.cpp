#include "Device/Calibration.h"

#include "Device/Catalog.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace kiln;

static DeviceModel anH200() { return llvm::cantFail(findDevice("h200-sxm")); }

static std::string faultOf(const char *key, double value) {
  return implausible(anH200(), {key, value, "some benchmark"});
}

TEST_CASE("a calibrated value goes in front of all but an override") {
  DeviceModel model = anH200();
  llvm::cantFail(setValue(model, *findDeviceField("l2GBs"), 9000.0,
                          ValueSource::Override, "file"));
  std::vector<std::string> notes;
  applyCalibration(model,
                   {"GPU-1",
                    "580",
                    0,
                    {{"dramGBs", 4000, "dram read"},
                     {"l2GBs", 9500, "l2 read"},
                     {"maxClusters4", 31, "clusters"}}},
                   notes);
  CHECK(notes.empty());
  CHECK(model.dramGBs == 4000);
  CHECK(originOf(model, "dramGBs").source == ValueSource::Calibration);
  CHECK(originOf(model, "dramGBs").note == "dram read");
  CHECK(nameOf(ValueSource::Calibration) == "calibration");
  CHECK(model.l2GBs == 9000);
  CHECK(model.maxClusters4 == 31);
  // Records stay valid: none of these fields is in their key.
  CHECK(deviceClassKey(model) == deviceClassKey(anH200()));
  CHECK(planningDigest(model) != planningDigest(anH200()));
}

TEST_CASE("what cannot be right is refused, and says why") {
  CHECK(faultOf("dramGBs", 4290).empty());
  CHECK(faultOf("dramGBs", 5000).find("4814 GB/s of the pins") !=
        std::string::npos);
  CHECK(faultOf("dramGBs", 1300).find("off the 4290 of the catalog") !=
        std::string::npos);
  CHECK(faultOf("launchNs", 2000).find("factor of 3") != std::string::npos);
  CHECK(faultOf("l2GBs", 0).find("positive") != std::string::npos);
  CHECK(faultOf("l2GBs", NAN).find("finite") != std::string::npos);
  CHECK(faultOf("l2GBs", -1).find("negative") != std::string::npos);
  CHECK(faultOf("maxClusters2", 65.5).find("whole") != std::string::npos);
  CHECK(faultOf("smCount", 132).find("not measured") != std::string::npos);
  CHECK(faultOf("nonsense", 1).find("not measured") != std::string::npos);
  DeviceModel a100 = llvm::cantFail(findDevice("a100-sxm4-80gb"));
  CHECK(implausible(a100, {"tensorFp8FlopsPerClock", 4096, ""})
            .find("without that unit") != std::string::npos);

  DeviceModel model = anH200();
  std::vector<std::string> notes;
  applyCalibration(model,
                   {"GPU-1",
                    "580",
                    0,
                    {{"dramGBs", 1, "dram read"}, {"l2GBs", 9500, "l2 read"}}},
                   notes);
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].find("calibration refused: dramGBs: 1 ") == 0);
  CHECK(model.dramGBs == 4290);
  CHECK(model.l2GBs == 9500);
}

TEST_CASE(
    "an override stands, and no value of a calibration is held against it") {
  DeviceModel model = anH200();
  llvm::cantFail(setValue(model, *findDeviceField("dramGBs"), 1000,
                          ValueSource::Override));
  std::vector<std::string> notes;
  applyCalibration(model,
                   {.gpu = "GPU-1", .values = {{"dramGBs", 4290, "dram read"}}},
                   notes);
  CHECK(notes.empty());
  CHECK(model.dramGBs == 1000);
}

TEST_CASE("refused fields keep the value of an earlier calibration") {
  Calibration made{.gpu = "GPU-1",
                   .values = {{"dramGBs", 4200, "dram read"}},
                   .refused = {"l2GBs", "launchNs"}};
  const Calibration earlier{
      .gpu = "GPU-1",
      .values = {{"dramGBs", 4100, "dram read"}, {"l2GBs", 9500, "l2 read"}}};
  Calibration other = made;
  other.gpu = "GPU-2"; // boards are never mixed
  other.keepRefused(earlier);
  CHECK(other.values.size() == 1);
  made.keepRefused(earlier);
  REQUIRE(made.values.size() == 2);
  CHECK(made.values[0].value == 4200);
  CHECK(made.values[1].key == "l2GBs");
}

TEST_CASE("a calibration is JSON, and nothing else is one") {
  const Calibration made{.gpu = "GPU-1",
                         .driver = "580.65.06",
                         .time = 1700000000,
                         .values = {{"dramGBs", 4290.5, "dram read"}},
                         .refused = {"l2GBs"}};
  auto text = [](const Calibration &calibration) {
    std::string text;
    llvm::raw_string_ostream(text) << llvm::json::Value(calibration.toJson());
    return text;
  };
  const Calibration read = llvm::cantFail(Calibration::parse(text(made)));
  CHECK(text(read) == text(made));
  CHECK(read.values[0].value == 4290.5);
  for (const char *bad :
       {"", "[]", "{}", R"({"values":1})", R"({"values":[{"key":"dramGBs"}]})",
        R"({"values":[{"key":"dramGBs","value":"x"}]})"}) {
    CAPTURE(bad);
    auto parsed = Calibration::parse(bad);
    CHECK_FALSE(static_cast<bool>(parsed));
    llvm::consumeError(parsed.takeError());
  }
}

TEST_CASE("every number of the catalog that no driver answers is calibrated") {
  // The rest of the catalog: identity, and answers of the driver and NVML.
  DeviceModel model = anH200();
  forgetCatalog(model);
  for (const DeviceField &field : deviceFields()) {
    CAPTURE(field.key);
    if (model.origins[field.index()].source != ValueSource::Catalog)
      continue;
    const std::vector<llvm::StringRef> answered = {
        "name",       "ccMajor",       "ccMinor",
        "smCount",    "smClockMHz",    "memoryClockMHz",
        "l2Bytes",    "memoryBusBits", "powerLimitWatts",
        "memoryBytes"};
    CHECK(llvm::is_contained(answered, llvm::StringRef(field.key)));
  }
  CHECK(originOf(model, "dramGBs").source == ValueSource::Architecture);
  for (const char *key : calibratedKeys())
    CHECK(findDeviceField(key) != nullptr);
}
