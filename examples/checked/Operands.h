//===- Operands.h - operands of products in three precisions --------------===//
//
// bf16, e4m3 with scales, and packed weights of 4 bits: each is rounded from
// fp32 on the host, says how a product reads it, and knows the values that its
// elements stand for.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_OPERANDS_H
#define KILN_EXAMPLES_OPERANDS_H

#include "Tools.h"

#include <kiln/kiln.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

using Values = std::vector<float>;

enum class Precision { Bf16, Fp8, Int4 };

constexpr int64_t kBlock = 128; ///< elements that share a scale, a side

inline Values randomValues(std::mt19937 &random, int64_t count,
                           double deviation) {
  std::normal_distribution<float> normal(0, static_cast<float>(deviation));
  Values values(static_cast<size_t>(count));
  for (float &value : values)
    value = normal(random);
  return values;
}

//===----------------------------------------------------------------------===//
// Any operand
//===----------------------------------------------------------------------===//

/// Row-major elements; as B of a product the matrices of all experts, one
/// behind the other.
class Operand {
public:
  explicit Operand(int64_t columns) : columns(columns) {}
  virtual ~Operand() = default;
  /// Rounds values to what this can hold.
  virtual void set(const Values &values) = 0;
  /// The value that an element of the host's copy stands for.
  virtual double at(int64_t row, int64_t column) const = 0;
  /// Makes the matrices from that of \p expert on B of \p call.
  virtual void giveB(kiln::Gemm &call, int64_t expert) const = 0;

protected:
  const int64_t columns;
};

/// An operand that may be A as well, and that kernels may write.
class Rows : public Operand {
public:
  using Operand::Operand;
  /// The type of a product with this A.
  virtual kiln_dtype type() const = 0;
  /// Makes the rows from \p row on A of \p call.
  virtual void giveA(kiln::Gemm &call, int64_t row) const = 0;
  virtual void fetch() = 0;
  /// Makes all elements NaN on the device, so that stale results show.
  virtual void poison() = 0;
};

//===----------------------------------------------------------------------===//
// bf16
//===----------------------------------------------------------------------===//

class Bf16 : public Rows {
public:
  Bf16(int64_t rows, int64_t columns)
      : Rows(columns), elements(static_cast<size_t>(rows * columns)) {}

  void set(const Values &values) override {
    std::transform(values.begin(), values.end(), elements.host.begin(), toBf16);
    elements.upload();
  }
  double at(int64_t row, int64_t column) const override {
    return fromBf16(elements[row * columns + column]);
  }
  void giveB(kiln::Gemm &call, int64_t expert) const override {
    const int64_t n = call.get().n;
    call.weights(data(expert * n), 0, n * columns);
  }
  kiln_dtype type() const override { return KILN_BF16; }
  void giveA(kiln::Gemm &call, int64_t row) const override {
    call.a(data(row));
  }
  void fetch() override { elements.fetch(); }
  void poison() override { elements.poison(); }
  uint16_t *data(int64_t row = 0) const { return elements.data(row * columns); }

private:
  Array<uint16_t> elements;
};

//===----------------------------------------------------------------------===//
// e4m3
//===----------------------------------------------------------------------===//

inline double fromE4m3(uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  if (exponent == 15 && mantissa == 7)
    return NAN;
  const double magnitude = exponent ? std::ldexp(8 + mantissa, exponent - 10)
                                    : std::ldexp(mantissa, -9);
  return code & 128 ? -magnitude : magnitude;
}

/// The nearest e4m3, even if there are two. Beyond 448 it is 448.
inline uint8_t toE4m3(float value) {
  const float magnitude = std::min(std::fabs(value), 448.0f);
  const int exponent = magnitude < 0x1p-6f ? -6 : std::ilogb(magnitude);
  // A mantissa of 16 carries into the exponent, one below 8 is a denormal.
  const float mantissa = std::nearbyint(std::ldexp(magnitude, 3 - exponent));
  return static_cast<uint8_t>((std::signbit(value) ? 128 : 0) +
                              8 * (exponent + 6) + static_cast<int>(mantissa));
}

