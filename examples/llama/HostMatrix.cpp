//===- HostMatrix.cpp -----------------------------------------------------===//
#include "HostMatrix.h"

#include "Error.h"
#include "LowPrecision.h"
#include "Mxfp4.h"
#include "Parallel.h"
#include "RandomWeights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

namespace llama {

//===----------------------------------------------------------------------===//
// Numbers to codes
//===----------------------------------------------------------------------===//

static float greatestOf(const float *values, int64_t count) {
  float greatest = 0;
  for (int64_t i = 0; i < count; ++i)
    greatest = std::max(greatest, std::fabs(values[i]));
  return greatest;
}

/// As rows.h: the greatest magnitude becomes 448, and zeros have a scale of 1.
/// The scale is normal, so that its inverse is finite.
static float e4m3ScaleFor(float greatest) {
  return greatest > 0
             ? std::max(greatest / kMostE4m3, std::numeric_limits<float>::min())
             : 1;
}

static void roundAll(const float *values, int64_t count, float scale,
                     uint8_t *codes) {
  const float factor = 1 / scale;
  for (int64_t i = 0; i < count; ++i)
    codes[i] = roundToE4m3(values[i] * factor);
}

/// Symmetric: the greatest magnitude becomes 7, so that -8 stays unused.
static uint16_t quantizeGroup(const float *values, int64_t count,
                              uint8_t *codes) {
  constexpr float kMost = 7, kMostFp16 = 65504;
  uint16_t bits =
      roundToFp16(std::min(greatestOf(values, count) / kMost, kMostFp16));
  if (bits == 0)
    bits = 1; // the least scale, for zeros
  const float factor = 1 / fp16ToFloat(bits);
  const auto codeOf = [&](float value) {
    const float code =
        std::clamp(std::nearbyint(value * factor), -kMost, kMost);
    return static_cast<unsigned>(static_cast<int>(code) + 8);
  };
  for (int64_t i = 0; i < count; i += 2)
    codes[i / 2] =
        static_cast<uint8_t>(codeOf(values[i]) | codeOf(values[i + 1]) << 4);
  return bits;
}

void quantizeRow(const WeightFormat &format, int64_t count, const float *row,
                 const QuantizedRow &out) {
  if (format.type == WeightType::Mxfp4) {
    for (int64_t first = 0; first < count; first += kMxfp4Group)
      quantizeMxfp4(row + first, out.codes + first / 2,
                    static_cast<uint8_t *>(out.scales) + first / kMxfp4Group);
    return;
  }
  if (format.type != WeightType::Int4) {
    const float scale = e4m3ScaleFor(greatestOf(row, count));
    *static_cast<float *>(out.scales) = scale;
    roundAll(row, count, scale, out.codes);
    return;
  }
  const int64_t size = format.groupSize ? format.groupSize : count;
  for (int64_t first = 0; first < count; first += size)
    static_cast<uint16_t *>(out.scales)[first / size] = quantizeGroup(
        row + first, std::min(size, count - first), out.codes + first / 2);
}

//===----------------------------------------------------------------------===//
// HostMatrix
//===----------------------------------------------------------------------===//

static int64_t blocksOf(int64_t size) {
  return (size + kScaleBlock - 1) / kScaleBlock;
}

HostMatrix::HostMatrix(const ModelConfig &model, const WeightSource &source,
                       const PlannedMatrix &matrix)
    : format(matrix.format), rows(matrix.rows), columns(matrix.columns),
      rowBytes(rowBytesOf(format, columns)) {
  const auto count = static_cast<uint64_t>(rows);
  codeBytes.resize(rowBytes.data * count);
  scaleBytes.resize(rowBytes.scales *
                    (format.type == WeightType::E4m3Blocks
                         ? static_cast<uint64_t>(blocksOf(rows))
                         : count));
  zeroBytes.resize(rowBytes.zeros * count);
  for (const PlacedTensor &placed : matrix.parts) {
    parts.push_back({placed, openWeight(model, source, placed.spec)});
    requireAligned(placed);
    isCopied = isCopied && isStoredSo(parts.back());
  }
  inParallel(rows, kScaleBlock, [&](int64_t first, int64_t last) {
    if (format.type == WeightType::E4m3Blocks && !isCopied)
      return quantizeBlocks(first, last);
    for (int64_t row = first; row < last; ++row)
      fillRow(row);
  });
}

/// Columns that share a scale: 1 where a row has one scale.
static int64_t scaleColumns(const WeightFormat &format, int64_t columns) {
  if (format.type == WeightType::E4m3Blocks)
    return kScaleBlock;
  if (format.type == WeightType::Int4 || format.type == WeightType::Mxfp4)
    return format.groupSize ? format.groupSize : columns;
  return 1;
}

/// A part of a tensor's columns keeps the tensor's scales.
void HostMatrix::requireAligned(const PlacedTensor &placed) const {
  const int64_t all = placed.spec.columns();
  const int64_t size = scaleColumns(format, all);
  if (placed.firstColumn % size != 0 ||
      (placed.columns % size != 0 && placed.columns != all))
    throw Error(moduleOf(placed.spec.name) + ": columns " +
                std::to_string(placed.firstColumn) + " to " +
                std::to_string(placed.firstColumn + placed.columns) +
                " are not whole groups of " + std::to_string(size));
}

/// Whether the rows of \p part are stored in the format of the matrix.
bool HostMatrix::isStoredSo(const Part &part) const {
  WeightFormat stored = part.weight->format();
  const PlacedTensor &placed = part.placed;
  if (stored.type == WeightType::E4m3Rows &&
      format.type == WeightType::E4m3Packed)
    stored.type = WeightType::E4m3Packed; // the same codes
  const bool isAligned =
      stored.type != WeightType::E4m3Blocks ||
      (placed.rowStep == 1 && placed.targetRow % kScaleBlock == 0 &&
       placed.firstRow % kScaleBlock == 0);
  return stored == format && isAligned;
}

const HostMatrix::Part &HostMatrix::partOf(int64_t row) const {
  return *std::find_if(parts.begin(), parts.end(), [&](const Part &part) {
    const int64_t distance = row - part.placed.targetRow;
    return distance >= 0 && distance % part.placed.rowStep == 0 &&
           distance / part.placed.rowStep < part.placed.rows;
  });
}

static int64_t sourceRow(const PlacedTensor &placed, int64_t row) {
  return placed.firstRow + (row - placed.targetRow) / placed.rowStep;
}

/// Reads a row that is to be quantised. Infinity and NaN have no codes.
static void readFinite(const StoredWeight &weight, const WeightSpec &spec,
                       int64_t row, float *out) {
  weight.readRow(row, out);
  if (!std::all_of(out, out + weight.columns(),
                   [](float value) { return std::isfinite(value); }))
    throw Error(spec.name + ": row " + std::to_string(row) +
                " has numbers that are not finite, and cannot be quantised");
}

void HostMatrix::readNumbers(int64_t row, float *out) const {
  const Part &part = partOf(row);
  const int64_t from = sourceRow(part.placed, row);
  if (part.placed.columns == part.weight->columns())
    return readFinite(*part.weight, part.placed.spec, from, out);
  std::vector<float> whole(static_cast<size_t>(part.weight->columns()));
  readFinite(*part.weight, part.placed.spec, from, whole.data());
  std::copy_n(whole.data() + part.placed.firstColumn, columns, out);
}

QuantizedRow HostMatrix::at(int64_t row) {
  const auto index = static_cast<uint64_t>(row);
  const uint64_t scaleRow = format.type == WeightType::E4m3Blocks
                                ? index / uint64_t(kScaleBlock)
                                : index;
  return {codeBytes.data() + index * rowBytes.data,
          scaleBytes.data() + scaleRow * rowBytes.scales,
          format.hasZeros ? zeroBytes.data() + index * rowBytes.zeros
                          : nullptr};
}

/// A whole row of the tensor, as the matrix has it.
void HostMatrix::readWhole(const Part &part, int64_t row,
                           const QuantizedRow &out) const {
  const int64_t from = sourceRow(part.placed, row);
  if (isCopied)
    return part.weight->readQuantized(from, out);
  std::vector<float> numbers(static_cast<size_t>(part.weight->columns()));
  readFinite(*part.weight, part.placed.spec, from, numbers.data());
  quantizeRow(format, part.weight->columns(), numbers.data(), out);
}

void HostMatrix::fillRow(int64_t row) {
  const Part &part = partOf(row);
  const int64_t all = part.weight->columns();
  if (columns == all)
    return readWhole(part, row, at(row));
  QuantizedRowMemory memory(format, all);
  const QuantizedRow whole = memory.row(), out = at(row);
  readWhole(part, row, whole);
  // Bytes before a column, of codes and of scales.
  const WeightBytes before = rowBytesOf(format, part.placed.firstColumn);
  const bool hasOneScale = scaleColumns(format, all) == 1;
  std::memcpy(out.codes, whole.codes + before.data, rowBytes.data);
  std::memcpy(out.scales,
              static_cast<uint8_t *>(whole.scales) +
                  (hasOneScale ? 0 : before.scales),
              rowBytes.scales);
  if (out.zeros)
    std::memcpy(out.zeros, whole.zeros + before.zeros, rowBytes.zeros);
}

/// The rows of one row of blocks.
void HostMatrix::quantizeBlocks(int64_t first, int64_t last) {
  std::vector<float> numbers(static_cast<size_t>((last - first) * columns));
  for (int64_t row = first; row < last; ++row)
    readNumbers(row, numbers.data() + (row - first) * columns);
  auto *scales = static_cast<float *>(at(first).scales);
  for (int64_t column = 0; column < columns; column += kScaleBlock) {
    const int64_t count = std::min(kScaleBlock, columns - column);
    float greatest = 0;
    for (int64_t row = 0; row < last - first; ++row)
      greatest = std::max(
          greatest, greatestOf(numbers.data() + row * columns + column, count));
    const float scale = e4m3ScaleFor(greatest);
    scales[column / kScaleBlock] = scale;
    for (int64_t row = 0; row < last - first; ++row)
      roundAll(numbers.data() + row * columns + column, count, scale,
               at(first + row).codes + column);
  }
}

void HostMatrix::readRow(int64_t row, float *out) {
  dequantize(format, columns, at(row), out);
}

} // namespace llama
