//===- Benchmarks.cpp - the micro-benchmarks of a GPU ---------------------===//
#include "calibrate/Benchmarks.h"

namespace kiln::cli {

std::vector<Benchmark> allBenchmarks(Rig &rig) {
  std::vector<Benchmark> benchmarks;
  addMemoryBenchmarks(rig, benchmarks);
  addRateBenchmarks(rig, benchmarks);
  return benchmarks;
}

llvm::Expected<bool> isShared(Rig &rig) {
  constexpr int kReadings = 1 << 21;
  constexpr long long kTurnClocks = 100000; // of some 40 between readings
  if (llvm::Error error =
          rig.start("kilnWatch", {1, 32},
                    calibrate::RateParams{kReadings, rig.spans(), rig.sink()}))
    return error;
  auto spans = rig.readSpans(1);
  if (!spans)
    return spans.takeError();
  return spans->front().endClock > kTurnClocks;
}

} // namespace kiln::cli
