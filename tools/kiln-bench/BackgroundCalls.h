//===- BackgroundCalls.h - random products with known results -------------===//
//
// Operands hold small integers. Their sums are exact in whatever order a kernel
// adds, so every kernel gives the same bits, and a row of D does not depend on
// how many rows there are.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Driver/DeviceMemory.h"
#include "Driver/Stream.h"
#include "cli/Layers.h"
#include "compare/EngineCalls.h"

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace kiln::cli {

/// A call of one layer.
struct ProductCall {
  size_t layer = 0;
  int64_t rows = 0; ///< m
};

/// A call as an engine takes it.
class PreparedCall {
public:
  /// The call of the problem called \p text. \p operands: addresses by slot.
  PreparedCall(std::string text, std::vector<void *> operands)
      : text(std::move(text)), operands(std::move(operands)) {}

  kiln_status launch(kiln_engine *engine, const Stream &stream) const;
  /// The config that serves it in \p engine, which launched it.
  llvm::Expected<std::string> config(kiln_engine *engine,
                                     const Stream &stream) const {
    return configOf(engine, text, stream);
  }

private:
  std::string text;
  std::vector<void *> operands;
};

/// The products of layers, with memory that serves all of them.
class LayerProducts {
public:
  /// Makes the products of \p layers with the rows of \p range, which is of m.
  /// Errors: InvalidArgument for a layer that is not a plain product of fp16,
  /// bf16 or fp32 with contiguous rows of A; those of allocations.
  static llvm::Expected<LayerProducts> create(const Driver &driver,
                                              llvm::ArrayRef<Layer> layers,
                                              const NamedRange &range,
                                              CudaStream stream);

  size_t count() const { return products.size(); }
  /// "llama3-8b/o/m16"
  std::string name(const ProductCall &call) const;

  /// Any layer, and rows log-uniform over the range.
  ProductCall draw(std::mt19937_64 &random) const;
  /// As above for \p layer.
  ProductCall draw(size_t layer, std::mt19937_64 &random) const;
  /// With the result in the memory of all, or at \p to.
  llvm::Expected<PreparedCall> prepare(const ProductCall &call,
                                       DeviceAddress to = 0) const;
  /// Bytes of a result that memory of others has to hold.
  uint64_t bytesOf(const ProductCall &call) const;

  /// Poisons the result of \p call before it is made, in a way that differs
  /// from the call before.
  llvm::Error poison(const ProductCall &call, CudaStream stream);
  /// Whether some rows of \p call, which was made, are right: the first, the
  /// last and two others. At the first call of a layer \p engine computes all
  /// of its rows, which are compared with the exact sums in places. Waits for
  /// the stream.
  llvm::Expected<bool> isRight(const ProductCall &call, kiln_engine *engine,
                               const Stream &stream, std::mt19937_64 &random);

private:
  struct Product {
    Layer layer;
    int64_t n = 0, k = 0;
    Layout layout = Layout::NT;
    DType type = DType::BF16;
    DeviceMemory expected; ///< all rows; empty: not yet
    bool isProven = false; ///< they are right

    uint64_t rowBytes() const;
  };

  LayerProducts(const Driver &driver, NamedRange range)
      : driver(&driver), range(std::move(range)) {}
  llvm::Error add(const Layer &layer);
  llvm::Error allocate(CudaStream stream);
  llvm::Error prove(size_t layer, kiln_engine *engine, const Stream &stream);
  llvm::Expected<bool> isExact(const Product &product) const;

  const Driver *driver;
  NamedRange range;
  std::vector<Product> products;
  DeviceMemory a, b, d;
  uint8_t lastPoison = 0;
};

} // namespace kiln::cli
