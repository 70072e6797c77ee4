//===- SpreadRoute.cpp - a route in two kernels ---------------------------===//
#include "Families/Route/RouteTemplate.h"

#include "route/RouteScatterConfig.h"
#include "route/SpreadRouteConfig.h"

namespace kiln {

namespace {

constexpr RouteScatterConfig kScatter{};

/// The blocks of both kernels, and the tokens of each.
struct RouteGrid {
  int64_t blocks, blockTokens;

  RouteGrid(int64_t tokens, int threads, int64_t smCount) {
    constexpr int64_t kLanes = 32;
    // Each block reads the counts of all, so there are no more than run at
    // once.
    blocks = std::clamp<int64_t>(ceilDiv(tokens, threads / kLanes), 1, smCount);
    blockTokens = std::max<int64_t>(ceilDiv(tokens, blocks), 1);
    blocks = std::max<int64_t>(ceilDiv(tokens, blockTokens), 1);
  }
};

/// Scratch: counts, then ranks.
constexpr uint64_t kRankBytes = sizeof(unsigned);
uint64_t countBytes(const RouteProblem &p, const DeviceModel &device) {
  return uint64_t(device.smCount * p.experts) * sizeof(unsigned);
}

class SpreadRouteTemplate final
    : public MemoryPassTemplate<SpreadRouteTemplate, SpreadRouteConfig> {
public:
  SpreadRouteTemplate()
      : MemoryPassTemplate({"route/SpreadRoute.cuh", "RouteSignature",
                            "SpreadRouteConfig", "RouteParams",
                            "spreadRoute"}) {}

  void enumerate(const Problem &problem, const DeviceModel &,
                 llvm::function_ref<void(Values)> emit) const override {
    const RouteProblem p = read(problem);
    for (int threads : {1024, 512, 256})
      for (int chunks : {2, 4, 1})
        emit(valuesOf({threads, routeItems(p), chunks}));
  }

  CandidateClass classOfConfig(const SpreadRouteConfig &config) const override {
    constexpr int kSpread = 2;
    return {classKey({kSpread, config.blockThreads}), 0};
  }

  WorkspaceLayout workspace(const Problem &problem, const Values &,
                            const DeviceModel &device) const override {
    const RouteProblem p = read(problem);
    return {0, countBytes(p, device) + uint64_t(p.choices()) * kRankBytes};
  }

  Plan plan(const Problem &problem, const Values &values,
            const DeviceModel &device) const override;

  template <Number N>
  MemoryPass<N> pass(const Problem &problem, const SpreadRouteConfig &config,
                     const DeviceModel &device) const;

protected:
  std::optional<Rejection>
  checkConfig(const Problem &problem, const SpreadRouteConfig &config,
              const DeviceModel &device) const override {
    return checkRouteConfig(read(problem), config, device);
  }

private:
  static RouteProblem read(const Problem &problem) {
    return readRouteProblem(problem.values.array().data());
  }
};

} // namespace

/// Launch, sums of all blocks' counts, the scan and the scatter.
template <Number N>
static N scatterNs(const RouteProblem &p, const RouteGrid &grid,
                   const DeviceModel &device) {
  // Loads of a thread that are in flight at once.
  constexpr int64_t kAhead = 8;
  const int64_t parts = std::max<int64_t>(kScatter.threads() / p.experts, 1);
  const int64_t turns = ceilDiv(p.experts, int64_t(kScatter.threads()));
  const int64_t waits =
      turns * ceilDiv(ceilDiv(grid.blocks, parts), kAhead) + 2;
  constexpr double kStartNs = 1200;
  const N counts = given<N>(double(grid.blocks * grid.blocks) *
                                double(p.experts) * sizeof(unsigned),
                            "counts that blocks read", "B") /
                   deviceValue<N>(device, &DeviceModel::l2GBs);
  return named(fitted<N>(kStartNs, "start of the second kernel", "ns") +
                   given<N>(double(waits), "loads in a row") *
                       deviceValue<N>(device, &DeviceModel::l2LatencyNs) +
                   counts,
               "second kernel", "ns");
}

template <Number N>
MemoryPass<N> SpreadRouteTemplate::pass(const Problem &problem,
                                        const SpreadRouteConfig &config,
                                        const DeviceModel &device) const {
  const RouteProblem p = read(problem);
  const RouteGrid grid(p.tokens, config.threads(), device.smCount);
  const RouteWork work{.tokens = grid.blockTokens,
                       .threads = config.threads(),
                       .items = config.items};
  MemoryPass<N> kernel = routePass<N>(p, config, work);
  kernel.tasks = grid.blocks;
  kernel.serialNs = routeNs<N>(p, work, device) + scatterNs<N>(p, grid, device);
  return kernel;
}

Plan SpreadRouteTemplate::plan(const Problem &problem, const Values &values,
                               const DeviceModel &device) const {
  const auto config = fromValues<SpreadRouteConfig>(values);
  const RouteSignature signature = readRouteSignature(problem.signature);
  const int sharedBytes = config.sharedBytes(signature);
  constexpr RouteScatterSignature kNone{};
  const int scatterBytes = kScatter.sharedBytes(kNone);
  Plan plan = planWithoutBinder(problem, values, signature, config, sharedBytes,
                                device);
  plan.kernels.push_back(
      makeKernelUnit({"route/RouteScatter.cuh", "RouteScatterSignature",
                      "RouteScatterConfig", "RouteParams", "routeScatter"},
                     {.name = stepName(routeProblemSchema(), "scatter"),
                      .signature = "{}",
                      .config = "{}",
                      .threads = kScatter.threads(),
                      .sharedBytes = scatterBytes},
                     device));
  plan.sharedBytes.push_back(static_cast<uint32_t>(scatterBytes));
  plan.workspace = workspace(problem, values, device);
  const uint64_t ranksAt = countBytes(read(problem), device);
  plan.binder = makeBinder(
      [config, sharedBytes, scatterBytes, ranksAt, smCount = device.smCount,
       depends = hasDependentLaunch(device)](const Arguments &arguments,
                                             const LaunchContext &context,
                                             LaunchSpec &spec) {
        const RouteProblem p = readRouteProblem(arguments.problem);
        const RouteGrid grid(p.tokens, config.threads(), smCount);
        RouteParams params = makeRouteParams(p, arguments);
        params.blockTokens = static_cast<int>(grid.blockTokens);
        params.counts = reinterpret_cast<unsigned *>(context.scratch);
        params.ranks = reinterpret_cast<unsigned *>(context.scratch + ranksAt);
        KernelStep &first = spec.addKernel(params);
        first.grid.x = static_cast<uint32_t>(grid.blocks);
        first.block.x = static_cast<uint32_t>(config.threads());
        first.sharedBytes = static_cast<uint32_t>(sharedBytes);
        KernelStep &second = spec.addKernel(params);
        second.function = 1;
        second.grid.x = static_cast<uint32_t>(grid.blocks);
        second.block.x = static_cast<uint32_t>(kScatter.threads());
        second.sharedBytes = static_cast<uint32_t>(scatterBytes);
        second.dependentLaunch = depends;
      });
  return plan;
}

std::unique_ptr<Template> makeSpreadRouteTemplate() {
  return std::make_unique<SpreadRouteTemplate>();
}

} // namespace kiln
