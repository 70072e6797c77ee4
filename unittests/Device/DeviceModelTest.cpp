#include "Device/DeviceModel.h"
#include "Device/Catalog.h"

#include "Support/Error.h"
#include "Support/Json.h"

#include <doctest/doctest.h>

#include <limits>
#include <set>

using namespace kiln;

static DeviceModel h200() { return llvm::cantFail(findDevice("h200-sxm")); }

/// Message of applying \p text as an override, "" for success.
static std::string faultOf(llvm::StringRef text) {
  DeviceModel model = h200();
  auto json = llvm::cantFail(parseJson(text, "test"));
  return summarize(applyJson(model, json, "my.json", ValueSource::Override))
      .message;
}

TEST_CASE("the peak is that of a unit that computes with the type") {
  const DeviceModel turing = llvm::cantFail(findDevice("t4"));
  CHECK(peakRateOf(turing, RateType::FP16) == tensorRateOf(RateType::FP16));
  CHECK(peakRateOf(turing, RateType::BF16) ==
        &DeviceModel::simdFp32FlopsPerClock);
  const DeviceModel ampere = llvm::cantFail(findDevice("a100-sxm4-40gb"));
  CHECK(peakRateOf(ampere, RateType::BF16) == tensorRateOf(RateType::BF16));
  CHECK(peakRateOf(ampere, RateType::FP8) == tensorRateOf(RateType::FP16));
  CHECK(peakRateOf(ampere, RateType::FP32) ==
        &DeviceModel::simdFp32FlopsPerClock);
}

TEST_CASE("peak rates agree with the data sheet") {
  DeviceModel model = h200();
  // 132 SMs * 1.98 GHz * 4096 = 1070.5 TF at the maximum clock; the data
  // sheet's 989 is at 1.83 GHz.
  CHECK(model.*tensorRateOf(RateType::BF16) == 4096);
  CHECK(model.*tensorRateOf(RateType::FP8) == 2 * 4096);
  CHECK(tensorRateOf(RateType::FP32) == nullptr);
  CHECK(model.*mmaSyncRateOf(RateType::BF16) / 4096 ==
        doctest::Approx(0.654).epsilon(0.001));
  // mma.sync converts fp8 to fp16 on 9.0.
  CHECK(model.*mmaSyncRateOf(RateType::FP8) ==
        model.*mmaSyncRateOf(RateType::FP16));
  // 66.9 TF fp32, 4.8 TB/s.
  CHECK(model.*simdRateOf(RateType::FP32) * 132 * 1.98 ==
        doctest::Approx(66908).epsilon(0.001));
  CHECK(model.dramPeakBytesPerNs() == doctest::Approx(4814.3).epsilon(0.001));
}

TEST_CASE("architecture names") {
  DeviceModel model = h200();
  CHECK(model.computeCapability() == 90);
  CHECK(model.archName() == "sm_90");
  CHECK(model.archName(true) == "sm_90a");
  model.ccMajor = 8;
  CHECK(model.archName(true) == "sm_80");
  model.ccMajor = 12;
  CHECK(model.archName(true) == "sm_120a");
}

TEST_CASE("rate types of data types") {
  CHECK(rateTypeOf(DType::FP32, ComputeMode::Native) == RateType::FP32);
  CHECK(rateTypeOf(DType::FP32, ComputeMode::TF32) == RateType::TF32);
  CHECK(rateTypeOf(DType::E5M2, ComputeMode::Native) == RateType::FP8);
}

TEST_CASE("keys of the field table are unique and indexed") {
  std::set<std::string> keys;
  for (const DeviceField &field : deviceFields()) {
    CHECK(keys.insert(field.key).second);
    CHECK(findDeviceField(field.key) == &field);
    CHECK(&deviceFields()[field.index()] == &field);
  }
  CHECK(findDeviceField("smcount") == nullptr);
}

TEST_CASE("JSON goes out and comes back") {
  DeviceModel model = h200();
  model.smClockMHz = 1725.5;
  DeviceModel read;
  llvm::json::Value json(toJson(model));
  REQUIRE(summarize(applyJson(read, json, "x", ValueSource::Override)).code ==
          ErrorCode::Success);
  for (const DeviceField &field : deviceFields())
    CHECK(field.valueOf(read) == field.valueOf(model));
  CHECK(originOf(read, "smCount").source == ValueSource::Override);
  // Unset values stay unset.
  CHECK(originOf(read, "uuid").source == ValueSource::Unset);
}

TEST_CASE("a bad override names file and key") {
  CHECK(faultOf(R"({"smCount": 66, "smClockMHz": {"value": 1.5e3}})") == "");
  CHECK(faultOf(R"({"smcount": 1})") == "my.json: smcount: unknown key");
  CHECK(faultOf(R"({"dramGBs": -1})") == "my.json: dramGBs: -1 is negative");
  CHECK(faultOf(R"({"smCount": 1.5})") ==
        "my.json: smCount: 1.5 is not a whole number");
  CHECK(faultOf(R"({"smCount": 0})") ==
        "my.json: smCount: 0 is not allowed, it must be positive");
  CHECK(faultOf(R"({"maxClusters2": 0})") == "");
  CHECK(faultOf(R"({"smCount": "many"})") ==
        "my.json: smCount: expected a number");
  CHECK(faultOf(R"({"name": 3})") == "my.json: name: expected a string");
  CHECK(faultOf(R"({"smCount": null})") ==
        "my.json: smCount: expected a number or a string");
  CHECK(faultOf(R"({"smClockMHz": {"value": 1, "unit": "GHz"}})") ==
        "my.json: smClockMHz: unit 'GHz', expected 'MHz'");
  CHECK(faultOf(R"({"smCount": 9223372036854775807})") ==
        "my.json: smCount: 9.223372036854776e+18 is above 1048576");
  CHECK(faultOf(R"({"l2GBs": 1e300})") ==
        "my.json: l2GBs: 1e+300 is above 1000000000");
  CHECK(faultOf(R"({"smClockMHz": 1e-300})") ==
        "my.json: smClockMHz: 1e-300 is below 1e-06");
  CHECK(faultOf("[1]") == "my.json: expected an object of device values");
}

TEST_CASE("values that are no numbers are refused") {
  DeviceModel model = h200();
  for (double bad : {std::numeric_limits<double>::quiet_NaN(),
                     std::numeric_limits<double>::infinity()})
    CHECK(summarize(setValue(model, *findDeviceField("dramGBs"), bad,
                             ValueSource::Override))
              .code == ErrorCode::InvalidArgument);
  CHECK(model.dramGBs == 4290);
}

TEST_CASE("a refused override changes nothing") {
  DeviceModel model = h200();
  auto json = llvm::cantFail(parseJson(R"({"l2GBs": 5, "zzz": 1})", "test"));
  CHECK(summarize(applyJson(model, json, "x", ValueSource::Override)).code ==
        ErrorCode::InvalidArgument);
  CHECK(model.l2GBs == 10000);
}

TEST_CASE("the device class tells boards apart by what changes speed") {
  DeviceModel model = h200();
  CHECK(deviceClassKey(model) == "h200-sxm cc=9.0 sms=132 l2=62914560 "
                                 "mem=3201x6016 mig=none power=700");
  DeviceModel slice = model;
  slice.migProfile = "1g.18gb";
  CHECK(deviceClassKey(slice) != deviceClassKey(model));
  DeviceModel other = model;
  other.uuid = "GPU-1";
  other.dramGBs = 1;
  CHECK(deviceClassKey(other) == deviceClassKey(model));
}
