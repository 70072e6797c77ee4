//===- Sm90MlaPlan.cpp ----------------------------------------------------===//
#include "Families/Attention/Sm90MlaPlan.h"

#include "Families/Attention/AttentionCombine.h"
#include "Families/Attention/LaunchedAttention.h"
#include "Families/Attention/ReusedTensorMap.h"
#include "Model/MathUtil.h"
#include "attention/Sm90MlaParams.h"

#include <algorithm>
#include <cstddef>

namespace kiln {

static constexpr CombineAttentionConfig kMlaCombine{.warps = 4, .decode = 1};

DecodeBlocks blocksOf(const Sm90MlaConfig &config) {
  return DecodeBlocks(Sm90MlaConfig::kRows, Sm90MlaConfig::kKeys, /*rings=*/1,
                      config.fill);
}

WorkspaceLayout sm90MlaWorkspace(const AttentionProblem &problem,
                                 const Sm90MlaConfig &config,
                                 const DeviceModel &device) {
  int64_t rows = partialRowsOfPlan(problem, blocksOf(config), device.smCount);
  return {.scratchBytes = uint64_t(partialBytes(rows, problem.valueDim))};
}

namespace {

class Sm90MlaBinder final : public Binder {
public:
  Sm90MlaBinder(const AttentionProblem &problem,
                const AttentionSignature &signature,
                const Sm90MlaConfig &config, const DeviceModel &device)
      : signature(signature), config(config), blocks(blocksOf(config)),
        partialRows(partialRowsOfPlan(problem, blocks, device.smCount)),
        scaleByDefault(defaultScale(signature.headDim)),
        planned(mapOf(problem, problem.k)) {}

  bool usesWorkspace(const Arguments &arguments,
                     int32_t smCount) const noexcept override {
    return gridOf(readLaunchedAttention(arguments.problem), smCount).splits > 1;
  }

  void bind(const Arguments &arguments, const LaunchContext &context,
            LaunchSpec &spec) const noexcept override;

  const TensorMapSpec &map() const { return planned; }

private:
  [[gnu::always_inline]] DecodeGrid gridOf(const AttentionProblem &problem,
                                           int64_t smCount) const {
    return DecodeGrid(problem, blocks, smCount, partialRows);
  }
  TensorMapSpec mapOf(const AttentionProblem &problem,
                      const HeadStrides &strides) const;
  int64_t boxKeys(const AttentionProblem &problem) const {
    return problem.isPaged()
               ? std::min<int64_t>(config.loadedKeys(), problem.pageSize)
               : config.loadedKeys();
  }

  AttentionSignature signature;
  Sm90MlaConfig config;
  DecodeBlocks blocks;
  int64_t partialRows;
  double scaleByDefault;
  TensorMapSpec planned;
};

} // namespace

/// (element, token, head, sequence or page). Packed sequences are one long
/// sequence; sequences that share K also count as one.
TensorMapSpec Sm90MlaBinder::mapOf(const AttentionProblem &problem,
                                   const HeadStrides &strides) const {
  TensorMapSpec map;
  map.elementType = static_cast<int32_t>(signature.q);
  map.rank = 4;
  map.swizzle = TensorMapSwizzle::B128;
  map.l2Promotion = L2Promotion::B256;
  map.dims[0] = static_cast<uint64_t>(problem.headDim);
  const int64_t bytes = bytesOf(signature.q);
  int64_t batch = problem.isPaged() ? problem.pageCount
                  : problem.hasPackedKeys() || strides.batch == 0
                      ? 1
                      : problem.batch;
  setExtent(map, 1, problem.keyRows(), strides.token * bytes);
  setExtent(map, 2, problem.kvHeads, strides.head * bytes);
  setExtent(map, 3, batch, strides.batch * bytes);
  map.box[0] = Slab::kElements;
  map.box[1] = static_cast<uint32_t>(boxKeys(problem));
  map.box[2] = map.box[3] = 1;
  return map;
}

void Sm90MlaBinder::bind(const Arguments &arguments,
                         const LaunchContext &context,
                         LaunchSpec &spec) const noexcept {
  AttentionProblem problem = readLaunchedAttention(arguments.problem);
  DecodeGrid grid = gridOf(problem, context.smCount);
  KernelStep &step = spec.addKernelOf([&] {
    Sm90MlaParams params;
    AttentionParams &attention = params.attention;
    attention = makeAttentionParams(problem, arguments, scaleByDefault);
    attention.splits = static_cast<int>(grid.splits);
    attention.splitKeys = static_cast<int>(grid.splitKeys);
    if (grid.splits > 1)
      placePartials(context.scratch, grid.rows(problem), problem.valueDim,
                    attention);
    params.batchStepK =
        !problem.hasPackedKeys() && attention.kStrides.batch != 0;
    params.boxKeys = static_cast<int>(boxKeys(problem));
    return params;
  });
  const AttentionParams &attention =
      spec.paramsOf<Sm90MlaParams>(step).attention;
  step.grid = {
      static_cast<uint32_t>(roundUp(grid.rowBlocks, int64_t(config.cluster))),
      static_cast<uint32_t>(grid.splits),
      static_cast<uint32_t>(problem.batch * problem.kvHeads)};
  step.block.x = static_cast<uint32_t>(config.threads());
  step.cluster.x = static_cast<uint32_t>(config.cluster);
  step.sharedBytes = static_cast<uint32_t>(config.sharedBytes(signature));
  DeviceAddress address = arguments.operands[AttentionOperand::K].address;
  // Without keys K may be missing; it is not read then.
  if (address == 0)
    address = arguments.operands[AttentionOperand::O].address;
  addTensorMap(mapOf(problem, attention.kStrides), planned, *context.tensorMaps,
               address, step.paramOffset + offsetof(Sm90MlaParams, k), spec);
  if (grid.splits > 1)
    addCombineStep(attention, kMlaCombine, /*function=*/1, /*dependent=*/true,
                   spec);
}

void completeSm90MlaPlan(const AttentionProblem &problem,
                         const AttentionSignature &signature,
                         const Sm90MlaConfig &config, const DeviceModel &device,
                         Plan &plan) {
  auto binder =
      std::make_shared<Sm90MlaBinder>(problem, signature, config, device);
  plan.tensorMaps = {binder->map()};
  // A launch with fewer sequences may have splits where the problem has none.
  plan.kernels.push_back(makeCombineUnit(signature, kMlaCombine, device));
  plan.sharedBytes.push_back(0);
  plan.binder = std::move(binder);
}

} // namespace kiln
