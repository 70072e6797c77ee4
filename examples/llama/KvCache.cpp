//===- KvCache.cpp --------------------------------------------------------===//
#include "KvCache.h"

#include "MemoryNeeds.h"

namespace llama {

void KvCache::make(int64_t pages) {
  pageCount = pages;
  memory = DeviceMemory(gpu, cacheBytes(model, tokensOfPage * pages),
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
