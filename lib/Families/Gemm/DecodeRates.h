//===- DecodeRates.h - what decoding packed weights takes -----------------===//
#pragma once

#include "Device/DeviceModel.h"
#include "gemm/GemmSignature.h"

namespace kiln {

/// Clocks of its sub-core that a warp's decoding of 16 rows and 16 k takes:
/// clocks of the integer pipe, which does half a warp a clock and sets the
/// pace, and of subtractions or factors beside it. Measured on an H200: 62
/// lanes of LOP3 and shifts a clock and SM, 112 of HFMA2. The operations are
/// those of WeightDecoder.cuh for four registers, as ptxas 13.0 has them.
double decodeClocks(const GemmSignature &signature);

/// The same for kernels that use the bits of int4 where they lie
/// (PackedGemv.cuh).
double bitClocks(const GemmSignature &signature);

/// The rate of mma.sync, which multiplies, a value of the device.
double DeviceModel::*packedRate(const GemmSignature &signature);

/// Bytes of a packed weight, its own and its part of a scale and a zero point,
/// in those of an element of A.
double packedShare(const GemmSignature &signature);

} // namespace kiln
