//===- ArchitectureRules.h - the rules of a compute capability ------------===//
#pragma once

#include "Device/DeviceModel.h"

#include <cstdint>

namespace kiln {

/// Limits and rates that hold for every GPU of one compute capability. Rates
/// are flops (half a multiply-add) per SM and clock.
struct ArchitectureRules {
  int computeCapability = 0;
  int16_t maxWarpsPerSm = 0, maxBlocksPerSm = 0;
  struct Shared {
    int32_t perSm = 0, perBlock = 0, reservedPerBlock = 0;
  } shared;            ///< bytes
  int32_t l2Bytes = 0; ///< a small product's, when nothing else is known
  struct Tensor {
    int16_t fp64 = 0, tf32 = 0, fp16 = 0, bf16 = 0, fp8 = 0, int8 = 0;
  };
  Tensor tensor;  ///< widest instruction
  Tensor mmaSync; ///< mma.sync
  struct Simd {
    int16_t fp64 = 0, fp32 = 0, fp16 = 0;
  } simd;
  double l2BytesPerClockPerSm = 0; ///< measured L2 read bandwidth
};

/// The rules of \p computeCapability (90 for 9.0), or of the nearest lower
/// known capability, or the oldest ones.
const ArchitectureRules &rulesFor(int computeCapability);

/// Fills what is unset from the rules of the model's compute capability (source
/// Architecture), derived from clocks, SMs and bus as set by then. An unknown
/// capability takes the rules of the nearest older known one; a value that no
/// source knows becomes a Fallback.
void fillFromArchitecture(DeviceModel &model);

/// Fills the unset tensor-core rates of the model's capability. Rates with
/// floating-point accumulation, except fp64, are multiplied by \p share.
void fillTensorRates(DeviceModel &model, double share, ValueSource source,
                     llvm::StringRef note);

} // namespace kiln
