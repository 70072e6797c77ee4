//===- MemoryNeeds.cpp ----------------------------------------------------===//
#include "MemoryNeeds.h"

#include "Bytes.h"
#include "Error.h"

#include <string>

namespace llama {

namespace {
constexpr uint64_t kElement = 2; // bytes of a bf16

uint64_t product(int64_t rows, int64_t columns) {
  return static_cast<uint64_t>(rows) * static_cast<uint64_t>(columns);
}
} // namespace

uint64_t cacheBytes(const ModelConfig &model, CacheType type, int64_t tokens) {
  return product(bytesOf(type), 2 * model.layers * tokens) *
         product(model.kvRows(), 1);
}

MemoryNeeds memoryNeeds(const ModelConfig &model, const WeightPlan &plan,
                        const EngineRoom &room) {
  MemoryNeeds needs;
  needs.weights = plan.bytes;
  int64_t ofToken = 2 * model.hiddenSize + 2 * model.qRows() +
                    2 * model.kvRows() + model.intermediateSize;
  const bool hasBlocks = plan.hasProductOf(WeightType::E4m3Blocks);
  if (hasBlocks) // gate and up, each
    ofToken += 2 * model.intermediateSize;
  needs.activations = kElement * product(room.tokens, ofToken) +
                      sizeof(float) * product(room.sequences, model.vocabSize);
  if (hasBlocks || plan.hasProductOf(WeightType::E4m3Rows))
    needs.activations +=
        product(room.tokens, model.qRows() + model.intermediateSize);
  needs.pages = room.pages == 0 ? kLeastPages : room.pages;
  needs.cache = cacheBytes(model, room.cache, needs.pages * room.pageTokens);
  return needs;
}

void requireRoom(const MemoryNeeds &needs, uint64_t freeBytes,
                 uint64_t deviceBytes) {
  if (needs.all() <= freeBytes)
    return;
  const std::string pages = std::to_string(needs.pages);
  const char *advice = needs.weights > freeBytes
                           ? "a model with fewer weights, or --layers"
                           : "fewer --pages, or a smaller --token-budget";
  throw Error("weights (" + bytesText(needs.weights) + "), activations (" +
              bytesText(needs.activations) + ") and a KV cache of " + pages +
              " pages (" + bytesText(needs.cache) + ") need " +
              bytesText(needs.all()) + " and do not fit: the device has " +
              bytesText(freeBytes) + " free of " + bytesText(deviceBytes) +
              "; choose " + advice);
}

} // namespace llama
