//===- DeviceModel.cpp - rates and derived values -------------------------===//
#include "Device/DeviceModel.h"

#include "Support/EnumName.h"
#include "Support/Format.h"

#include <cassert>

namespace kiln {

llvm::StringRef nameOf(ValueSource source) {
  using enum ValueSource;
  static constexpr EnumName<ValueSource> kNames[] = {
      {Unset, "unset"},
      {Fallback, "fallback"},
      {Architecture, "architecture"},
      {Catalog, "catalog"},
      {Nvml, "nvml"},
      {Driver, "driver"},
      {Calibration, "calibration"},
      {Override, "override"}};
  return nameIn(kNames, source, "unknown");
}

RateType rateTypeOf(DType type, ComputeMode mode) {
  switch (type) {
  case DType::FP64:
    return RateType::FP64;
  case DType::FP32:
    return mode == ComputeMode::TF32 ? RateType::TF32 : RateType::FP32;
  case DType::INT32:
    return RateType::INT32;
  case DType::FP16:
    return RateType::FP16;
  case DType::BF16:
    return RateType::BF16;
  case DType::E4M3:
  case DType::E5M2:
    return RateType::FP8;
  case DType::INT8:
    return RateType::INT8;
  case DType::None:
  case DType::INT64:
  case DType::E8M0:
  case DType::E2M1:
  case DType::INT4:
  case DType::UINT4:
    break;
  }
  assert(false && "a DType without a rate");
  return RateType::FP32;
}

std::string DeviceModel::archName(bool archSpecific) const {
  bool hasVariant = archSpecific && ccMajor >= 9;
  return fmt::format("sm_{}{}", computeCapability(), hasVariant ? "a" : "");
}

double DeviceModel::*tensorRateOf(RateType type) {
  switch (type) {
  case RateType::FP64:
    return &DeviceModel::tensorFp64FlopsPerClock;
  case RateType::TF32:
    return &DeviceModel::tensorTf32FlopsPerClock;
  case RateType::FP16:
    return &DeviceModel::tensorFp16FlopsPerClock;
  case RateType::BF16:
    return &DeviceModel::tensorBf16FlopsPerClock;
  case RateType::FP8:
    return &DeviceModel::tensorFp8FlopsPerClock;
  case RateType::INT8:
    return &DeviceModel::tensorInt8FlopsPerClock;
  case RateType::FP32:
  case RateType::INT32:
    return nullptr;
  }
  return nullptr;
}

double DeviceModel::*mmaSyncRateOf(RateType type) {
  switch (type) {
  case RateType::FP64:
    return &DeviceModel::mmaSyncFp64FlopsPerClock;
  case RateType::TF32:
    return &DeviceModel::mmaSyncTf32FlopsPerClock;
  case RateType::FP16:
    return &DeviceModel::mmaSyncFp16FlopsPerClock;
  case RateType::BF16:
    return &DeviceModel::mmaSyncBf16FlopsPerClock;
  case RateType::FP8:
    return &DeviceModel::mmaSyncFp8FlopsPerClock;
  case RateType::INT8:
    return &DeviceModel::mmaSyncInt8FlopsPerClock;
  case RateType::FP32:
  case RateType::INT32:
    return nullptr;
  }
  return nullptr;
}

double DeviceModel::*simdRateOf(RateType type) {
  switch (type) {
  case RateType::FP64:
    return &DeviceModel::simdFp64FlopsPerClock;
  case RateType::FP16:
  case RateType::BF16:
    return &DeviceModel::simdFp16FlopsPerClock;
  case RateType::INT8:
  case RateType::INT32:
    return &DeviceModel::simdInt32FlopsPerClock;
  // tf32 and fp8 data are converted and computed in fp32 without tensor cores.
  case RateType::FP32:
  case RateType::TF32:
  case RateType::FP8:
    return &DeviceModel::simdFp32FlopsPerClock;
  }
  return nullptr;
}

bool hasRate(const DeviceModel &device, double DeviceModel::*rate) {
  return rate && device.*rate > 0;
}

double DeviceModel::*peakRateOf(const DeviceModel &device, RateType type) {
  constexpr int kFirstBf16 = 8; // before, it is computed as fp32
  if (type == RateType::BF16 && device.ccMajor < kFirstBf16)
    type = RateType::FP32;
  for (double DeviceModel::*rate :
       {tensorRateOf(type),
        type == RateType::FP8 ? tensorRateOf(RateType::FP16) : nullptr,
        simdRateOf(type)})
    if (hasRate(device, rate))
      return rate;
  return nullptr;
}

int64_t DeviceModel::maxClusters(int64_t size) const {
  switch (size) {
  case 1:
    return smCount;
  case 2:
    return maxClusters2;
  case 4:
    return maxClusters4;
  case 8:
    return maxClusters8;
  default:
    return 0;
  }
}

std::string deviceClassKey(const DeviceModel &model) {
  return fmt::format(
      "{} cc={}.{} sms={} l2={} mem={:.0f}x{} mig={} power={:.0f}", model.name,
      model.ccMajor, model.ccMinor, model.smCount, model.l2Bytes,
      model.memoryClockMHz, model.memoryBusBits,
      model.migProfile.empty() ? "none" : model.migProfile,
      model.powerLimitWatts);
}

} // namespace kiln