/// e4m3 with a scale for each block, or for each whole row.
class E4m3 : public Rows {
public:
  E4m3(int64_t rows, int64_t columns, int64_t blockRows, int64_t blockColumns)
      : Rows(columns), codes(static_cast<size_t>(rows * columns)),
        scales(static_cast<size_t>(rows / blockRows * columns / blockColumns)),
        blockRows(blockRows), blockColumns(blockColumns) {}

  void set(const Values &values) override {
    std::fill(scales.host.begin(), scales.host.end(), 0.0f);
    int64_t element = 0;
    for (float value : values) {
      float &greatest = scales[scaleOf(element++)];
      greatest = std::max(greatest, std::fabs(value));
    }
    for (float &scale : scales.host)
      scale = scale > 0 ? scale / 448 : 1;
    element = 0;
    for (float value : values) {
      codes[element] = toE4m3(value / scales[scaleOf(element)]);
      ++element;
    }
    codes.upload();
    scales.upload();
  }
  double scaleAt(int64_t row, int64_t column) const {
    return scales[scaleOf(row * columns + column)];
  }
  double at(int64_t row, int64_t column) const override {
    return fromE4m3(codes[row * columns + column]) * scaleAt(row, column);
  }
  void giveB(kiln::Gemm &call, int64_t expert) const override {
    const int64_t n = call.get().n, each = n / blockRows * scalesOfRow();
    const float *first = scales.data(expert * each);
    call.weights(codes.data(expert * n * columns), 0, n * columns);
    if (hasRowScales()) // of rows as they are stored, which are B's columns
      call.scaleB(first, KILN_GRANULARITY_ROW, each);
    else
      call.blockScaleB(first, kBlock, kBlock, 0, 0, each);
  }
  kiln_dtype type() const override { return KILN_E4M3; }
  void giveA(kiln::Gemm &call, int64_t row) const override {
    call.a(codes.data(row * columns));
    const float *first = scales.data(row * scalesOfRow());
    if (hasRowScales())
      call.scaleA(first, KILN_GRANULARITY_ROW);
    else
      call.blockScaleA(first, 1, kBlock);
  }
  void fetch() override {
    codes.fetch();
    scales.fetch();
  }
  void poison() override {
    codes.poison();
    scales.poison();
  }

  Array<uint8_t> codes;
  Array<float> scales;

private:
  bool hasRowScales() const { return blockColumns == columns; }
  int64_t scalesOfRow() const { return columns / blockColumns; }
  int64_t scaleOf(int64_t element) const {
    const int64_t row = element / columns, column = element % columns;
    return row / blockRows * scalesOfRow() + column / blockColumns;
  }

  const int64_t blockRows, blockColumns;
};

//===----------------------------------------------------------------------===//
// int4
//===----------------------------------------------------------------------===//

/// Weights of 4 bits with a scale of bf16 for 128 of them, packed by Kiln.
class Int4 : public Operand {
public:
  Int4(int64_t experts, int64_t n, int64_t k)
      : Operand(k), experts(static_cast<size_t>(experts)), shape(shapeOf(n, k)),
        layout(layoutOf(shape)), codes(this->experts * layout.weight_bytes),
        scales(this->experts * layout.scale_bytes) {}

