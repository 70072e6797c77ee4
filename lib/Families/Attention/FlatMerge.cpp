//===- FlatMerge.cpp - the template that merges attentions ----------------===//
//
// Every config moves the same bytes: configs differ in the width of an access
// and in the threads of a block.
//
//===----------------------------------------------------------------------===//
#include "Families/Attention/MergeFamily.h"
#include "Families/MemoryPass/MemoryPassTemplate.h"
#include "attention/FlatMergeConfig.h"

namespace kiln {

namespace {

class FlatMerge final : public MemoryPassTemplate<FlatMerge, FlatMergeConfig> {
public:
  FlatMerge()
      : MemoryPassTemplate({"attention/FlatMerge.cuh", "MergeSignature",
                            "FlatMergeConfig", "MergeParams", "flatMerge"}) {}

  void enumerate(const Problem &problem, const DeviceModel &,
                 llvm::function_ref<void(Values)> emit) const override {
    MergeSignature signature = readMergeSignature(problem.signature);
    int widest = FlatMergeConfig::widestVector(signature);
    for (int vector = widest; vector >= 1; vector /= 2)
      for (int threads : {128, 256, 64})
        for (int items : {2, 1, 4}) {
          FlatMergeConfig config{threads, vector, items};
          // With more registers few blocks are resident, and none is faster.
          constexpr int kMostRegisters = 128;
          if (items == 1 || config.registers(signature) <= kMostRegisters)
            emit(valuesOf(config));
        }
  }

  CandidateClass classOfConfig(const FlatMergeConfig &config) const override {
    return {static_cast<uint64_t>(config.vector * 8 + config.items), 0};
  }

  Plan plan(const Problem &problem, const Values &values,
            const DeviceModel &device) const override {
    auto config = fromValues<FlatMergeConfig>(values);
    MergeSignature signature = readMergeSignature(problem.signature);
    Plan plan = planWithoutBinder(problem, values, signature, config,
                                  /*sharedBytes=*/0, device);
    plan.binder = makeBinder([config, signature](const Arguments &arguments,
                                                 const LaunchContext &,
                                                 LaunchSpec &spec) {
      MergeProblem p = readMergeProblem(arguments.problem);
      KernelStep &step = spec.addKernel(makeMergeParams(p, arguments));
      step.grid.x =
          static_cast<uint32_t>(config.blocks(signature, p.allRows()));
      step.block.x = static_cast<uint32_t>(config.threads());
    });
    return plan;
  }

  /// A vector of one element serves every problem.
  bool isGeneric() const override { return true; }

protected:
  std::optional<Rejection>
  checkConfig(const Problem &problem, const FlatMergeConfig &config,
              const DeviceModel &device) const override {
    MergeSignature signature = readMergeSignature(problem.signature);
    if (auto rejection = checkThreads(config.threads(), device))
      return rejection;
    int widest = FlatMergeConfig::widestVector(signature);
    if (config.vector > widest)
      return Rejection{PruneReason::Alignment, double(config.vector),
                       double(widest), "elements"};
    if (!config.isValid(signature))
      return Rejection{PruneReason::InstructionShape};
    return std::nullopt;
  }

public:
  template <Number N>
  MemoryPass<N> pass(const Problem &problem, const FlatMergeConfig &config,
                     const DeviceModel &) const {
    MergeProblem p = readMergeProblem(problem.values.array().data());
    MergeSignature signature = signatureOf(p);
    double rows = p.allRows(), elements = rows * double(p.valueDim);
    MemoryPass<N> kernel;
    kernel.tasks = config.blocks(signature, rows);
    kernel.block = {config.threads(), config.registers(signature), 0};
    const int vectors = config.items * config.vectors(signature);
    const int64_t bytes = bytesOf(p.dtype);
    kernel.loads = {.vectors = double(vectors),
                    .operands = 2,
                    .elements = config.vector,
                    .elementBytes = bytes,
                    .registers =
                        2 * vectors * ((config.vector * bytes + 3) / 4)};
    kernel.readBytes =
        2 * (elements * bytesOf(p.dtype) + rows * bytesOf(DType::FP32));
    kernel.writeBytes =
        elements * bytesOf(p.out) + (p.lse ? rows * bytesOf(DType::FP32) : 0);
    // An element takes conversions, a product and a sum; a lane takes places
    // and weights, whose logarithms are loaded first.
    constexpr double kPerElement = 5, kPerLane = 70, kSpecialPerLane = 4;
    double lanes = rows * config.lanes(signature);
    kernel.simdOps = elements * kPerElement + lanes * kPerLane;
    kernel.specialOps = lanes * kSpecialPerLane;
    return kernel;
  }
};

} // namespace

std::unique_ptr<Template> makeFlatMergeTemplate() {
  return std::make_unique<FlatMerge>();
}

} // namespace kiln
