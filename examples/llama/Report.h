//===- Report.h - what an engine held, did and waited for -----------------===//
#ifndef KILN_EXAMPLES_LLAMA_REPORT_H
#define KILN_EXAMPLES_LLAMA_REPORT_H

#include "Gpu.h"
#include "Roofline.h"
#include "Runner.h"

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace llama {

/// Bytes of device memory by use: weights, cache, activations, inputs, Kiln's
/// arenas and kernels, graphs; and those that others use, the driver itself
/// and other processes among them.
nlohmann::json memoryReport(const Gpu &gpu, Runner &runner);

/// The calls of Kiln since \p position that waited for longer than
/// \p leastMs, with their reasons, and the position behind them.
nlohmann::json waitsReport(Runner &runner, uint64_t &position, double leastMs);

/// Kiln's counts since \p before: launches, misses, compilations, trials.
nlohmann::json countsReport(Runner &runner,
                            const kiln::Statistics &before = {});

/// The rates of the device, measured now: it reads the weights, by a sum over
/// them, and multiplies a square part of them with itself. A rate is 0 where
/// there is too little of them, or no room for the result. Some 50 ms,
/// and seconds where its two kernels are not in the cache yet.
DeviceRates deviceRates(const Gpu &gpu, Runner &runner);

/// The share of the roofline of the steps that only decode, and that of the
/// steps that compute prompts.
nlohmann::json rooflineReport(const Roofline &roofline,
                              const DeviceRates &rates);
/// The same in sentences.
std::string rooflineText(const nlohmann::json &report);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_REPORT_H
