//===- Report.h - what an engine held, did and waited for -----------------===//
#ifndef KILN_EXAMPLES_LLAMA_REPORT_H
#define KILN_EXAMPLES_LLAMA_REPORT_H

#include "Gpu.h"
#include "Runner.h"

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

namespace llama {

/// Bytes of device memory by use: weights, cache, activations, inputs, Kiln's
/// arenas and kernels, graphs.
nlohmann::json memoryReport(const Gpu &gpu, Runner &runner);

/// The calls of Kiln since \p position that waited for longer than
/// \p leastMs, with their reasons, and the position behind them.
nlohmann::json waitsReport(Runner &runner, uint64_t &position, double leastMs);

/// Kiln's counts since \p before: launches, misses, compilations, trials.
nlohmann::json countsReport(Runner &runner,
                            const kiln::Statistics &before = {});

/// Bytes a nanosecond at which the weights are read, by a sum over them.
double readRate(const Gpu &gpu, Runner &runner);

/// Bytes that a decoding step reads: weights once, and keys and values.
double stepBytes(const Runner &runner, int64_t sequences, double keys);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_REPORT_H
