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

double DeviceModel::tensorFlopsPerClockPerSm(RateType type) const {
  switch (type) {
  case RateType::FP64:
    return tensorFp64FlopsPerClock;
  case RateType::TF32:
    return tensorTf32FlopsPerClock;
  case RateType::FP16:
    return tensorFp16FlopsPerClock;
  case RateType::BF16:
    return tensorBf16FlopsPerClock;
  case RateType::FP8:
    return tensorFp8FlopsPerClock;
  case RateType::INT8:
    return tensorInt8FlopsPerClock;
  case RateType::FP32:
  case RateType::INT32:
    return 0;
  }
  return 0;
}

double DeviceModel::mmaSyncFlopsPerClockPerSm(RateType type) const {
  switch (type) {
  case RateType::FP64:
    return mmaSyncFp64FlopsPerClock;
  case RateType::TF32:
    return mmaSyncTf32FlopsPerClock;
  case RateType::FP16:
    return mmaSyncFp16FlopsPerClock;
  case RateType::BF16:
    return mmaSyncBf16FlopsPerClock;
  case RateType::FP8:
    return mmaSyncFp8FlopsPerClock;
  case RateType::INT8:
    return mmaSyncInt8FlopsPerClock;
  case RateType::FP32:
  case RateType::INT32:
    return 0;
  }
  return 0;
}

double DeviceModel::simdFlopsPerClockPerSm(RateType type) const {
  switch (type) {
  case RateType::FP64:
    return simdFp64FlopsPerClock;
  case RateType::FP16:
  case RateType::BF16:
    return simdFp16FlopsPerClock;
  case RateType::INT8:
  case RateType::INT32:
    return simdInt32FlopsPerClock;
  // tf32 and fp8 data are converted and computed in fp32 without tensor cores.
  case RateType::FP32:
  case RateType::TF32:
  case RateType::FP8:
    return simdFp32FlopsPerClock;
  }
  return 0;
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
