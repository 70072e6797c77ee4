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

uint64_t matrixBytes(const ModelConfig &model) {
  const int64_t rows = 2 * model.qRows() + 2 * model.kvRows() +
                       3 * model.intermediateSize; // or columns
  return kElement *
         (product(model.layers, 1) * product(rows, model.hiddenSize) +
          product(model.vocabSize, model.hiddenSize));
}

uint64_t cacheBytes(const ModelConfig &model, int64_t tokens) {
  return kElement * product(2 * model.layers * tokens, model.kvRows());
}

MemoryNeeds memoryNeeds(const ModelConfig &model, int64_t tokens,
                        int64_t sequences, int64_t pages, int64_t pageTokens) {
  MemoryNeeds needs;
  needs.weights = matrixBytes(model);
  if (!model.tieEmbeddings)
    needs.weights += kElement * product(model.vocabSize, model.hiddenSize);
  const int64_t ofToken = 2 * model.hiddenSize + 2 * model.qRows() +
                          2 * model.kvRows() + model.intermediateSize;
  needs.activations = kElement * product(tokens, ofToken) +
                      sizeof(float) * product(sequences, model.vocabSize);
  needs.pages = pages == 0 ? kLeastPages : pages;
  needs.cache = cacheBytes(model, needs.pages * pageTokens);
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