  void set(const Values &values) override {
    dequantized = values;
    // As a checkpoint of "compressed tensors" has them: two codes a byte.
    std::vector<uint8_t> plain(values.size() / 2);
    std::vector<uint16_t> plainScales(values.size() / kBlock);
    for (size_t group = 0; group < plainScales.size(); ++group)
      plainScales[group] =
          quantize(&dequantized[group * kBlock], &plain[group * kBlock / 2]);
    for (size_t expert = 0; expert < experts; ++expert) {
      kiln_prepack_args args = shape;
      args.weights.data = &plain[expert * plain.size() / experts];
      args.scales.data = &plainScales[expert * plainScales.size() / experts];
      args.packed.data = &codes.host[expert * layout.weight_bytes];
      args.packed_scales.data = &scales.host[expert * layout.scale_bytes];
      if (kiln_prepack_host(&args) != KILN_SUCCESS)
        fail("packing weights");
    }
    codes.upload();
    scales.upload();
  }
  double at(int64_t row, int64_t column) const override {
    return dequantized[static_cast<size_t>(row * columns + column)];
  }
  void giveB(kiln::Gemm &call, int64_t expert) const override {
    auto from = [&](const Array<uint8_t> &bytes, uint64_t each) {
      return bytes.data(expert * static_cast<int64_t>(each));
    };
    call.packedWeights(KILN_INT4, layout.order,
                       from(codes, layout.weight_bytes),
                       from(scales, layout.scale_bytes), KILN_BF16, kBlock);
  }

private:
  static kiln_prepack_args shapeOf(int64_t n, int64_t k) {
    kiln_prepack_args args = KILN_INIT(kiln_prepack_args);
    args.n = n;
    args.k = k;
    args.source = KILN_WEIGHTS_COMPRESSED_TENSORS;
    args.group_size = kBlock;
    args.scales.type = KILN_BF16;
    return args;
  }
  static kiln_prepack_layout layoutOf(const kiln_prepack_args &args) {
    kiln_prepack_layout layout = KILN_INIT(kiln_prepack_layout);
    if (kiln_prepack_query(&args, &layout) != KILN_SUCCESS)
      fail("asking for the size of packed weights");
    return layout;
  }
  /// Makes codes of a group, in which 8 stands for 0. Leaves in \p values what
  /// they stand for, and returns the scale.
  static uint16_t quantize(float *values, uint8_t *bytes) {
    float greatest = 0;
    for (int i = 0; i < kBlock; ++i)
      greatest = std::max(greatest, std::fabs(values[i]));
    const uint16_t bits = toBf16(greatest > 0 ? greatest / 7 : 1);
    const auto scale = static_cast<float>(fromBf16(bits));
    for (int i = 0; i < kBlock; ++i) {
      int level = static_cast<int>(std::nearbyint(values[i] / scale));
      level = std::clamp(level, -8, 7);
      values[i] = static_cast<float>(level) * scale;
      bytes[i / 2] =
          static_cast<uint8_t>(bytes[i / 2] | (level + 8) << 4 * (i % 2));
    }
    return bits;
  }

  const size_t experts;
  const kiln_prepack_args shape;
  const kiln_prepack_layout layout;
  Array<uint8_t> codes, scales;
  Values dequantized;
};

//===----------------------------------------------------------------------===//
// By precision
//===----------------------------------------------------------------------===//

/// Activations: bf16, or e4m3 with block scales along a row.
inline std::unique_ptr<Rows> makeRows(Precision precision, int64_t rows,
                                      int64_t columns) {
  if (precision == Precision::Fp8)
    return std::make_unique<E4m3>(rows, columns, 1, kBlock);
  return std::make_unique<Bf16>(rows, columns);
}

/// Weights [n, k] of \p experts; fp8 weights have block or row scales.
inline std::unique_ptr<Operand> makeWeights(Precision precision,
                                            int64_t experts, int64_t n,
                                            int64_t k, bool hasBlocks) {
  switch (precision) {
  case Precision::Fp8:
    return std::make_unique<E4m3>(experts * n, k, hasBlocks ? kBlock : 1,
                                  hasBlocks ? kBlock : k);
  case Precision::Int4:
    return std::make_unique<Int4>(experts, n, k);
  case Precision::Bf16:
    break;
  }
  return std::make_unique<Bf16>(experts * n, k);
}

#endif // KILN_EXAMPLES_OPERANDS_H
