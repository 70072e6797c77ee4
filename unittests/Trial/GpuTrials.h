//===- GpuTrials.h - trials on the GPU of this machine --------------------===//
#pragma once

#include "Cache/Store.h"
#include "Driver/Context.h"
#include "Driver/Driver.h"
#include "Store/ArtifactStore.h"
#include "Store/DeviceAssembly.h"
#include "Store/StoreFixture.h"
#include "Trial/InProcessTrials.h"

#include <memory>
#include <string>
#include <vector>

namespace kiln::fake {

/// The driver and the NVRTC of an environment, by default the real ones, on an
/// empty cache.
struct GpuTrials {
  explicit GpuTrials(Registry given,
                     Environment where = Environment::fromProcess())
      : environment(std::move(where)), registry(std::move(given)) {
    device = must(assembleDevice(driver.get(), environment, {})).model;
    cache::StoreOptions cacheOptions;
    cacheOptions.writeDir = folder.path();
    cache = cache::Store::open(cacheOptions);
    ArtifactStoreOptions options;
    options.nvrtc = NvrtcSearch::fromEnvironment(
        environment, {KILN_SOURCE_DIR "/build/cuda"});
    artifacts = std::make_unique<ArtifactStore>(*cache, std::move(options));
    // The scratch memory of the largest cases on any GPU.
    InProcessTrialsOptions trials;
    trials.scratchBytes = 8ull << 30;
    runner = must(InProcessTrials::create(*driver, device, *artifacts, trials));
  }

  /// Makes the request for configs of one problem; compiles missing kernels.
  TrialRequest request(const KernelFamily &family, const Problem &problem,
                       const std::vector<std::string> &configs) {
    TrialRequest request;
    request.family = &family;
    request.problem = problem;
    request.options.validation = TrialValidation::All;
    for (const std::string &config : configs) {
      auto named = must(family.parseConfig(config));
      TrialCandidate &candidate = request.candidates.emplace_back();
      candidate.plan = named.tmpl->plan(problem, named.config, device);
      for (const TranslationUnit &unit : candidate.plan.kernels)
        candidate.artifacts.push_back(must(artifacts->get(unit)));
    }
    return request;
  }

  Environment environment;
  std::shared_ptr<Driver> driver = must(Driver::load(environment));
  PrimaryContext primary = must(PrimaryContext::retain(*driver, 0));
  ScopedContext current = must(ScopedContext::push(*driver, primary.handle()));
  TemporaryFolder folder;
  Registry registry;
  DeviceModel device;
  std::unique_ptr<cache::Store> cache;
  std::unique_ptr<ArtifactStore> artifacts;
  std::unique_ptr<InProcessTrials> runner;
};

} // namespace kiln::fake
