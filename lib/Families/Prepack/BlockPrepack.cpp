//===- BlockPrepack.cpp - the template that packs weights -----------------===//
//
// Every config moves the same bytes: configs differ in the length of the pieces
// of a row that a block reads, and in the threads of a block.
//
//===----------------------------------------------------------------------===//
#include "Families/MemoryPass/MemoryPassTemplate.h"
#include "Families/Prepack/PrepackFamily.h"
#include "prepack/BlockPrepackConfig.h"

namespace kiln {

namespace {

class BlockPrepack final
    : public MemoryPassTemplate<BlockPrepack, BlockPrepackConfig> {
public:
  BlockPrepack()
      : MemoryPassTemplate({"prepack/BlockPrepack.cuh", "PrepackSignature",
                            "BlockPrepackConfig", "PrepackParams",
                            "blockPrepack"}) {}

  void enumerate(const Problem &, const DeviceModel &,
                 llvm::function_ref<void(Values)> emit) const override {
    for (int depthBlocks : {2, 4, 1})
      for (int threads : {128, 256})
        emit(valuesOf({threads, depthBlocks}));
  }

  CandidateClass
  classOfConfig(const BlockPrepackConfig &config) const override {
    return {static_cast<uint64_t>(config.depthBlocks), 0};
  }

  Plan plan(const Problem &problem, const Values &values,
            const DeviceModel &device) const override {
    auto config = fromValues<BlockPrepackConfig>(values);
    PrepackSignature signature = readPrepackSignature(problem.signature);
    const int sharedBytes = config.sharedBytes(signature);
    Plan plan = planWithoutBinder(problem, values, signature, config,
                                  sharedBytes, device);
    plan.binder = makeBinder([config, sharedBytes](const Arguments &arguments,
                                                   const LaunchContext &,
                                                   LaunchSpec &spec) {
      PrepackProblem p = readPrepackProblem(arguments.problem);
      KernelStep &step = spec.addKernel(makePrepackParams(p, arguments));
      step.grid.x = static_cast<uint32_t>(config.blocks(p.n, p.k));
      step.block.x = static_cast<uint32_t>(config.threads());
      step.sharedBytes = static_cast<uint32_t>(sharedBytes);
    });
    return plan;
  }

  bool isGeneric() const override { return true; }

protected:
  std::optional<Rejection>
  checkConfig(const Problem &problem, const BlockPrepackConfig &config,
              const DeviceModel &device) const override {
    PrepackSignature signature = readPrepackSignature(problem.signature);
    if (auto rejection = checkThreads(config.threads(), device))
      return rejection;
    if (config.threads() < 32 || config.threads() % 32 != 0)
      return Rejection{PruneReason::InstructionShape, double(config.threads()),
                       0, "threads a block", "a multiple of 32"};
    if (config.depthBlocks < 1 ||
        config.depthBlocks > BlockPrepackConfig::kMaxDepthBlocks)
      return Rejection{PruneReason::InstructionShape,
                       double(config.depthBlocks), 0, "blocks of k", "1 to 8"};
    return checkSharedBytes(config.sharedBytes(signature), device);
  }

public:
  template <Number N>
  MemoryPass<N> pass(const Problem &problem, const BlockPrepackConfig &config,
                     const DeviceModel &) const {
    PrepackProblem p = readPrepackProblem(problem.values.array().data());
    PrepackSignature signature = readPrepackSignature(problem.signature);
    const PrepackSource from = p.from();
    MemoryPass<N> kernel;
    kernel.tasks = config.tiles(p.n, p.k);
    kernel.block = {config.threads(), config.registers(),
                    config.sharedBytes(signature)};
    // Words of four bytes.
    kernel.loads = {.vectors = double(config.tileRows(signature)) *
                               config.rowWords(signature) / config.threads(),
                    .elementBytes = 4};
    const double scaleBytes = bytesOf(p.scaleType) + (p.zeros ? 0.5 : 0.0);
    kernel.readBytes =
        double(from.weightRows()) * double(from.weightRowBytes()) +
        scaleBytes * double(p.n) * double(from.groups());
    kernel.writeBytes =
        double(p.blockRows()) *
        (double(p.rowBytes()) +
         double(p.rowScales()) * (bytesOf(p.scaleType) + int(p.zeros)));
    // For two elements: a load from shared memory, its address, shifts and
    // masks. Not measured.
    constexpr double kPerPair = 12;
    kernel.simdOps = kPerPair * double(p.blockRows()) * double(p.rowBytes()) *
                     8 / (2.0 * signature.bits());
    kernel.pace = PassPace::Reduces;
    constexpr double kBarrierNs = 40;
    kernel.serialNs = fitted<N>(kBarrierNs, "barrier", "ns");
    return kernel;
  }
};

} // namespace

std::unique_ptr<Template> makeBlockPrepackTemplate() {
  return std::make_unique<BlockPrepack>();
}

} // namespace kiln
