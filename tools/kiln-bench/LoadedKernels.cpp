//===- LoadedKernels.cpp --------------------------------------------------===//
#include "kiln-bench/LoadedKernels.h"

namespace kiln::cli {

void LoadedKernels::hear(void *self, const kiln_event *event) {
  if (event->kind != KILN_EVENT_LOADED || event->status != KILN_SUCCESS ||
      !event->problem || !event->config)
    return;
  auto *kernels = static_cast<LoadedKernels *>(self);
  std::lock_guard<std::mutex> lock(kernels->mutex);
  kernels->heard.emplace_back(event->problem, event->config);
}

/// The kernels of \p config; none if it cannot be read, or cannot run at
/// \p problem, which stands for all that its plan is for.
static std::vector<TranslationUnit> unitsOf(const Registry &registry,
                                            const DeviceModel &device,
                                            const std::string &problem,
                                            const std::string &config) {
  auto named = registry.parseProblem(problem);
  if (!named) {
    llvm::consumeError(named.takeError());
    return {};
  }
  auto parsed = named->family->parseConfig(config);
  if (!parsed) {
    llvm::consumeError(parsed.takeError());
    return {};
  }
  if (parsed->tmpl->prune(named->problem, parsed->config, device))
    return {};
  Plan plan = parsed->tmpl->plan(named->problem, parsed->config, device);
  return {plan.kernels.begin(), plan.kernels.end()};
}

LoadedKernels::Sum LoadedKernels::takeNew(ArtifactStore &artifacts) {
  std::vector<std::pair<std::string, std::string>> taken;
  {
    std::lock_guard<std::mutex> lock(mutex);
    taken.swap(heard);
  }
  std::set<std::string> keys;
  Sum sum;
  for (const auto &[problem, config] : taken) {
    const std::vector<TranslationUnit> units =
        unitsOf(registry, device, problem, config);
    // It is there, whatever its size.
    if (units.empty() && keys.insert(config).second) {
      known.try_emplace(config);
      ++sum.kernels;
    }
    for (const TranslationUnit &unit : units) {
      std::string key = artifactKey(unit);
      if (!keys.insert(key).second)
        continue;
      uint64_t &bytes = known[key];
      if (auto artifact = artifacts.lookup(unit))
        bytes = (*artifact)->cubin.size();
      ++sum.kernels;
      sum.cubinBytes += bytes;
    }
  }
  return sum;
}

LoadedKernels::Sum LoadedKernels::all() const {
  Sum sum{known.size(), 0};
  for (const auto &[key, bytes] : known)
    sum.cubinBytes += bytes;
  return sum;
}

} // namespace kiln::cli
