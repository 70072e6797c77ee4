//===- Sm90Gemm.cpp - the wgmma template ----------------------------------===//
#include "Families/Gemm/GemmTemplate.h"
#include "Families/Gemm/Sm90Estimate.h"
#include "Families/Gemm/Sm90Limits.h"
#include "Families/Gemm/Sm90Plan.h"
#include "Families/Gemm/Sm90Repack.h"
#include "Families/Gemm/Sm90Space.h"
#include "gemm/Sm90GemmConfig.h"

namespace kiln {

namespace {

class Sm90Gemm final : public GemmTemplate<Sm90GemmConfig, Sm90Kernel> {
public:
  Sm90Gemm()
      : GemmTemplate({"gemm/Sm90Gemm.cuh", "GemmSignature", "Sm90GemmConfig",
                      "Sm90GemmParams", "sm90Gemm", /*archSpecific=*/true}) {}

protected:
  void forEachConfig(const GemmProblem &problem, const DeviceModel &device,
                     Emit<Sm90GemmConfig> emit) const override;
  void forEachVariant(const GemmProblem &problem,
                      const GemmSignature &signature,
                      const Sm90GemmConfig &config, const DeviceModel &device,
                      Emit<Sm90GemmConfig> emit) const override {
    forEachSm90Variant(problem, signature, device, config, emit);
  }
  CandidateClass classOfConfig(const Sm90GemmConfig &config) const override;
  std::optional<Rejection>
  checkLimits(const GemmProblem &problem, const GemmSignature &signature,
              const Sm90GemmConfig &config,
              const DeviceModel &device) const override {
    return checkSm90Limits(problem, signature, config, device);
  }
  Sm90Kernel tileKernel(const GemmSignature &signature,
                        const Sm90GemmConfig &config,
                        const DeviceModel &) const override {
    return {signature, config};
  }
  int64_t copyBytes(const GemmProblem &problem, const GemmSignature &signature,
                    const Sm90GemmConfig &config) const override {
    return repackBytes(problem, signature, config);
  }
  int copySteps(const GemmSignature &signature,
                const Sm90GemmConfig &config) const override {
    return repackSteps(signature, config);
  }
  KernelEntry entryOf(const GemmSignature &signature) const override {
    KernelEntry entry = GemmTemplate::entryOf(signature);
    // Other kernels do without the texts of its instructions.
    if (signature.compute == ComputeMode::TF32)
      entry.header = "gemm/Sm90Tf32Gemm.cuh";
    if (bytesOf(signature.in) == 1)
      entry.header = "gemm/Sm90ByteGemm.cuh";
    return entry;
  }
  void completePlan(const PlannedGemm &planned, const GemmSignature &signature,
                    const Sm90GemmConfig &config, const DeviceModel &device,
                    Plan &plan) const override {
    completeSm90Plan(planned, signature, config, device, plan);
  }
};

} // namespace

void Sm90Gemm::forEachConfig(const GemmProblem &problem,
                             const DeviceModel &device,
                             Emit<Sm90GemmConfig> emit) const {
  if (hasWgmma(device) && Sm90GemmConfig::hasInstruction(signatureOf(problem)))
    forEachSm90Config(problem, signatureOf(problem), device, emit);
}

CandidateClass Sm90Gemm::classOfConfig(const Sm90GemmConfig &c) const {
  return {classKey({1, c.blockM, c.blockN, c.splitK(), c.swapAB, c.pingPong}) *
                  4 +
              static_cast<uint64_t>(c.multicastBlocks()),
          c.splitK()};
}

std::unique_ptr<Template> makeSm90GemmTemplate() {
  return std::make_unique<Sm90Gemm>();
}

} // namespace kiln
