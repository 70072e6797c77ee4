//===- Sm90PackedGemm.cpp - packed weights through wgmma ------------------===//
#include "Families/Gemm/GemmTemplate.h"
#include "Families/Gemm/Sm90Estimate.h"
#include "Families/Gemm/Sm90Limits.h"
#include "Families/Gemm/Sm90PackedSpace.h"
#include "Families/Gemm/Sm90Plan.h"
#include "Families/Gemm/Sm90Repack.h"
#include "gemm/Sm90PackedConfig.h"

namespace kiln {

namespace {

class Sm90PackedGemm final : public GemmTemplate<Sm90PackedConfig, Sm90Kernel> {
public:
  Sm90PackedGemm()
      : GemmTemplate({"gemm/Sm90PackedGemm.cuh", "GemmSignature",
                      "Sm90PackedConfig", "Sm90GemmParams", "sm90PackedGemm",
                      /*archSpecific=*/true}) {}

protected:
  void forEachVariant(const GemmProblem &problem,
                      const GemmSignature &signature,
                      const Sm90PackedConfig &config, const DeviceModel &device,
                      Emit<Sm90PackedConfig> emit) const override {
    forEachSm90PackedVariant(problem, config, emit);
  }
  void forEachConfig(const GemmProblem &problem, const DeviceModel &device,
                     Emit<Sm90PackedConfig> emit) const override;
  CandidateClass classOfConfig(const Sm90PackedConfig &config) const override;
  std::optional<Rejection>
  checkLimits(const GemmProblem &problem, const GemmSignature &signature,
              const Sm90PackedConfig &config,
              const DeviceModel &device) const override;
  Sm90Kernel tileKernel(const GemmSignature &signature,
                        const Sm90PackedConfig &config,
                        const DeviceModel &) const override {
    return {signature, config.frame()};
  }
  int64_t copyBytes(const GemmProblem &problem, const GemmSignature &signature,
                    const Sm90PackedConfig &config) const override {
    return repackBytes(problem, signature, config.frame());
  }
  int copySteps(const GemmSignature &signature,
                const Sm90PackedConfig &config) const override {
    return repackSteps(signature, config.frame());
  }
  void completePlan(const PlannedGemm &planned, const GemmSignature &signature,
                    const Sm90PackedConfig &config, const DeviceModel &device,
                    Plan &plan) const override {
    completeSm90Plan(planned, signature, config.frame(), device, plan);
  }
};

} // namespace

/// Names the value of an invalid config that the kernel does not take.
static Rejection invalidShape(const GemmSignature &signature,
                              const Sm90PackedConfig &config) {
  auto shape = [](int value, llvm::StringRef unit, llvm::StringRef allowed) {
    return Rejection{PruneReason::InstructionShape, double(value), 0, unit,
                     allowed};
  };
  if (config.consumers < 1 || config.consumers > 3)
    return shape(config.consumers, "consumers", "1 to 3");
  if (config.kShared && config.consumers != 2)
    return shape(config.consumers, "consumers", "2 with turns");
  constexpr int kUnit = 64, kMostRows = 256;
  if (config.kShared ? config.rows != kUnit
                     : config.rows < kUnit || config.rows > kMostRows ||
                           config.rows % (kUnit * config.consumers) != 0)
    return shape(config.rows, "rows",
                 config.kShared         ? "64 with turns"
                 : config.consumers > 2 ? "192"
                 : config.consumers > 1 ? "128 or 256"
                                        : "64 to 256 in steps of 64");
  if (config.vectors < 8 || config.vectors > 256 || config.vectors % 8 != 0)
    return shape(config.vectors, "vectors", "8 to 256 in steps of 8");
  if (config.blockK != 128 && config.blockK != 256)
    return shape(config.blockK, "elements of k a stage", "128 or 256");
  if (config.stages < 2 + config.kShared || config.stages > 16)
    return shape(config.stages, "stages",
                 config.kShared ? "3 to 16" : "2 to 16");
  if (config.staging != 0 && config.frame().fetchedOperands(signature) > 0)
    return shape(config.staging, "staging",
                 "0 where C or a residual comes in by TMA");
  if (signature.hasGroups() && config.splitK() > 1)
    return shape(config.splitK(), "splits", "1 with groups");
  if (config.splitK() > 1)
    return shape(config.vectors, "vectors",
                 signature.columnsPerOutput() == 2
                     ? "multiples of 32 with splits"
                     : "up to 64, or multiples of 16 with splits");
  return Rejection{PruneReason::InstructionShape};
}

void Sm90PackedGemm::forEachConfig(const GemmProblem &problem,
                                   const DeviceModel &device,
                                   Emit<Sm90PackedConfig> emit) const {
  if (!hasWgmma(device) || !problem.isPacked())
    return;
  const GemmSignature signature = signatureOf(problem);
  forEachSm90PackedConfig(problem, signature, device, emit);
}

CandidateClass Sm90PackedGemm::classOfConfig(const Sm90PackedConfig &c) const {
  return {classKey({7, c.rows, c.vectors, c.splitK()}), c.splitK()};
}

std::optional<Rejection> Sm90PackedGemm::checkLimits(
    const GemmProblem &problem, const GemmSignature &signature,
    const Sm90PackedConfig &config, const DeviceModel &device) const {
  if (auto rejection = checkWgmma(device))
    return rejection;
  if (!signature.isPacked())
    return Rejection{PruneReason::Type};
  if (auto rejection = checkRate(
          device, tensorRateOf(rateTypeOf(signature.in, signature.compute))))
    return rejection;
  // The first wall, ahead of what else may be wrong with so large a tile.
  const int registers = config.productRegisters(signature);
  if (const int most = mostSm90PackedRegisters(signature, config);
      registers > most)
    return Rejection{PruneReason::Registers, double(registers), double(most),
                     "registers of sums and fragments a thread"};
  if (!config.isValid(signature))
    return invalidShape(signature, config);
  const Sm90GemmConfig frame = config.frame();
  if (auto rejection = checkSplitWork(problem, frame))
    return rejection;
  if (auto rejection = checkSplitsRun(frame, device))
    return rejection;
  if (auto rejection = checkTensorMaps(problem, signature))
    return rejection;
  return checkRepack(problem, signature, frame);
}

std::unique_ptr<Template> makeSm90PackedGemmTemplate() {
  return std::make_unique<Sm90PackedGemm>();
}

} // namespace kiln
