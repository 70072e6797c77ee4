//===- LawLayer.h - layers that tests of the law launch -------------------===//
#pragma once

#include "kiln/kiln.h"

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace kiln::testing {

/// Extents that vary between calls: m for products, rows for norms, sequences
/// and keys for attention.
struct LawValue {
  int64_t first = 1;
  int64_t second = 1; ///< only for attention: keys

  friend bool operator==(const LawValue &, const LawValue &) = default;
};

/// One layer, called through the C interface.
class LawLayer {
public:
  virtual ~LawLayer() = default;

  /// bf16, D[m, n] = A B, the layout NT, 1 to 8192 rows.
  static std::unique_ptr<LawLayer> gemm(int64_t n, int64_t k);
  /// bf16, 1 to 8192 rows.
  static std::unique_ptr<LawLayer> rmsNorm(int64_t cols);
  /// One query each for 1 to 16 sequences with up to 8192 keys, bf16, 128
  /// elements a head.
  static std::unique_ptr<LawLayer> decode(int64_t heads, int64_t kvHeads);

  virtual std::string name() const = 0;
  virtual kiln_status launch(kiln_engine *engine, LawValue value) = 0;
  /// The problem at \p value, until the layer is asked for another one.
  virtual kiln_problem problemAt(LawValue value) = 0;
  /// The ranges of all its values.
  virtual std::vector<kiln_range> ranges() const = 0;

  /// Canonical text of the problem at \p value.
  std::string text(LawValue value);
  /// kiln_prepare for all values.
  kiln_status prepare(kiln_engine *engine, const kiln_prepare_options &options);
  /// Extents with uniform logarithms.
  LawValue draw(std::mt19937_64 &random) const;
};

} // namespace kiln::testing
