//===- MemoryNeeds.h - does an engine fit a device? -----------------------===//
//
// Bytes that follow from a model and the room of its steps. They are known
// before anything is allocated or measured, so an engine that cannot fit says
// so at once, and not after minutes of preparing.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_MEMORYNEEDS_H
#define KILN_EXAMPLES_LLAMA_MEMORYNEEDS_H

#include "ModelConfig.h"

#include <cstdint>

namespace llama {

/// The matrices of all layers and the head, which a step reads once.
uint64_t matrixBytes(const ModelConfig &model);

/// Keys and values of \p tokens tokens, in all layers.
uint64_t cacheBytes(const ModelConfig &model, int64_t tokens);

/// Lower bounds: kernels, workspace and the driver's own memory come on top.
struct MemoryNeeds {
  uint64_t weights = 0, activations = 0, cache = 0;
  int64_t pages = 0; ///< of the cache

  uint64_t all() const { return weights + activations + cache; }
};

/// A cache needs one page for padding and one for tokens.
constexpr int64_t kLeastPages = 2;

/// Steps of \p tokens tokens and \p sequences sequences, and a cache of
/// \p pages pages of \p pageTokens tokens; 0 pages: the fewest that work.
MemoryNeeds memoryNeeds(const ModelConfig &model, int64_t tokens,
                        int64_t sequences, int64_t pages, int64_t pageTokens);

/// Throws Error, with all numbers and what to change, where \p needs exceed the
/// free bytes of a device.
void requireRoom(const MemoryNeeds &needs, uint64_t freeBytes,
                 uint64_t deviceBytes);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_MEMORYNEEDS_H
