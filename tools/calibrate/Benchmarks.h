//===- Benchmarks.h - the micro-benchmarks of a GPU -----------------------===//
#pragma once

#include "calibrate/Judge.h"
#include "calibrate/Rig.h"

#include <vector>

namespace kiln::cli {

/// Factors of the estimates were fitted on an H200 with the catalog's numbers,
/// of which some are those of other programs, and some rough. Such a field has
/// its value in the measure of the catalog: times the ratio of the catalog's
/// number to the one that the benchmark measures on an H200 (driver 580).
namespace fitted {
inline constexpr double kDramRead = 4290.0 / 4600;
inline constexpr double kDramWrite = 3400.0 / 4410;
inline constexpr double kDramLatency = 288.0 / 330;
inline constexpr double kL2Latency = 131.0 / 142;
inline constexpr double kLaunch = 620.0 / 570;
inline constexpr double kRamp = 1000.0 / 1270;
} // namespace fitted

/// All benchmarks for the device of \p rig, which must outlive them; at most
/// 15, together some 10 s.
std::vector<Benchmark> allBenchmarks(Rig &rig);

/// Whether work of another context takes turns with this one's on the device,
/// as seen during some 30 ms. (Kernels of a benchmark are so short that most
/// run within a turn, but find another's data in the caches.)
llvm::Expected<bool> isShared(Rig &rig);

/// The benchmarks of memory, and of rates and clocks; private to this folder.
void addMemoryBenchmarks(Rig &rig, std::vector<Benchmark> &benchmarks);
void addRateBenchmarks(Rig &rig, std::vector<Benchmark> &benchmarks);

} // namespace kiln::cli
