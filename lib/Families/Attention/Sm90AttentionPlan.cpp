//===- Sm90AttentionPlan.cpp ----------------------------------------------===//
//
// Tensor maps describe the operands in memory: strides, packed sequences, pages
// and heads that share a tile are all handled here, and the kernel only names
// coordinates.
//
//===----------------------------------------------------------------------===//
#include "Families/Attention/Sm90AttentionPlan.h"

#include "Families/Attention/AttentionCombine.h"
#include "Families/Attention/LaunchedAttention.h"
#include "Families/Attention/ReusedTensorMap.h"
#include "Model/MathUtil.h"
#include "attention/Sm90AttentionParams.h"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace kiln {

//===----------------------------------------------------------------------===//
// Tiles and workspace
//===----------------------------------------------------------------------===//

/// Heads whose tiles alternate. Without a mask it is one head, whose tiles are
/// equally long. With a mask the longest tiles of many heads come first, of as
/// many heads as have their K and V in half of L2.
static int64_t sectionOf(const AttentionProblem &problem,
                         const Sm90AttentionConfig &config, int64_t splits,
                         int64_t l2Bytes) {
  if (problem.mask == AttentionMask::None)
    return 1;
  int64_t bytes = problem.typicalKeys * (problem.headDim + problem.valueDim) *
                  bytesOf(problem.kv);
  auto fitting = static_cast<uint64_t>(
      std::max<int64_t>(1, l2Bytes / 2 / std::max<int64_t>(1, bytes)));
  return static_cast<int64_t>(std::bit_floor(fitting)) *
         config.groupTiles(problem.group()) * splits;
}

Sm90AttentionGrid::Sm90AttentionGrid(const AttentionProblem &problem,
                                     const Sm90AttentionConfig &config,
                                     int64_t smCount, int64_t l2Bytes) {
  splits = config.splits;
  splitKeys = roundUp(ceilDiv(problem.keys, splits), config.blockN);
  rowBlocks = ceilDiv(problem.queries, config.tileTokens());
  heads = problem.batch * problem.kvHeads * config.groupTiles(problem.group()) *
          splits;
  section = std::min(sectionOf(problem, config, splits, l2Bytes),
                     std::max<int64_t>(1, heads));
  // With many more keys than queries all tiles are about equally long. Splits
  // are not: splits of later keys have fewer rows. With less than a pair for
  // each SM some SMs would be idle.
  isPaired = !config.dynamic && problem.mask == AttentionMask::Causal &&
             problem.typicalKeys < 2 * problem.queries && splits == 1 &&
             tiles() >= 2 * smCount;
}

/// Config of the kernel that merges splits; each split has an LSE.
static constexpr CombineAttentionConfig kSm90Combine{};

WorkspaceLayout sm90AttentionWorkspace(const AttentionProblem &problem,
                                       const Sm90AttentionConfig &config,
                                       const DeviceModel &device) {
  Sm90AttentionGrid grid(problem, config, device.smCount, device.l2Bytes);
  WorkspaceLayout layout;
  if (config.dynamic)
    layout.zeroedBytes = 4;
  if (grid.splits > 1)
    layout.scratchBytes = uint64_t(
        partialBytes(grid.splits * partialRowsOf(problem), problem.valueDim));
  return layout;
}

//===----------------------------------------------------------------------===//
// Tensor maps
//===----------------------------------------------------------------------===//

namespace {

/// An operand in the terms of tensor maps: tokens, heads and elements.
struct StoredRows {
  int64_t elements = 0, tokens = 0, heads = 0, batch = 0;
  HeadStrides strides;
};

class Sm90AttentionBinder final : public Binder {
public:
  Sm90AttentionBinder(const AttentionProblem &problem,
                      const AttentionSignature &signature,
                      const Sm90AttentionConfig &config,
                      const DeviceModel &device)
      : signature(signature), config(config), l2Bytes(device.l2Bytes),
        scaleByDefault(defaultScale(signature.headDim)),
        planned(mapsOf(problem, problem.q, problem.k, problem.v)) {}

  void bind(const Arguments &arguments, const LaunchContext &context,
            LaunchSpec &spec) const noexcept override;

