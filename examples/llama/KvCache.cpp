//===- KvCache.cpp --------------------------------------------------------===//
#include "KvCache.h"

#include "MemoryNeeds.h"

namespace llama {

KvCache::KvCache(const Gpu &gpu, const ModelConfig &model, CacheType type,
                 const std::vector<float> &scales, int64_t pageTokens)
    : gpu(gpu), model(model), stored(type), tokensOfPage(pageTokens) {
  if (type != CacheType::E4m3)
    return;
  const uint64_t bytes = scales.size() * sizeof(float);
  scaleMemory = DeviceMemory(gpu, bytes, MemoryUse::Activations);
  scaleMemory.upload(scales.data(), bytes);
}

void KvCache::make(int64_t pages) {
  pageCount = pages;
  memory = DeviceMemory(gpu, cacheBytes(model, stored, tokensOfPage * pages),
                        MemoryUse::Cache);
  // Rows that no token has written are read behind masks: they are finite.
  memory.zero();
}

void *KvCache::at(int64_t part) const {
  if (memory.address() == 0) // while problems are described
    return nullptr;
  const uint64_t partBytes =
      memory.bytes() / (2 * static_cast<uint64_t>(model.layers));
  return memory.at<void>(static_cast<uint64_t>(part) * partBytes);
}

} // namespace llama
