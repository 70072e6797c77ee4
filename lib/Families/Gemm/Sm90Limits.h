//===- Sm90Limits.h - what a config of the wgmma GEMM may not break -------===//
#pragma once

#include "Device/DeviceModel.h"
#include "Families/Gemm/GemmProblem.h"
#include "Kernel/Template.h"
#include "gemm/Sm90GemmConfig.h"

#include <optional>

namespace kiln {

/// Sums that a consumer's thread has registers for beside what the epilogue
/// holds: a chain's values, other splits' sums, and rows that are shifted to an
/// unaligned D, or fragments of the row side. Does not depend on the columns.
int mostAccumulators(const GemmSignature &signature,
                     const Sm90GemmConfig &config);

/// Every split has work, and there is some at all.
std::optional<Rejection> checkSplitWork(const GemmProblem &problem,
                                        const Sm90GemmConfig &config);

/// Splits of a tile wait for each other: all of them run at once.
std::optional<Rejection> checkSplitsRun(const Sm90GemmConfig &config,
                                        const DeviceModel &device);

/// Copies of operands take at most kMaxRepackBytes.
std::optional<Rejection> checkRepack(const GemmProblem &problem,
                                     const GemmSignature &signature,
                                     const Sm90GemmConfig &config);

/// The first limit that \p config breaks, most telling first; none where it may
/// run. \p config may be invalid.
std::optional<Rejection> checkSm90Limits(const GemmProblem &problem,
                                         const GemmSignature &signature,
                                         const Sm90GemmConfig &config,
                                         const DeviceModel &device);

/// TMA's coordinates are ints, and its strides are below 2^40 bytes.
std::optional<Rejection> checkTensorMaps(const GemmProblem &problem,
                                         const GemmSignature &signature);

} // namespace kiln