  struct Maps {
    TensorMapSpec q, k, v;
  };
  const Maps &maps() const { return planned; }

private:
  Sm90AttentionParams makeParams(const AttentionProblem &problem,
                                 const Sm90AttentionGrid &grid,
                                 const Arguments &arguments,
                                 const LaunchContext &context) const;
  Maps mapsOf(const AttentionProblem &problem, const HeadStrides &q,
              const HeadStrides &k, const HeadStrides &v) const;
  TensorMapSpec queryMap(const StoredRows &rows, int64_t group,
                         int64_t tokens) const;
  TensorMapSpec keyMap(const StoredRows &rows, int64_t tokens) const;
  TensorMapSpec emptyMap(int rank) const;
  void setDim(TensorMapSpec &map, int dim, int64_t extent,
              int64_t stride) const;
  int64_t boxRows(const AttentionProblem &problem) const;

  AttentionSignature signature;
  Sm90AttentionConfig config;
  int64_t l2Bytes;
  double scaleByDefault;
  Maps planned;
};

} // namespace

/// Boxes are as wide as slabs; elements behind the end of a row are zero.
TensorMapSpec Sm90AttentionBinder::emptyMap(int rank) const {
  TensorMapSpec map;
  map.elementType = static_cast<int32_t>(signature.q);
  map.rank = rank;
  map.box[0] =
      static_cast<uint32_t>(Sm90AttentionConfig::slabElements(signature));
  for (int i = 1; i < rank; ++i)
    map.box[i] = 1;
  map.swizzle = TensorMapSwizzle::B128;
  map.l2Promotion = L2Promotion::B128;
  return map;
}

void Sm90AttentionBinder::setDim(TensorMapSpec &map, int dim, int64_t extent,
                                 int64_t stride) const {
  setExtent(map, dim, extent, stride * bytesOf(signature.q));
}

/// (element, head within a tile, token, group of such heads, sequence). If
/// tiles are ragged, a group has the heads of one head of K: heads behind it
/// are zeros.
TensorMapSpec Sm90AttentionBinder::queryMap(const StoredRows &rows,
                                            int64_t group,
                                            int64_t tokens) const {
  TensorMapSpec map = emptyMap(5);
  int64_t together = config.ragged ? group : config.packed;
  map.dims[0] = static_cast<uint64_t>(rows.elements);
  setDim(map, 1, together, rows.strides.head);
  setDim(map, 2, rows.tokens, rows.strides.token);
  setDim(map, 3, rows.heads / together, rows.strides.head * together);
  setDim(map, 4, rows.batch, rows.strides.batch);
  map.box[1] = static_cast<uint32_t>(config.packed);
  map.box[2] = static_cast<uint32_t>(tokens);
  return map;
}

/// (element, token, head, sequence or page).
TensorMapSpec Sm90AttentionBinder::keyMap(const StoredRows &rows,
                                          int64_t tokens) const {
  TensorMapSpec map = emptyMap(4);
  map.dims[0] = static_cast<uint64_t>(rows.elements);
  setDim(map, 1, rows.tokens, rows.strides.token);
  setDim(map, 2, rows.heads, rows.strides.head);
  setDim(map, 3, rows.batch, rows.strides.batch);
  map.box[1] = static_cast<uint32_t>(tokens);
  return map;
}

/// Tokens of a box of K and V.
int64_t Sm90AttentionBinder::boxRows(const AttentionProblem &problem) const {
  bool isPaged = signature.pages != AttentionPages::None;
  return isPaged ? std::min<int64_t>(config.blockN, problem.pageSize)
                 : config.blockN;
}

