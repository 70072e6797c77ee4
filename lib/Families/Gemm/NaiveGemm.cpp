//===- NaiveGemm.cpp - the naive template and the family's reference ------===//
//
// One thread an element, sums in double precision: slow, obviously right, and
// never absent. As a template it serves what nothing else does; its tiled twin
// is what every candidate is compared with.
//
//===----------------------------------------------------------------------===//
#include "Families/Gemm/GemmTemplate.h"
#include "Families/KernelReference.h"
#include "Model/MathUtil.h"
#include "gemm/NaiveGemmConfig.h"
#include "gemm/ReferenceQuantizedConfig.h"

#include <fmt/format.h>

namespace kiln {

namespace {

class NaiveGemm final : public GemmTemplate<NaiveGemmConfig> {
public:
  NaiveGemm()
      : GemmTemplate({"gemm/NaiveGemm.cuh", "GemmSignature", "NaiveGemmConfig",
                      "GemmParams", "naiveGemm"}) {}

  bool isGeneric() const override { return true; }

protected:
  void forEachConfig(const GemmProblem &, const DeviceModel &,
                     Emit<NaiveGemmConfig> emit) const override {
    emit(NaiveGemmConfig{});
  }

  CandidateClass classOfConfig(const NaiveGemmConfig &) const override {
    return {3, 1000};
  }

  std::optional<Rejection>
  checkLimits(const GemmProblem &problem, const GemmSignature &signature,
              const NaiveGemmConfig &config,
              const DeviceModel &device) const override {
    return std::nullopt;
  }

  /// A row of 32 elements a warp, every operand straight from the caches.
  TileKernel tileKernel(const GemmSignature &signature,
                        const NaiveGemmConfig &config,
                        const DeviceModel &device) const override {
    TileKernel kernel;
    kernel.blockM = 1;
    kernel.blockN = config.threads();
    kernel.blockK = 1;
    kernel.stages = 2;
    kernel.threads = config.threads();
    constexpr int kRegisters = 40;
    kernel.registersPerThread = kRegisters;
    kernel.tileThreads = config.threads();
    kernel.rate = &DeviceModel::simdFp64FlopsPerClock;
    // One multiply-add beside two loads and their addresses.
    kernel.issue.share = 0.1;
    kernel.tensor = false;
    return kernel;
  }
};

} // namespace

std::unique_ptr<Template> makeNaiveGemmTemplate() {
  return std::make_unique<NaiveGemm>();
}

std::unique_ptr<Reference> makeGemmReference(const GemmSignature &signature,
                                             const DeviceModel &device) {
  constexpr ReferenceGemmConfig kConfig{};
  return makeReference<ReferenceGemmParams>(
      makeKernelUnit(
          {"gemm/ReferenceGemm.cuh", "GemmSignature", "ReferenceGemmConfig",
           "ReferenceGemmParams", "referenceGemm"},
          referenceOf(gemmProblemSchema(), signature, kConfig), device),
      kConfig.threads(),
      // The one written operand is d.
      [=](const Arguments &arguments, const ReferencePart &part,
          ReferenceGemmParams &params) {
        GemmProblem problem = readGemmProblem(arguments.problem);
        params.gemm = makeGemmParams(problem, arguments);
        return kConfig.blocks(part.rows(), problem.n);
      });
}

std::unique_ptr<Reference> makeQuantizedReference(const GemmSignature &product,
                                                  ScaleKind scaleD,
                                                  const DeviceModel &device) {
  const ReferenceQuantizedConfig config{scaleD};
  return makeReference<ReferenceQuantizedParams>(
      makeKernelUnit({"gemm/ReferenceQuantized.cuh", "GemmSignature",
                      "ReferenceQuantizedConfig", "ReferenceQuantizedParams",
                      "referenceQuantized"},
                     {.name = referenceName(gemmProblemSchema(), "quantized"),
                      .signature = initializerText(product),
                      .config = fmt::format("{{.scale = kiln::ScaleKind::{}}}",
                                            enumeratorOf(scaleD)),
                      .threads = config.threads(),
                      .sharedBytes = 0,
                      .maySpill = true},
                     device),
      config.threads(),
      // Written are d and, unless they are given, its scales.
      [=](const Arguments &arguments, const ReferencePart &part,
          ReferenceQuantizedParams &params) {
        const GemmProblem problem = readGemmProblem(arguments.problem);
        params.gemm = makeGemmParams(problem, arguments);
        params.columns = problem.outCols();
        params.ofScales = part.operand == GemmOperand::ScaleD;
        const bool isRow = problem.scaleD.kind == ScaleKind::Row;
        params.linesAreRows = !isRow && !problem.scaleD.alongRows;
        params.lineScales =
            params.linesAreRows ? problem.rowScalesD() : problem.room;
        const OperandArgument &scales = arguments.operands[GemmOperand::ScaleD];
        params.scale = reinterpret_cast<const float *>(scales.address);
        params.scaleStride = scales.batchStride;
        const int64_t each = params.ofScales ? params.lineScales
                             : isRow         ? 1
                                     : ceilDiv(params.columns, config.kGroup);
        return config.blocks(part.rows() * each);
      });
}

} // namespace kiln
