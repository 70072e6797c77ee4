//===- HostMatrix.h - a quantised matrix of a plan in host memory ---------===//
//
// Each row is copied as a checkpoint stores it, or quantised from the numbers
// of a checkpoint or a seed. Weights are quantised here and not on the device,
// so that `export` writes the numbers that the engine multiplies, rounded to
// bf16.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_HOSTMATRIX_H
#define KILN_EXAMPLES_LLAMA_HOSTMATRIX_H

#include "StoredWeight.h"
#include "WeightPlan.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace llama {

/// The rows of a PlannedMatrix whose format is not Bf16, in its order: codes,
/// scales and zero points row by row, packed formats not packed yet.
class HostMatrix {
public:
  /// Reads, and quantises where the weight is not stored so, on all cores: some
  /// nanoseconds an element and core. Throws Error.
  HostMatrix(const ModelConfig &model, const WeightSource &source,
             const PlannedMatrix &matrix);

  const std::vector<uint8_t> &codes() const { return codeBytes; }
  const std::vector<uint8_t> &scales() const { return scaleBytes; }
  const std::vector<uint8_t> &zeros() const { return zeroBytes; }
  /// The numbers of a row.
  void readRow(int64_t row, float *out);

private:
  struct Part {
    PlacedTensor placed;
    std::unique_ptr<StoredWeight> weight;
  };
  void requireAligned(const PlacedTensor &placed) const;
  bool isStoredSo(const Part &part) const;
  const Part &partOf(int64_t row) const;
  void readNumbers(int64_t row, float *out) const;
  void readWhole(const Part &part, int64_t row, const QuantizedRow &out) const;
  void fillRow(int64_t row);
  void quantizeBlocks(int64_t first, int64_t last);
  QuantizedRow at(int64_t row);

  WeightFormat format;
  int64_t rows, columns;
  WeightBytes rowBytes;
  std::vector<Part> parts;
  bool isCopied = true; ///< no row is quantised
  std::vector<uint8_t> codeBytes, scaleBytes, zeroBytes;
};

/// Quantises \p count numbers with one scale for all (E4m3Rows, E4m3Packed) or
/// for each group (Int4, without zero points).
void quantizeRow(const WeightFormat &format, int64_t count, const float *row,
                 const QuantizedRow &out);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_HOSTMATRIX_H
