//===- ByteRates.h - what products of one-byte types cost -----------------===//
//
// Which of its tensor core's rates mma.sync runs at, and what the conversion of
// elements to fp16 takes where fp8 has no instruction of its own.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Gemm/GemmProblem.h"
#include "Kernel/Estimate.h"

#include "Device/DeviceModel.h"
#include "gemm/ByteProducts.h"

#include <optional>

namespace kiln {

/// The rate of mma.sync on op(A) and op(B); null or a value of 0 where there is
/// no instruction for them.
double DeviceModel::*mmaSyncRate(const GemmSignature &signature,
                                 const DeviceModel &device);

/// Clocks that a warp keeps its sub-core's units busy to make fp16 of one fp8
/// of \p type in each lane.
double halfClocks(DType type, const DeviceModel &device);

/// The same; 0 where mma.sync takes the type as it is.
double conversionClocks(const GemmSignature &signature, DType type,
                        const DeviceModel &device);

/// Clocks of a warp's sub-core that \p sums a lane and \p scales take where
/// they go on to other sums, after \p depth of k.
double promotionClocks(const GemmSignature &signature, double sums,
                       double scales, double depth, const DeviceModel &device);

/// The limit of sums of int32, of all k.
std::optional<Rejection> checkIntegerSums(const GemmProblem &problem);

/// The limit of block scales, which kernels count in 32 bits.
std::optional<Rejection> checkBlockScales(const GemmProblem &problem);

} // namespace kiln