/// Packed sequences are one long sequence; sequences that share Q, or K and V,
/// also count as one.
Sm90AttentionBinder::Maps
Sm90AttentionBinder::mapsOf(const AttentionProblem &problem,
                            const HeadStrides &q, const HeadStrides &k,
                            const HeadStrides &v) const {
  bool packsQueries = signature.queryLengths == AttentionLengths::Packed;
  bool packsKeys = signature.keyLengths == AttentionLengths::Packed;
  bool isPaged = signature.pages != AttentionPages::None;
  int64_t queries = problem.queryRows(), keys = problem.keyRows();
  int64_t queryBatch = packsQueries || q.batch == 0 ? 1 : problem.batch;
  int64_t keyBatch = isPaged     ? problem.pageCount
                     : packsKeys ? 1
                                 : problem.batch;
  auto keyRowsOf = [&](int64_t elements, const HeadStrides &strides) {
    return StoredRows{elements, keys, problem.kvHeads,
                      strides.batch == 0 ? 1 : keyBatch, strides};
  };
  int64_t box = boxRows(problem);
  return {queryMap({problem.headDim, queries, problem.heads, queryBatch, q},
                   problem.group(), config.consumerTokens()),
          keyMap(keyRowsOf(problem.headDim, k), box),
          keyMap(keyRowsOf(problem.valueDim, v), box)};
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

/// Tensor maps are made by the launch.
Sm90AttentionParams Sm90AttentionBinder::makeParams(
    const AttentionProblem &problem, const Sm90AttentionGrid &grid,
    const Arguments &arguments, const LaunchContext &context) const {
  Sm90AttentionParams params;
  AttentionParams &attention = params.attention;
  attention = makeAttentionParams(problem, arguments, scaleByDefault);
  attention.splits = static_cast<int>(grid.splits);
  attention.splitKeys = static_cast<int>(grid.splitKeys);
  if (grid.splits > 1)
    placePartials(context.scratch, grid.splits * partialRowsOf(problem),
                  problem.valueDim, attention);
  if (config.dynamic)
    attention.counter = reinterpret_cast<unsigned *>(context.zeroed);
  bool packsQueries = signature.queryLengths == AttentionLengths::Packed;
  bool packsKeys = signature.keyLengths == AttentionLengths::Packed;
  params.batchStepQ = !packsQueries && attention.qStrides.batch != 0;
  params.batchStepK = !packsKeys && attention.kStrides.batch != 0;
  params.batchStepV = !packsKeys && attention.vStrides.batch != 0;
  params.schedule = grid.schedule();
  params.pageRows = static_cast<int>(boxRows(problem));
  return params;
}

void Sm90AttentionBinder::bind(const Arguments &arguments,
                               const LaunchContext &context,
                               LaunchSpec &spec) const noexcept {
  AttentionProblem problem = readLaunchedAttention(arguments.problem);
  Sm90AttentionGrid grid(problem, config, context.smCount, l2Bytes);
  if (config.dynamic)
    context.zero(sizeof(unsigned), spec);
  KernelStep &step = spec.addKernelOf(
      [&] { return makeParams(problem, grid, arguments, context); });
  const AttentionParams &attention =
      spec.paramsOf<Sm90AttentionParams>(step).attention;
  step.grid.x =
      static_cast<uint32_t>(std::min<int64_t>(grid.tiles(), context.smCount));
  step.block.x = static_cast<uint32_t>(config.threads());
  step.sharedBytes = static_cast<uint32_t>(config.sharedBytes(signature));
  Maps maps = mapsOf(problem, attention.qStrides, attention.kStrides,
                     attention.vStrides);
  // In the order of Plan::tensorMaps.
  const EncodedTensorMap *prototype = context.tensorMaps;
  auto add = [&](const TensorMapSpec &map, const TensorMapSpec &plannedMap,
                 int operand, size_t member) {
    DeviceAddress address = arguments.operands[operand].address;
    // Without keys K and V may be missing; they are not read then.
    if (address == 0)
      address = arguments.operands[AttentionOperand::O].address;
    addTensorMap(map, plannedMap, *prototype++, address,
                 step.paramOffset + member, spec);
  };
  add(maps.q, planned.q, AttentionOperand::Q, offsetof(Sm90AttentionParams, q));
  add(maps.k, planned.k, AttentionOperand::K, offsetof(Sm90AttentionParams, k));
  add(maps.v, planned.v, valueOperandOf(problem),
      offsetof(Sm90AttentionParams, v));
  if (grid.splits > 1)
    addCombineStep(attention, kSm90Combine, /*function=*/1, /*dependent=*/true,
                   spec);
}

void completeSm90AttentionPlan(const AttentionProblem &problem,
                               const AttentionSignature &signature,
                               const Sm90AttentionConfig &config,
                               const DeviceModel &device, Plan &plan) {
  auto binder =
      std::make_shared<Sm90AttentionBinder>(problem, signature, config, device);
  const Sm90AttentionBinder::Maps &maps = binder->maps();
  plan.tensorMaps = {maps.q, maps.k, maps.v};
  Sm90AttentionGrid grid(problem, config, device.smCount, device.l2Bytes);
  if (grid.splits > 1) {
    plan.kernels.push_back(makeCombineUnit(signature, kSm90Combine, device));
    plan.sharedBytes.push_back(0);
  }
  plan.binder = std::move(binder);
}

} // namespace kiln
