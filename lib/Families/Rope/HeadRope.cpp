//===- HeadRope.cpp - the template of rotary embeddings -------------------===//
//
// Every config moves the same bytes. They differ in the width of an access, in
// the heads whose loads a lane has in flight (which share cosines and sines),
// in the place where these wait, registers or shared memory, and in the threads
// of a block.
//
//===----------------------------------------------------------------------===//
#include "Families/MemoryPass/MemoryPassTemplate.h"
#include "Families/Rope/RopeFamily.h"
#include "rope/HeadRopeConfig.h"

namespace kiln {

namespace {

class HeadRope final : public MemoryPassTemplate<HeadRope, HeadRopeConfig> {
public:
  HeadRope()
      : MemoryPassTemplate({"rope/HeadRope.cuh", "RopeSignature",
                            "HeadRopeConfig", "RopeParams", "headRope"}) {}

  void enumerate(const Problem &problem, const DeviceModel &device,
                 llvm::function_ref<void(Values)> emit) const override {
    const RopeSignature signature = readRopeSignature(problem.signature);
    const int widest = HeadRopeConfig::widestVector(signature);
    for (int vector = widest; vector >= 1; vector /= 2)
      for (int threads : {128, 256, 64})
        for (int items : {1, 2, 4, 8})
          for (int staged : {0, 1}) {
            const HeadRopeConfig config{threads, vector, items, staged};
            if (staged &&
                !(device.ccMajor >= kStagedMajor && config.isValid(signature)))
              continue;
            // With more registers few blocks are resident, and none is faster.
            constexpr int kMostRegisters = 128;
            if (items == 1 || config.registers(signature) <= kMostRegisters)
              emit(valuesOf(config));
          }
  }

  CandidateClass classOfConfig(const HeadRopeConfig &config) const override {
    return {classKey({config.vector, config.items, config.staged}), 0};
  }

  Plan plan(const Problem &problem, const Values &values,
            const DeviceModel &device) const override {
    const auto config = fromValues<HeadRopeConfig>(values);
    const RopeSignature signature = readRopeSignature(problem.signature);
    const int sharedBytes = config.sharedBytes(signature);
    Plan plan = planWithoutBinder(problem, values, signature, config,
                                  sharedBytes, device);
    plan.binder = makeBinder([config, signature, sharedBytes](
                                 const Arguments &arguments,
                                 const LaunchContext &, LaunchSpec &spec) {
      const RopeProblem p = readRopeProblem(arguments.problem);
      KernelStep &step = spec.addKernel(makeRopeParams(p, arguments));
      step.grid.x = static_cast<uint32_t>(
          config.blocks(signature, double(p.tokens), p.heads, p.kvHeads));
      step.block.x = static_cast<uint32_t>(config.threads());
      step.sharedBytes = static_cast<uint32_t>(sharedBytes);
    });
    return plan;
  }

  /// A vector of one element serves every problem.
  bool isGeneric() const override { return true; }

protected:
  std::optional<Rejection>
  checkConfig(const Problem &problem, const HeadRopeConfig &config,
              const DeviceModel &device) const override {
    const RopeSignature signature = readRopeSignature(problem.signature);
    if (auto rejection = checkThreads(config.threads(), device))
      return rejection;
    const int widest = HeadRopeConfig::widestVector(signature);
    if (config.vector > widest)
      return Rejection{PruneReason::Alignment, double(config.vector),
                       double(widest), "elements"};
    if (config.staged && device.ccMajor < kStagedMajor)
      return Rejection{PruneReason::Architecture,
                       double(device.computeCapability()), 10.0 * kStagedMajor,
                       "capability"};
    if (!config.isValid(signature))
      return Rejection{PruneReason::InstructionShape};
    return checkSharedBytes(config.sharedBytes(signature), device);
  }

public:
  template <Number N>
  MemoryPass<N> pass(const Problem &problem, const HeadRopeConfig &config,
                     const DeviceModel &device) const;

private:
  /// Asynchronous copies to shared memory.
  static constexpr int kStagedMajor = 8;
};

} // namespace

template <Number N>
MemoryPass<N> HeadRope::pass(const Problem &problem,
                             const HeadRopeConfig &config,
                             const DeviceModel &device) const {
  const RopeProblem p = readRopeProblem(problem.values.array().data());
  const RopeSignature signature = readRopeSignature(problem.signature);
  const double tokens = double(p.tokens);
  const double element = bytesOf(p.dtype), cached = bytesOf(p.cache);
  const double q = double(p.heads * p.headDim);
  const double k = p.hasK() ? double(p.kvHeads * p.headDim) : 0;
  const double v = p.vCache ? double(p.kvHeads * p.valueDim) : 0;
  MemoryPass<N> kernel;
  kernel.tasks = config.blocks(signature, tokens, p.heads, p.kvHeads);
  kernel.block = {config.threads(), config.registers(signature),
                  config.sharedBytes(signature)};
  const int vectors = config.vectors(signature);
  kernel.loads = {
      .vectors = double(vectors),
      .elements = config.vector,
      .elementBytes = bytesOf(p.dtype),
      .registers = config.staged
                       ? 0
                       : vectors * ((config.vectorBytes(signature) + 3) / 4)};
  kernel.readBytes =
      tokens * ((q + k + v) * element + double(p.rotaryDim) * bytesOf(p.table));
  kernel.writeBytes = tokens * (q * element + (p.kOut ? k * element : 0) +
                                (p.kCache ? k * cached : 0) + v * cached);
  // Angles that heads of a token share come from the caches again.
  const double pieces = config.pieces(signature, tokens, p.heads, p.kvHeads);
  kernel.keptBytes = (pieces - tokens) * double(p.rotaryDim) * bytesOf(p.table);
  // Conversions, two products and a sum, a norm's square and product; a unit
  // takes places and addresses, and a token its row of the caches.
  constexpr double kPerElement = 6, kPerNormed = 3, kPerUnit = 30,
                   kPerPiece = 60;
  const double lanes = config.lanes(signature);
  const double heads =
      double(HeadRopeConfig::headsOf(signature, p.heads, p.kvHeads));
  const double normed = (p.qNorm ? q : 0) + (p.kNorm ? k : 0);
  kernel.simdOps =
      tokens * ((q + k + v) * kPerElement + normed * kPerNormed +
                heads * lanes * config.units(signature) * kPerUnit) +
      pieces * lanes * kPerPiece;
  // The table's row is known when the position has come, and rows of K and V
  // when slots have.
  kernel.loadRounds = p.hasPositions() && p.rotaryDim > 0 ? 2 : 1;
  return kernel;
}

std::unique_ptr<Template> makeHeadRopeTemplate() {
  return std::make_unique<HeadRope>();
}

} // namespace kiln
