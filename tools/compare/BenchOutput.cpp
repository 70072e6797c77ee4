//===- BenchOutput.cpp ----------------------------------------------------===//
#include "compare/BenchOutput.h"

#include "Driver/DeviceMemory.h"
#include "Kernel/OperandLayout.h"
#include "Support/Error.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace kiln::cli {

static float fromBf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

static float fromHalf(uint16_t bits) {
  float sign = bits & 0x8000 ? -1.0f : 1.0f;
  int exponent = (bits >> 10) & 0x1f, mantissa = bits & 0x3ff;
  if (exponent == 0x1f)
    return mantissa ? std::numeric_limits<float>::quiet_NaN()
                    : sign * std::numeric_limits<float>::infinity();
  if (exponent == 0)
    return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
}

/// An fp16 with a shorter mantissa and an exponent that is 8 less, except for
/// NaN.
static float fromE4m3(uint8_t bits) {
  if ((bits & 0x7f) == 0x7f)
    return std::numeric_limits<float>::quiet_NaN();
  int half = (bits & 0x80) << 8 | (bits & 0x7f) << 7;
  return fromHalf(static_cast<uint16_t>(half)) * 256;
}

/// An fp16 without the lower half of its mantissa.
static float fromE5m2(uint8_t bits) {
  return fromHalf(static_cast<uint16_t>(bits << 8));
}

float elementAt(llvm::ArrayRef<uint8_t> bytes, size_t index, DType type) {
  if (type == DType::FP32) {
    float value;
    std::memcpy(&value, &bytes[index * sizeof(value)], sizeof(value));
    return value;
  }
  if (type == DType::E4M3)
    return fromE4m3(bytes[index]);
  if (type == DType::E5M2)
    return fromE5m2(bytes[index]);
  if (type == DType::INT8)
    return static_cast<int8_t>(bytes[index]);
  uint16_t bits;
  std::memcpy(&bits, &bytes[index * sizeof(bits)], sizeof(bits));
  return type == DType::BF16 ? fromBf16(bits) : fromHalf(bits);
}

/// Rows of all planes and batches count: see RowLayout::offsetOf().
static llvm::Expected<std::vector<float>> readRow(const Driver &driver,
                                                  const OperandSpec &spec,
                                                  DeviceAddress address,
                                                  int64_t row) {
  int64_t element = layoutOf(spec).offsetOf(row);
  auto from = address + static_cast<uint64_t>(element * bytesOf(spec.type));
  std::vector<uint8_t> bytes(
      static_cast<size_t>(spec.cols * bytesOf(spec.type)));
  if (llvm::Error error = copyToHost(driver, bytes.data(), from, bytes.size()))
    return error;
  std::vector<float> values(static_cast<size_t>(spec.cols));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = elementAt(bytes, i, spec.type);
  return values;
}

llvm::Expected<OutputRows>
readRows(const Driver &driver, const OperandSpec &spec, DeviceAddress address) {
  constexpr int64_t kMaxRows = 64;
  int64_t all = layoutOf(spec).rowCount(), count = std::min(all, kMaxRows);
  OutputRows rows;
  for (int64_t i = 0; i < count; ++i) {
    int64_t row = count > 1 ? i * (all - 1) / (count - 1) : 0;
    auto values = readRow(driver, spec, address, row);
    if (!values)
      return values.takeError();
    rows.push_back(std::move(*values));
  }
  return rows;
}

bool agree(const OutputRows &a, const OutputRows &b, const Tolerance &tolerance,
           double bound) {
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < a[i].size(); ++j) {
      double x = a[i][j], y = b[i][j];
      double allowed =
          2 * (tolerance.relative * std::max(std::abs(x), std::abs(y)) +
               tolerance.scaled * bound + tolerance.absolute);
      // Equal infinities differ by NaN.
      if (x != y && !(std::abs(x - y) <= allowed))
        return false;
    }
  return true;
}

llvm::Expected<std::vector<OutputRows>>
readOutputs(const Driver &driver, const TrialBuffers &buffers) {
  std::vector<OutputRows> outputs;
  for (const TrialOutput &output : buffers.outputs()) {
    auto rows =
        readRows(driver, buffers.specOf(output), buffers.addressOf(output));
    if (!rows)
      return rows.takeError();
    outputs.push_back(std::move(*rows));
  }
  return outputs;
}

/// The difference that two sides may have from the right sums of N(0, 1) data:
/// for fp8 far less than data of one sign would ask for. *Computed* from a
/// model of the tensor core's sums: 1.4e-4 of the sum of |a*b| at most without
/// promotion, at k=16384.
static Tolerance toleranceOf(const MatrixProduct &product,
                             Tolerance tolerance) {
  constexpr double kOfNarrowSums = 0x1p-10;
  if (isFp8(product.type))
    tolerance.scaled = std::min(tolerance.scaled, kOfNarrowSums);
  return tolerance;
}

/// Estimates the sum of |a*b| behind the elements of \p row, where scales of
/// rows and blocks make it differ from row to row: the row's root mean square
/// is that of k products with random signs.
static double boundOfRow(const std::vector<float> &row, double k) {
  double squares = 0;
  for (float value : row)
    squares += static_cast<double>(value) * value;
  return std::sqrt(k * squares / static_cast<double>(row.size()));
}

bool agreeOn(const MatrixProduct &product, Tolerance tolerance,
             const OutputRows &a, const OutputRows &b) {
  tolerance = toleranceOf(product, tolerance);
  // The sum of |a*b| behind the tolerance is not known here. For N(0, 1) data,
  // where products have a mean size of 0.64, k is above it, except for very few
  // products.
  constexpr double kFewProducts = 16;
  const auto k = static_cast<double>(product.k);
  if (!product.hasScales())
    return agree(a, b, tolerance, std::abs(product.alpha) * k + kFewProducts);
  for (size_t row = 0; row < a.size(); ++row)
    if (!agree({a[row]}, {b[row]}, tolerance,
               boundOfRow(a[row], k + kFewProducts)))
      return false;
  return true;
}

bool agreeOn(const MatrixProduct &product, const TrialBuffers &buffers,
             llvm::ArrayRef<OutputRows> a, llvm::ArrayRef<OutputRows> b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (!agreeOn(product, buffers.specOf(buffers.outputs()[i]).tolerance, a[i],
                 b[i]))
      return false;
  return true;
}

} // namespace kiln::cli
