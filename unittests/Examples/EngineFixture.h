// The stand-ins for the driver and the compiler, and a checkpoint of a tiny
// model.
#pragma once

#include "Fakes/FakeCuda.h"
#include "Support/TemporaryFolder.h"
#include "llama/Checkpoint.h"
#include "llama/MemoryNeeds.h"
#include "llama/RandomCheckpoint.h"
#include "llama/Runner.h"
#include "llama/WeightFiller.h"

#include <cstdlib>
#include <optional>
#include <string>

namespace llama {

struct EngineFixture {
  explicit EngineFixture(const char *preset = "tiny")
      : model(presetConfig(preset)) {
    kilnFakeReset();
    setenv("KILN_DRIVER", KILN_BINARY_DIR "/lib/libkiln_fake_cuda.so", 1);
    setenv("KILN_NVRTC", KILN_BINARY_DIR "/lib/libkiln_fake_nvrtc.so", 1);
    writeRandomCheckpoint(folder.path, presetText(preset), 5);
    checkpoint.emplace(folder.path);
    source.checkpoint = &*checkpoint;
    options.mode = KILN_MODE_PREDICT;
    options.tokenBudget = 64;
    options.maxSequences = 4;
    options.maxPositions = 256;
    options.pages = 32;
    options.cacheDir = folder.path + "/cache";
  }

  EngineRoom room() const {
    return {options.tokenBudget, options.maxSequences, options.pages,
            options.pageTokens,  options.cache,        options.maxPositions};
  }
  DeviceWeights load(const Gpu &gpu) const {
    WeightFiller filler(gpu, model, source, nullptr);
    return {gpu, planWeights(model, source), filler, nullptr};
  }

  kiln::testing::TemporaryFolder folder;
  std::optional<Checkpoint> checkpoint;
  WeightSource source;
  RunnerOptions options;
  ModelConfig model;
};

inline Request requestOf(int64_t prompt, int64_t newTokens) {
  Request request;
  request.prompt.assign(static_cast<size_t>(prompt), 7);
  request.maxNewTokens = newTokens;
  return request;
}

} // namespace llama
