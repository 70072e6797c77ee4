//===- MemoryNeeds.cpp ----------------------------------------------------===//
#include "MemoryNeeds.h"

#include "Bytes.h"
#include "Error.h"

#include <algorithm>
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

std::vector<InnerShape> innerShapes(const ModelConfig &model) {
  std::vector<InnerShape> shapes;
  const int64_t ofExperts = model.expertLayers();
  if (ofExperts < model.layers)
    shapes.push_back({1, model.intermediateSize});
  if (ofExperts > 0)
    shapes.push_back({model.experts.perToken, model.experts.innerSize});
  return shapes;
}

int64_t innerRow(const ModelConfig &model) {
  int64_t most = 0;
  for (const InnerShape &shape : innerShapes(model))
    most = std::max(most, shape.rows * shape.columns);
  return most;
}

int64_t rowScales(bool hasBlocks, int64_t columns) {
  return hasBlocks ? (columns + kScaleBlock - 1) / kScaleBlock : 1;
}

int64_t innerScaleCount(const ModelConfig &model, bool hasBlocks) {
  int64_t most = 0;
  for (const InnerShape &shape : innerShapes(model))
    most = std::max(most, shape.rows * rowScales(hasBlocks, shape.columns));
  return most;
}

/// Bytes of a token's quantised rows and their scales.
static uint64_t quantizedBytes(const ModelConfig &model, bool hasBlocks) {
  const auto scales = [&](int64_t columns) {
    return rowScales(hasBlocks, columns);
  };
  return product(1, model.qRows() + innerRow(model) +
                        (model.experts.count > 0 ? model.hiddenSize : 0)) +
         sizeof(float) *
             product(1, scales(model.hiddenSize) + scales(model.qRows()) +
                            innerScaleCount(model, hasBlocks));
}

MemoryNeeds memoryNeeds(const ModelConfig &model, const WeightPlan &plan,
                        const EngineRoom &room) {
  MemoryNeeds needs;
  needs.weights = plan.bytes;
  const int64_t inner = innerRow(model);
  int64_t ofToken = 2 * model.hiddenSize + 2 * model.qRows() +
                    2 * model.kvRows() + inner +
                    model.experts.perToken * model.hiddenSize;
  const bool hasBlocks = plan.hasProductOf(WeightType::E4m3Blocks);
  if (hasBlocks) // gate and up, each
    ofToken += 2 * inner;
  needs.activations =
      kElement * product(room.tokens, ofToken) +
      kElement * product(room.sequences, model.hiddenSize) +
      sizeof(float) * product(room.sequences, model.vocabSize) +
      sizeof(float) * product(room.positions, model.rotaryDim) +
      // The router's logits, and the row and weight of each choice.
      sizeof(float) * product(room.tokens,
                              model.experts.count + 2 * model.experts.perToken);
  if (hasBlocks || plan.hasProductOf(WeightType::E4m3Rows))
    needs.activations +=
        product(room.tokens, 1) * quantizedBytes(model, hasBlocks);
  needs.pages = room.pages == 0 ? kLeastPages : room.pages;
  needs.cache = cacheBytes(model, room.cache, needs.pages * room.pageTokens);
  return needs;
}

void requireRoom(const MemoryNeeds &needs, uint64_t freeBytes,
                 uint64_t deviceBytes) {
  if (needs.all() <= freeBytes)
    return;
  const std::string pages = std::to_string(needs.pages);
  const char *advice =
      needs.weights > freeBytes
          ? "a model with fewer weights, --weights of fewer bits, or --layers"
          : "fewer --pages, a smaller --token-budget, or --kv-cache e4m3";
  throw Error("weights (" + bytesText(needs.weights) + "), activations (" +
              bytesText(needs.activations) + ") and a KV cache of " + pages +
              " pages (" + bytesText(needs.cache) + ") need " +
              bytesText(needs.all()) + " and do not fit: the device has " +
              bytesText(freeBytes) + " free of " + bytesText(deviceBytes) +
              "; choose " + advice);
}

} // namespace llama
