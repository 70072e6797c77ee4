//===- StoredWeight.h - a weight as a checkpoint has it -------------------===//
//
// The tensors of a module (weight; weight and weight_scale; qweight, qzeros and
// scales; ...) as one matrix, row by row, whatever their names and layouts.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_STOREDWEIGHT_H
#define KILN_EXAMPLES_LLAMA_STOREDWEIGHT_H

#include "Checkpoint.h"
#include "ModelConfig.h"
#include "WeightFormat.h"
#include "WeightNames.h"
#include "WeightSource.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace llama {

/// BF16, F16 or F32.
bool isFloat(DType type);
/// Element \p index of floats of \p type.
float elementOf(DType type, const std::byte *data, int64_t index);

/// Where a row of a quantised matrix is, or goes (WeightFormat.h).
struct QuantizedRow {
  uint8_t *codes = nullptr; ///< 4 bits: two in a byte, the first in its lower
                            ///< half
  /// fp32 of E4m3Rows, one, and of E4m3Blocks, one for each block; 16 bits of
  /// Int4 and 8 bits of Mxfp4, one for each group.
  void *scales = nullptr;
  uint8_t *zeros = nullptr; ///< one for each group; null without zero points
};

/// Memory for a row of \p columns elements.
class QuantizedRowMemory {
public:
  QuantizedRowMemory(const WeightFormat &format, int64_t columns);
  QuantizedRow row() {
    return {codes.data(), scales.data(),
            zeros.empty() ? nullptr : zeros.data()};
  }

private:
  std::vector<uint8_t> codes, scales, zeros;
};

/// Bytes of such a row: codes, scales and zero points.
WeightBytes rowBytesOf(const WeightFormat &format, int64_t columns);

/// The numbers of a quantised row of \p columns elements.
void dequantize(const WeightFormat &format, int64_t columns,
                const QuantizedRow &row, float *out);

/// A matrix [n, k], or a vector [n], as it is stored or drawn. Immutable:
/// several threads may read it.
class StoredWeight {
public:
  virtual ~StoredWeight();

  /// Bf16 for all weights that are not quantised, otherwise E4m3Rows,
  /// E4m3Blocks, Int4 or Mxfp4.
  const WeightFormat &format() const { return stored; }
  int64_t columns() const { return width; }

  /// The numbers of row \p row. Throws Error.
  virtual void readRow(int64_t row, float *out) const;
  /// A row of a quantised weight. Throws Error where the data contradict the
  /// config.
  virtual void readQuantized(int64_t row, const QuantizedRow &out) const;

protected:
  StoredWeight(WeightFormat format, int64_t columns)
      : stored(format), width(columns) {}

private:
  WeightFormat stored;
  int64_t width;
};

/// The weight \p spec of \p checkpoint. Null, with a sentence more in \p
/// faults, where it is not stored so that the engine can read it.
std::unique_ptr<StoredWeight> findStored(const ModelConfig &model,
                                         const Checkpoint &checkpoint,
                                         const WeightSpec &spec,
                                         std::vector<std::string> &faults);

/// The weight \p spec of \p source, which requireWeights() has passed.
std::unique_ptr<StoredWeight> openWeight(const ModelConfig &model,
                                         const WeightSource &source,
                                         const WeightSpec &spec);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_STOREDWEIGHT_H
