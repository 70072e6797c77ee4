//===- RowCombine.cpp - the template of rows of threads -------------------===//
//
// Every config moves the same bytes. Configs differ in the bytes that a thread
// has in flight, and in the number of blocks. Little's law ranks them; see
// Model/MemoryPass.h.
//
//===----------------------------------------------------------------------===//
#include "Families/Combine/CombineFamily.h"

#include "Families/MemoryPass/MemoryPassTemplate.h"
#include "Model/MathUtil.h"
#include "combine/RowCombineConfig.h"

#include <algorithm>

namespace kiln {

namespace {

class RowCombineTemplate final
    : public MemoryPassTemplate<RowCombineTemplate, RowCombineConfig> {
public:
  RowCombineTemplate()
      : MemoryPassTemplate({"combine/RowCombine.cuh", "CombineSignature",
                            "RowCombineConfig", "CombineParams",
                            "rowCombine"}) {}

  bool isGeneric() const override { return true; }

  void enumerate(const Problem &problem, const DeviceModel &device,
                 llvm::function_ref<void(Values)> emit) const override;

  /// A class is the threads of a token and their vectors; choices in flight
  /// vary within it.
  CandidateClass classOfConfig(const RowCombineConfig &c) const override {
    return {classKey({c.lanes - 1, c.rows, c.items}), 0};
  }

  Plan plan(const Problem &problem, const Values &values,
            const DeviceModel &device) const override;

  template <Number N>
  MemoryPass<N> pass(const Problem &problem, const RowCombineConfig &config,
                     const DeviceModel &device) const;

protected:
  std::optional<Rejection>
  checkConfig(const Problem &problem, const RowCombineConfig &config,
              const DeviceModel &device) const override;

private:
  static CombineProblem read(const Problem &problem) {
    return readCombineProblem(problem.values.array().data());
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// Space and limits
//===----------------------------------------------------------------------===//

void RowCombineTemplate::enumerate(
    const Problem &problem, const DeviceModel &,
    llvm::function_ref<void(Values)> emit) const {
  const CombineProblem p = read(problem);
  const CombineSignature signature = readCombineSignature(problem.signature);
  const int64_t vectors =
      p.cols * bytesOf(p.dtype) / std::max(signature.align, 1);
  constexpr int kWarp = 32;
  auto emitAll = [&](int lanes, int rows) {
    for (int items : {1, 2, 4}) {
      // No item is idle in all threads.
      if (items > 1 && int64_t(lanes) * items / 2 >= vectors)
        continue;
      for (int ahead : {4, 8, 2, 1})
        if (items * ahead <= RowCombineConfig::kMostVectors &&
            ahead < 2 * p.topK)
          emit(valuesOf({lanes, rows, items, ahead}));
    }
  };
  for (int lanes : {256, 128, 512, 1024, 64, kWarp})
    if (lanes == kWarp || lanes / 2 < vectors)
      emitAll(lanes, 1);
  for (int rows : {4, 8, 2})
    if (rows / 2 < p.tokens)
      emitAll(kWarp, rows);
}

std::optional<Rejection>
RowCombineTemplate::checkConfig(const Problem &problem,
                                const RowCombineConfig &config,
                                const DeviceModel &device) const {
  const CombineProblem p = read(problem);
  const CombineSignature signature = readCombineSignature(problem.signature);
  if (auto rejection = checkThreads(config.threads(), device))
    return rejection;
  if (!config.isValid(signature))
    return Rejection{PruneReason::InstructionShape, double(config.lanes), 0,
                     "threads a token",
                     "32 to 1024, a power of two, with 16 vectors in flight"};
  const int64_t vectors = p.cols * bytesOf(p.dtype) / signature.align;
  const auto blocks = double(ceilDiv(p.tokens, int64_t(config.rows))) *
                      double(config.pieces(signature, vectors));
  return checkGrid(blocks);
}

//===----------------------------------------------------------------------===//
// Estimate
//===----------------------------------------------------------------------===//

template <Number N>
MemoryPass<N> RowCombineTemplate::pass(const Problem &problem,
                                       const RowCombineConfig &config,
                                       const DeviceModel &device) const {
  const CombineProblem p = read(problem);
  const CombineSignature signature = readCombineSignature(problem.signature);
  const int64_t vectors = p.cols * bytesOf(p.dtype) / signature.align;
  const int64_t pieces = config.pieces(signature, vectors);
  const int64_t turns =
      std::max<int64_t>(pieces > 1 ? 1 : config.turns(vectors), 1);
  const double matrix = p.elements() * bytesOf(p.dtype);
  constexpr double kWeightBytes = 4;
  MemoryPass<N> kernel;
  kernel.pace = p.norm ? PassPace::Reduces : PassPace::Flows;
  kernel.tasks =
      std::max<int64_t>(ceilDiv(p.tokens, int64_t(config.rows)) * pieces, 1);
  kernel.block = {config.threads(), config.registers(signature), 0};
  kernel.readBytes = matrix * double(p.topK + p.shared + p.residual) +
                     (p.isWeighted() ? double(p.choices()) * kWeightBytes : 0);
  kernel.writeBytes = matrix * (p.storesSum() ? 2 : 1);
  if (p.norm)
    kernel.sharedBytesPerTask = double(p.cols * config.rows * bytesOf(p.dtype));
  const int64_t ahead = std::min<int64_t>(config.ahead, p.topK);
  kernel.loads = {.vectors = double(config.items * ahead),
                  .operands = 1,
                  .elements = config.elements(signature),
                  .elementBytes = bytesOf(p.dtype),
                  .registers =
                      config.items * ahead * ((signature.align + 3) / 4)};
  kernel.loadRounds = turns * ceilDiv(p.topK, ahead);
  if (p.norm && turns > 1) {
    kernel.rereadBytes = matrix;
    kernel.rereadRounds = turns;
  }
  // As counted in the kernel's SASS (sm_90): a load with its address and
  // condition, a conversion and a sum of each element, a norm with its weight.
  constexpr double kPerVector = 8, kPerThread = 80, kAdd = 1, kConvert = 0.75,
                   kNorm = 4;
  const double inputs = double(p.topK + p.shared + p.residual);
  const bool converts = p.dtype != DType::FP32;
  kernel.simdOps =
      double(p.tokens) * double(vectors) * (inputs + 1) * kPerVector +
      p.elements() *
          (inputs * (kAdd + (converts ? kConvert : 0)) + (p.norm ? kNorm : 1)) +
      double(kernel.tasks) * config.threads() * kPerThread;
  // Whole sectors are moved by narrow accesses as well, but they take turns.
  constexpr int kNarrowBytes = 4;
  constexpr double kNarrowLoss = 0.07, kReductionNs = 300;
  if (signature.align <= kNarrowBytes)
    kernel.lostShare += fitted<N>(kNarrowLoss, "lost by narrow accesses");
  if (p.norm)
    kernel.serialNs += fitted<N>(kReductionNs, "reduction", "ns");
  // A task waits for its weights before it knows its rows.
  if (p.isWeighted())
    kernel.serialNs +=
        named(deviceValue<N>(device, &DeviceModel::dramLatencyNs),
              "wait for the weights", "ns");
  return kernel;
}

//===----------------------------------------------------------------------===//
// Plan
//===----------------------------------------------------------------------===//

Plan RowCombineTemplate::plan(const Problem &problem, const Values &values,
                              const DeviceModel &device) const {
  const auto config = fromValues<RowCombineConfig>(values);
  const CombineSignature signature = readCombineSignature(problem.signature);
  Plan plan = planWithoutBinder(problem, values, signature, config,
                                /*sharedBytes=*/0, device);
  plan.binder = makeBinder([config, signature](const Arguments &arguments,
                                               const LaunchContext &,
                                               LaunchSpec &spec) {
    const CombineProblem p = readCombineProblem(arguments.problem);
    CombineParams params = makeCombineParams(p, arguments);
    const int64_t pieces =
        config.pieces(signature, p.cols / config.elements(signature));
    params.pieces = static_cast<int>(pieces);
    KernelStep &step = spec.addKernel(params);
    step.grid.x =
        static_cast<uint32_t>(ceilDiv(p.tokens, int64_t(config.rows)) * pieces);
    step.block.x = static_cast<uint32_t>(config.threads());
  });
  return plan;
}

std::unique_ptr<Template> makeRowCombineTemplate() {
  return std::make_unique<RowCombineTemplate>();
}

} // namespace kiln
