//===- MemoryNeeds.h - does an engine fit a device? -----------------------===//
//
// Bytes that follow from a model and the room of its steps. They are known
// before anything is allocated or measured, so an engine that cannot fit says
// so at once, and not after minutes of preparing.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_MEMORYNEEDS_H
#define KILN_EXAMPLES_LLAMA_MEMORYNEEDS_H

#include "CacheType.h"
#include "ModelConfig.h"
#include "WeightPlan.h"

#include <cstdint>
#include <vector>

namespace llama {

/// Keys and values of \p tokens tokens, in all layers.
uint64_t cacheBytes(const ModelConfig &model, CacheType type, int64_t tokens);

/// A token's part of the matrix between the products of an MLP: one row, or
/// with experts a row for each that it chooses.
struct InnerShape {
  int64_t rows = 0, columns = 0;
};
/// The shapes in layers without and with experts, as far as there are any.
std::vector<InnerShape> innerShapes(const ModelConfig &model);
/// Elements of the largest.
int64_t innerRow(const ModelConfig &model);

/// Scales of a quantised row of \p columns columns.
int64_t rowScales(bool hasBlocks, int64_t columns);
/// Scales of a token's rows in the largest of innerShapes().
int64_t innerScaleCount(const ModelConfig &model, bool hasBlocks);

/// Lower bounds: kernels, workspace and the driver's own memory come on top.
struct MemoryNeeds {
  uint64_t weights = 0, activations = 0, cache = 0;
  int64_t pages = 0; ///< of the cache

  uint64_t all() const { return weights + activations + cache; }
};

/// A cache needs one page for padding and one for tokens.
constexpr int64_t kLeastPages = 2;

/// Steps of `tokens` tokens and `sequences` sequences, a cache, and a table.
struct EngineRoom {
  int64_t tokens = 0, sequences = 0;
  int64_t pages = 0; ///< 0: the fewest that work
  int64_t pageTokens = 0;
  CacheType cache = CacheType::Bf16;
  int64_t positions = 0; ///< of the table of rotations
};

MemoryNeeds memoryNeeds(const ModelConfig &model, const WeightPlan &plan,
                        const EngineRoom &room);

/// Throws Error, with all numbers and what to change, where \p needs exceed the
/// free bytes of a device.
void requireRoom(const MemoryNeeds &needs, uint64_t freeBytes,
                 uint64_t deviceBytes);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_MEMORYNEEDS_H
