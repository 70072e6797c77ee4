//===- TileDerivation.cpp -------------------------------------------------===//
#include "Families/Gemm/TileDerivation.h"

#include "Model/Intensity.h"
#include "Support/Format.h"

namespace kiln {

DerivationStep explainLatency(const Pipeline &ring, double exposedNs) {
  return {
      "latency wall",
      fmt::format("S_min = ceil(({:.0f} + {:.0f} ns) / {:.0f} ns) + 1 = {}",
                  ring.latencyNs, ring.loadNs, ring.mathNs, ring.stagesNeeded),
      fmt::format("{} stages: {}", ring.stages,
                  exposedNs > 0
                      ? fmt::format("{:.0f} ns a step stay exposed", exposedNs)
                      : "latency is hidden"),
      llvm::json::Object{{"stages_needed", ring.stagesNeeded},
                         {"stages", ring.stages},
                         {"exposed_ns", exposedNs}}};
}

static DerivationStep explainIntensity(llvm::StringRef title,
                                       const Intensity &intensity,
                                       llvm::StringRef memory) {
  return {title.str(),
          fmt::format("{:.4g} flop / {:.4g} B = {:.1f} flop/B, ridge {:.1f}",
                      intensity.flops, intensity.bytes, intensity.flopsPerByte,
                      intensity.ridge),
          intensity.computeBound ? "the arithmetic is the limit"
                                 : fmt::format("{} is the limit", memory),
          llvm::json::Object{{"flops_per_byte", intensity.flopsPerByte},
                             {"ridge", intensity.ridge}}};
}

void explainIntensities(const GemmProblem &problem, int64_t rows,
                        int64_t columns, double peakFlopsPerNs,
                        const DeviceModel &device, Derivation &steps) {
  int bits = bitsOf(problem.dtype);
  steps.push_back(
      explainIntensity("intensity of the tile",
                       tileIntensity(rows, columns, bits, bits, peakFlopsPerNs,
                                     device.l2BytesPerNs()),
                       "L2"));
  steps.push_back(explainIntensity(
      "intensity of the problem",
      problemIntensity({problem.m, problem.n, problem.k, problem.batch, bits,
                        bits, bitsOf(problem.out)},
                       peakFlopsPerNs, device.dramBytesPerNs()),
      "DRAM"));
}

} // namespace kiln
