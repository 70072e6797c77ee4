//===- KvCache.h - keys and values of all sequences -----------------------===//
#ifndef KILN_EXAMPLES_LLAMA_KVCACHE_H
#define KILN_EXAMPLES_LLAMA_KVCACHE_H

#include "Gpu.h"
#include "ModelConfig.h"

#include <cstdint>

namespace llama {

/// Owns [layer][2][page][token][head][element] in device memory.
class KvCache {
public:
  KvCache(const Gpu &gpu, const ModelConfig &model, int64_t pageTokens)
      : gpu(gpu), model(model), tokensOfPage(pageTokens) {}

  /// Once. Before it, addresses are null.
  void make(int64_t pages);

  int64_t pageTokens() const { return tokensOfPage; }
  int64_t pages() const { return pageCount; }
  void *keys(int64_t layer) const { return at(2 * layer); }
  void *values(int64_t layer) const { return at(2 * layer + 1); }

private:
  void *at(int64_t part) const;

  const Gpu &gpu;
  const ModelConfig &model;
  int64_t tokensOfPage, pageCount = 0;
  DeviceMemory memory;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_KVCACHE_H
