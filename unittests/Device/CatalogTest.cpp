#include "Device/Catalog.h"
#include "Device/ArchitectureRules.h"

#include "Support/Error.h"
#include "Support/Json.h"

#include <doctest/doctest.h>

using namespace kiln;

TEST_CASE("every catalog entry is a complete model") {
  for (llvm::StringRef name : catalogNames()) {
    CAPTURE(name.str());
    DeviceModel model = llvm::cantFail(findDevice(name));
    CHECK(model.name == name);
    for (const DeviceField &field : deviceFields()) {
      CAPTURE(field.key);
      ValueSource source = originOf(model, field.key).source;
      llvm::StringRef key = field.key;
      if (key == "uuid" || key == "migProfile")
        CHECK(source == ValueSource::Unset);
      else
        CHECK((source == ValueSource::Catalog ||
               source == ValueSource::Architecture));
    }
    CHECK(model.dramGBs < model.dramPeakBytesPerNs());
    CHECK(model.mmaSyncFp16FlopsPerClock <= model.tensorFp16FlopsPerClock);
    CHECK(model.sharedBytesPerBlock + model.sharedBytesReservedPerBlock <=
          model.sharedBytesPerSm);
  }
}

TEST_CASE("the catalog agrees with the classic model's devices") {
  auto golden = llvm::cantFail(readJsonFile(
      KILN_SOURCE_DIR "/unittests/Tools/golden/matmul_perf_model.json"));
  const llvm::json::Object &devices =
      *golden.getAsObject()->getObject("devices");
  CHECK(devices.size() == 4);
  for (const auto &[name, value] : devices) {
    const llvm::json::Object &expected = *value.getAsObject();
    CAPTURE(llvm::StringRef(name).str());
    DeviceModel model = llvm::cantFail(findDevice(name));
    const llvm::json::Array &cc = *expected.getArray("cc");
    CHECK(model.ccMajor == *cc[0].getAsInteger());
    CHECK(model.ccMinor == *cc[1].getAsInteger());
    CHECK(model.smCount == *expected.getInteger("sms"));
    CHECK(model.smClockMHz * 1000 == *expected.getNumber("sm_clock_khz"));
    CHECK(model.memoryClockMHz * 1000 == *expected.getNumber("mem_clock_khz"));
    CHECK(model.memoryBusBits == *expected.getInteger("bus_bits"));
    CHECK(model.sharedBytesPerBlock == *expected.getInteger("max_smem"));
  }
}

TEST_CASE("peaks of data sheets") {
  struct Sheet {
    const char *name;
    RateType type;
    double tflops;
  };
  // Dense tensor-core TF at boost clock.
  for (const Sheet &sheet :
       {Sheet{"a100-sxm4-80gb", RateType::BF16, 312},
        Sheet{"a100-sxm4-80gb", RateType::TF32, 156},
        Sheet{"a10", RateType::FP16, 125}, Sheet{"l40s", RateType::FP8, 733},
        Sheet{"rtx-4090", RateType::FP16, 165.2},
        Sheet{"rtx-4090", RateType::INT8, 660.6},
        Sheet{"rtx-5090", RateType::FP16, 209.5},
        Sheet{"b300-sxm", RateType::BF16, 2464},
        Sheet{"b300-sxm", RateType::INT8, 154},
        Sheet{"gb10", RateType::FP16, 59.4},
        Sheet{"v100-sxm2", RateType::FP16, 125},
        Sheet{"t4", RateType::FP16, 65}}) {
    CAPTURE(sheet.name);
    DeviceModel model = llvm::cantFail(findDevice(sheet.name));
    double teraclocks =
        static_cast<double>(model.smCount) * model.smClockMHz * 1e-6;
    CHECK(model.*tensorRateOf(sheet.type) * teraclocks ==
          doctest::Approx(sheet.tflops).epsilon(0.015));
  }
}

TEST_CASE("what follows from an odd override stays within its range") {
  // Rounded, or multiplied, these would leave the range of derived fields.
  for (const char *text :
       {R"({"memoryClockMHz": 1e-6})", R"({"smClockMHz": 1e9})",
        R"({"smClockMHz": 1e-6, "smCount": 1048576})",
        R"({"smClockMHz": 1e9, "smCount": 1048576})"}) {
    CAPTURE(text);
    DeviceModel model;
    auto json = llvm::cantFail(parseJson(text, "test"));
    REQUIRE(!applyJson(model, json, "test", ValueSource::Override));
    fillFromArchitecture(model);
    for (const DeviceField &field : deviceFields()) {
      CAPTURE(field.key);
      DeviceModel copy;
      if (originOf(model, field.key).source != ValueSource::Unset)
        CHECK(!setValue(copy, field, field.valueOf(model),
                        ValueSource::Override));
    }
  }
}

TEST_CASE("an unknown name lists the known ones") {
  std::string message = summarize(findDevice("h300").takeError()).message;
  CHECK(message.find("unknown device 'h300'") != std::string::npos);
  CHECK(message.find("h200-sxm") != std::string::npos);
  CHECK(message.find("t4") != std::string::npos);
}

TEST_CASE("live GPUs are matched by name, then by PCI id") {
  auto matched = [](llvm::StringRef name, uint32_t id) {
    const CatalogEntry *entry = matchLiveDevice(name, id);
    return std::string(entry ? entry->name : "none");
  };
  CHECK(matched("NVIDIA H200", 0) == "h200-sxm");
  CHECK(matched("NVIDIA H200 MIG 1g.18gb", 0) == "h200-sxm");
  CHECK(matched("NVIDIA H100 80GB HBM3", 0) == "h100-sxm");
  CHECK(matched("Tesla V100-SXM2-32GB", 0) == "v100-sxm2");
  CHECK(matched("NVIDIA A10", 0) == "a10");
  CHECK(matched("Graphics Device", 0x2335) == "h200-sxm");
  CHECK(matched("NVIDIA H200 NVL", 0) == "none");
  CHECK(matched("", 0) == "none");
}

TEST_CASE("rules of an unknown capability are the next older one's") {
  CHECK(rulesFor(90).computeCapability == 90);
  CHECK(rulesFor(87).computeCapability == 86);
  CHECK(rulesFor(101).computeCapability == 100);
  CHECK(rulesFor(110).computeCapability == 103);
  CHECK(rulesFor(30).computeCapability == 70);
}

TEST_CASE("each architecture that NVRTC 13 compiles for has a GPU or rules") {
  for (const auto &[name, arch] :
       {std::pair("b300-sxm", "sm_103"), std::pair("gb10", "sm_121")}) {
    CAPTURE(name);
    CHECK(llvm::cantFail(findDevice(name)).archName() == arch);
  }
  CHECK(matchLiveDevice("NVIDIA B300 SXM6 AC", 0));
  CHECK(matchLiveDevice("NVIDIA GB10", 0));
  // LPDDR5X of 273 GB/s, of which kernels get what they get elsewhere.
  DeviceModel gb10 = llvm::cantFail(findDevice("gb10"));
  CHECK(gb10.dramPeakBytesPerNs() == doctest::Approx(273).epsilon(0.001));
  CHECK(gb10.dramGBs == doctest::Approx(0.89 * 273).epsilon(0.01));
}
