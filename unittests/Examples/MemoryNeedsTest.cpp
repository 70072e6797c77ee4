#include "llama/MemoryNeeds.h"

#include "llama/Bytes.h"
#include "llama/Error.h"

#include <doctest/doctest.h>

#include <string>

using namespace llama;

namespace {
constexpr uint64_t kGiB = uint64_t(1) << 30;

std::string refusalOf(const MemoryNeeds &needs, uint64_t freeBytes) {
  try {
    requireRoom(needs, freeBytes, 80 * kGiB);
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}
} // namespace

TEST_CASE("bytes are told in the unit that suits them") {
  CHECK(bytesText(0) == "0.00 MiB");
  CHECK(bytesText(12'582'912) == "12.00 MiB");
  CHECK(bytesText(kGiB) == "1.00 GiB");
  CHECK(bytesText(16'060'522'496) == "14.96 GiB");
}

TEST_CASE("the bytes of a model follow from its config") {
  const ModelConfig model = presetConfig("llama-3-8b");
  CHECK(cacheBytes(model, CacheType::Bf16, 1) == 131'072);
  CHECK(cacheBytes(model, CacheType::E4m3, 3) == 3 * 65'536);
  EngineRoom room{2048, 64, 100, 64, CacheType::Bf16, 8192};
  const WeightPlan plan = planWeights(model);
  const MemoryNeeds needs = memoryNeeds(model, plan, room);
  CHECK(needs.weights == 2 * 8'030'261'248);
  CHECK(needs.cache == 6400 * 131'072);
  CHECK(needs.activations == 2 * 2048 * (3 * 4096 + 6144 + 14'336) +
                                 2 * 64 * 4096 + 4 * 64 * 128'256 +
                                 4 * 8192 * 128);
  room.cache = CacheType::E4m3;
  CHECK(memoryNeeds(model, plan, room).cache == 6400 * 65'536);
  room.pages = 0;
  CHECK(memoryNeeds(model, plan, room).pages == kLeastPages);
}

TEST_CASE("the activations of a model follow from its weights' types") {
  const ModelConfig model = presetConfig("llama-3-8b");
  const EngineRoom room{2048, 64, 100, 64};
  const auto activations = [&](WeightType type) {
    WeightSource source;
    source.weights = type;
    return memoryNeeds(model, planWeights(model, source), room).activations;
  };
  const uint64_t bf16 = activations(WeightType::Bf16);
  CHECK(activations(WeightType::Int4) == bf16);
  CHECK(activations(WeightType::E4m3Rows) ==
        bf16 + 2048 * (4096 + 14'336 + 4 * 3));
  CHECK(activations(WeightType::E4m3Blocks) ==
        bf16 + 2048 * (4096 + 14'336 + 4 * (32 + 32 + 112)) +
            2048 * 4 * 14'336);
}

TEST_CASE("an engine that does not fit says so with all numbers") {
  const ModelConfig model = presetConfig("llama-3-8b");
  const MemoryNeeds needs =
      memoryNeeds(model, planWeights(model), {2048, 64, 2560, 64});
  CHECK(refusalOf(needs, needs.all()).empty());
  CHECK(
      refusalOf(needs, 20 * kGiB) ==
      "weights (14.96 GiB), activations (159.81 MiB) and a KV cache of 2560 "
      "pages (20.00 GiB) need 35.11 GiB and do not fit: the device has 20.00 "
      "GiB free of 80.00 GiB; choose fewer --pages, a smaller --token-budget, "
      "or --kv-cache e4m3");
  const std::string small = refusalOf(needs, 10 * kGiB);
  CHECK(small.find("; choose a model with fewer weights, --weights of fewer "
                   "bits, or --layers") != std::string::npos);
}
