//===- StoredIntegers.h - weights of 4 bits as checkpoints have them ------===//
//
// AWQ, GPTQ and compressed-tensors ("pack-quantized") store the same codes,
// scales and zero points in three layouts, which prepack.h describes.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_STOREDINTEGERS_H
#define KILN_EXAMPLES_LLAMA_STOREDINTEGERS_H

#include "Quantization.h"
#include "StoredWeight.h"

#include <memory>
#include <string>
#include <vector>

namespace llama {

/// The tensors of one module.
class TensorFinder {
public:
  TensorFinder(const Checkpoint &checkpoint, const WeightSpec &spec,
               std::vector<std::string> &faults);

  /// "<module>.<part>"; null if it is absent.
  const Tensor *operator()(const std::string &part) const;
  /// The same with a fault where it is absent or has another type or shape.
  const Tensor *require(const std::string &part, DType type,
                        const std::vector<int64_t> &shape) const;
  /// Adds a fault of the module.
  std::nullptr_t fail(const std::string &fault) const;

private:
  const Checkpoint &checkpoint;
  std::string module;
  std::vector<std::string> &faults;
};

/// As findStored(), for a module without a tensor `weight`.
std::unique_ptr<StoredWeight> findIntegers(const Quantization &quantization,
                                           const TensorFinder &find,
                                           const WeightSpec &spec);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_STOREDINTEGERS_H
