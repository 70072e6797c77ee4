//===- ClusterRoute.cpp - a route in one kernel ---------------------------===//
#include "Families/Route/RouteTemplate.h"

#include "route/ClusterRouteConfig.h"

namespace kiln {

namespace {

class ClusterRouteTemplate final
    : public MemoryPassTemplate<ClusterRouteTemplate, ClusterRouteConfig> {
public:
  ClusterRouteTemplate()
      : MemoryPassTemplate({"route/ClusterRoute.cuh", "RouteSignature",
                            "ClusterRouteConfig", "RouteParams",
                            "clusterRoute"}) {}

  /// A single block serves every problem.
  bool isGeneric() const override { return true; }

  void enumerate(const Problem &problem, const DeviceModel &device,
                 llvm::function_ref<void(Values)> emit) const override;

  CandidateClass
  classOfConfig(const ClusterRouteConfig &config) const override {
    constexpr int kCluster = 1;
    return {classKey({kCluster, config.cluster}), 0};
  }

  Plan plan(const Problem &problem, const Values &values,
            const DeviceModel &device) const override;

  template <Number N>
  MemoryPass<N> pass(const Problem &problem, const ClusterRouteConfig &config,
                     const DeviceModel &device) const;

protected:
  std::optional<Rejection>
  checkConfig(const Problem &problem, const ClusterRouteConfig &config,
              const DeviceModel &device) const override {
    constexpr int kFirstCapability = 90;
    if (config.cluster > 1 && !device.hasClusters())
      return Rejection{PruneReason::Architecture,
                       double(device.computeCapability()), kFirstCapability};
    return checkRouteConfig(read(problem), config, device);
  }

private:
  static RouteProblem read(const Problem &problem) {
    return readRouteProblem(problem.values.array().data());
  }
};

} // namespace

void ClusterRouteTemplate::enumerate(
    const Problem &problem, const DeviceModel &,
    llvm::function_ref<void(Values)> emit) const {
  const RouteProblem p = read(problem);
  constexpr int kMostChunks = 8;
  constexpr int64_t kLanes = 32;
  for (int cluster : {1, 8, 4, 2}) {
    const int64_t each = ceilDiv(std::max<int64_t>(p.tokens, 1), cluster);
    // A block of a cluster is worth its exchange for several tokens.
    if (cluster > 1 && each < 2)
      continue;
    int chunks = 1;
    while (chunks < kMostChunks && chunks * int64_t(kRouteChunk) < each)
      chunks *= 2;
    for (int threads : {256, 512, 1024, 128}) {
      // More warps than tokens help only to clear and to count.
      if (threads > 256 && threads / kLanes / 2 >= each)
        continue;
      emit(valuesOf({threads, routeItems(p), chunks, cluster}));
    }
    if (chunks > 1 && cluster == 1)
      emit(valuesOf({256, routeItems(p), 1, 1}));
  }
}

template <Number N>
MemoryPass<N> ClusterRouteTemplate::pass(const Problem &problem,
                                         const ClusterRouteConfig &config,
                                         const DeviceModel &device) const {
  const RouteProblem p = read(problem);
  RouteWork work{.tokens = ceilDiv(std::max<int64_t>(p.tokens, 1),
                                   int64_t(config.cluster)),
                 .threads = config.threads(),
                 .items = config.items};
  if (work.tokens > config.passTokens())
    work.routings = 2;
  MemoryPass<N> kernel = routePass<N>(p, config, work);
  kernel.clusterSize = config.cluster;
  kernel.serialNs = routeNs<N>(p, work, device);
  // Stores into other blocks, and a barrier of the cluster.
  constexpr double kExchangeNs = 900;
  if (config.cluster > 1)
    kernel.serialNs += fitted<N>(kExchangeNs, "exchange of a cluster", "ns");
  return kernel;
}

Plan ClusterRouteTemplate::plan(const Problem &problem, const Values &values,
                                const DeviceModel &device) const {
  const auto config = fromValues<ClusterRouteConfig>(values);
  const RouteSignature signature = readRouteSignature(problem.signature);
  const int sharedBytes = config.sharedBytes(signature);
  Plan plan = planWithoutBinder(problem, values, signature, config, sharedBytes,
                                device);
  plan.binder = makeBinder([config, sharedBytes](const Arguments &arguments,
                                                 const LaunchContext &,
                                                 LaunchSpec &spec) {
    const RouteProblem p = readRouteProblem(arguments.problem);
    RouteParams params = makeRouteParams(p, arguments);
    params.blockTokens =
        static_cast<int>(ceilDiv(p.tokens, int64_t(config.cluster)));
    KernelStep &step = spec.addKernel(params);
    step.grid.x = static_cast<uint32_t>(config.cluster);
    step.block.x = static_cast<uint32_t>(config.threads());
    if (config.cluster > 1)
      step.cluster.x = static_cast<uint32_t>(config.cluster);
    step.sharedBytes = static_cast<uint32_t>(sharedBytes);
  });
  return plan;
}

std::unique_ptr<Template> makeClusterRouteTemplate() {
  return std::make_unique<ClusterRouteTemplate>();
}

} // namespace kiln
