//===- KvCache.h - keys and values of all sequences -----------------------===//
#ifndef KILN_EXAMPLES_LLAMA_KVCACHE_H
#define KILN_EXAMPLES_LLAMA_KVCACHE_H

#include "CacheType.h"
#include "Gpu.h"
#include "ModelConfig.h"

#include <cstdint>
#include <vector>

namespace llama {

/// Owns [layer][2][page][token][head][element] in device memory, and with E4m3
/// the scales of each layer.
class KvCache {
public:
  /// \p scales: as cacheScales() gives them.
  KvCache(const Gpu &gpu, const ModelConfig &model, CacheType type,
          const std::vector<float> &scales, int64_t pageTokens);

  /// Once. Before it, addresses are null.
  void make(int64_t pages);

  CacheType type() const { return stored; }
  int64_t pageTokens() const { return tokensOfPage; }
  int64_t pages() const { return pageCount; }
  void *keys(int64_t layer) const { return at(2 * layer); }
  void *values(int64_t layer) const { return at(2 * layer + 1); }
  /// One fp32 each, with E4m3.
  float *keyScale(int64_t layer) const { return scaleAt(2 * layer); }
  float *valueScale(int64_t layer) const { return scaleAt(2 * layer + 1); }

private:
  void *at(int64_t part) const;
  float *scaleAt(int64_t part) const {
    return scaleMemory.at<float>(sizeof(float) * static_cast<uint64_t>(part));
  }

  const Gpu &gpu;
  const ModelConfig &model;
  CacheType stored;
  int64_t tokensOfPage, pageCount = 0;
  DeviceMemory memory, scaleMemory;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_KVCACHE_H
