//===- StoredIntegers.cpp -------------------------------------------------===//
#include "StoredIntegers.h"

#include "Error.h"

#include <cstring>

namespace llama {

TensorFinder::TensorFinder(const Checkpoint &checkpoint, const WeightSpec &spec,
                           std::vector<std::string> &faults)
    : checkpoint(checkpoint), module(moduleOf(spec.name)), faults(faults) {}

const Tensor *TensorFinder::operator()(const std::string &part) const {
  const auto found = checkpoint.tensors().find(module + "." + part);
  return found == checkpoint.tensors().end() ? nullptr : &found->second;
}

const Tensor *TensorFinder::require(const std::string &part, DType type,
                                    const std::vector<int64_t> &shape) const {
  const Tensor *tensor = (*this)(part);
  if (!tensor)
    return fail(part + " is missing");
  if (tensor->dtype != type)
    return fail(part + " has the type " + std::string(nameOf(tensor->dtype)) +
                ", expected " + std::string(nameOf(type)));
  if (tensor->shape != shape)
    return fail(part + " has the shape " + shapeText(tensor->shape) +
                ", expected " + shapeText(shape));
  return tensor;
}

std::nullptr_t TensorFinder::fail(const std::string &fault) const {
  faults.push_back(module + "." + fault);
  return nullptr;
}

namespace {

constexpr int64_t kWordCodes = 8; // of 4 bits in 32

enum class Layout : uint8_t { Awq, Gptq, CompressedTensors };

/// The tensors of a module, of which zeros may be null.
struct IntegerTensors {
  const Tensor *words = nullptr, *scales = nullptr, *zeros = nullptr;
  int64_t rows = 0, columns = 0, groups = 0;
};

uint32_t wordAt(const Tensor &tensor, int64_t index) {
  uint32_t word = 0;
  std::memcpy(&word, tensor.data + index * int64_t(sizeof(word)), sizeof(word));
  return word;
}

uint8_t codeAt(const Tensor &tensor, int64_t index, int64_t place) {
  return static_cast<uint8_t>(wordAt(tensor, index) >> 4 * place & 15);
}

/// The place of one of eight columns in a word of AWQ, which has them in the
/// order 0, 2, 4, 6, 1, 3, 5, 7.
int64_t awqPlace(int64_t column) { return column % 2 * 4 + column % 8 / 2; }

class IntegerWeight : public StoredWeight {
public:
  IntegerWeight(WeightFormat format, const Quantization &quantization,
                Layout layout, const IntegerTensors &tensors, std::string name)
      : StoredWeight(format, tensors.columns), layout(layout), from(tensors),
        zeroOffset(quantization.hasZerosLessOne ? 1 : 0),
        name(std::move(name)) {}

  void readQuantized(int64_t row, const QuantizedRow &out) const override {
    for (int64_t i = 0; i < from.columns; i += 2)
      out.codes[i / 2] =
          static_cast<uint8_t>(code(row, i) | code(row, i + 1) << 4);
    auto *scales = static_cast<uint16_t *>(out.scales);
    for (int64_t group = 0; group < from.groups; ++group) {
      const int64_t index = layout == Layout::CompressedTensors
                                ? row * from.groups + group
                                : group * from.rows + row;
      std::memcpy(scales + group,
                  from.scales->data + index * int64_t(sizeof(uint16_t)),
                  sizeof(uint16_t));
      if (from.zeros)
        readZero(row, group, out.zeros);
    }
  }

private:
  int code(int64_t row, int64_t column) const {
    switch (layout) {
    case Layout::Awq:
      return codeAt(*from.words, (column * from.rows + row) / kWordCodes,
                    awqPlace(row));
    case Layout::Gptq:
      return codeAt(*from.words, column / kWordCodes * from.rows + row,
                    column % kWordCodes);
    case Layout::CompressedTensors:
      break;
    }
    return codeAt(*from.words, (row * from.columns + column) / kWordCodes,
                  column % kWordCodes);
  }

  /// \p zeros is null where the format has none: then they have to be 8.
  void readZero(int64_t row, int64_t group, uint8_t *zeros) const {
    const int64_t index = layout == Layout::CompressedTensors
                              ? row / kWordCodes * from.groups + group
                              : (group * from.rows + row) / kWordCodes;
    const int zero =
        zeroOffset +
        codeAt(*from.zeros, index,
               layout == Layout::Awq ? awqPlace(row) : row % kWordCodes);
    if (zeros && zero < 16)
      zeros[group] = static_cast<uint8_t>(zero);
    else if (zeros)
      throw Error(name + ".qzeros has the zero point 16, which some programs "
                         "read as 0");
    else if (zero != 8)
      throw Error(name + ".qzeros has the zero point " + std::to_string(zero) +
                  ", although the quantization_config says sym");
  }

  Layout layout;
  IntegerTensors from;
  int zeroOffset;
  std::string name;
};

/// GPTQ's order of activations: group of each column.
bool hasTrivialOrder(const Tensor &index, int64_t groupColumns) {
  for (int64_t i = 0; i < index.elements(); ++i)
    if (wordAt(index, i) != static_cast<uint32_t>(i / groupColumns))
      return false;
  return true;
}

class IntegerFinder {
public:
  IntegerFinder(const Quantization &quantization, const TensorFinder &find,
                const WeightSpec &spec)
      : quantization(quantization), find(find), spec(spec) {
    found.rows = spec.shape.front();
    found.columns = spec.columns();
  }

  std::unique_ptr<StoredWeight> weight() {
    groupColumns =
        quantization.groupSize ? quantization.groupSize : found.columns;
    if (found.columns % groupColumns != 0 || found.columns % kWordCodes != 0)
      return find.fail("weight has " + std::to_string(found.columns) +
                       " columns, which groups of " +
                       std::to_string(groupColumns) + " do not divide");
    found.groups = found.columns / groupColumns;
    if (quantization.method == QuantMethod::CompressedTensors)
      return findRows();
    return findColumns();
  }

private:
  /// compressed-tensors: words along k.
  std::unique_ptr<StoredWeight> findRows() {
    if (find("weight_g_idx"))
      return find.fail("weight_g_idx: an order of activations is not "
                       "supported");
    found.words = find.require("weight_packed", DType::I32,
                               {found.rows, found.columns / kWordCodes});
    found.scales = findScales("weight_scale", {found.rows, found.groups});
    if (quantization.hasZeros)
      found.zeros = find.require(
          "weight_zero_point", DType::I32,
          {(found.rows + kWordCodes - 1) / kWordCodes, found.groups});
    return made(Layout::CompressedTensors);
  }

  /// AWQ and GPTQ: rows of tensors follow k.
  std::unique_ptr<StoredWeight> findColumns() {
    if (found.rows % kWordCodes != 0)
      return find.fail("qweight: " + std::to_string(found.rows) +
                       " rows are not a multiple of 8");
    const bool isAwq = quantization.method == QuantMethod::Awq;
    const int64_t rowWords = found.rows / kWordCodes;
    using Shape = std::vector<int64_t>;
    found.words =
        find.require("qweight", DType::I32,
                     isAwq ? Shape{found.columns, rowWords}
                           : Shape{found.columns / kWordCodes, found.rows});
    found.scales = findScales("scales", {found.groups, found.rows});
    found.zeros = find.require("qzeros", DType::I32, {found.groups, rowWords});
    if (const Tensor *order = isAwq ? nullptr : find("g_idx")) {
      if (!find.require("g_idx", DType::I32, {found.columns}))
        return nullptr;
      if (!hasTrivialOrder(*order, groupColumns))
        return find.fail("g_idx: an order of activations (desc_act) is not "
                         "supported");
    }
    return made(isAwq ? Layout::Awq : Layout::Gptq);
  }

  const Tensor *findScales(const char *part,
                           const std::vector<int64_t> &shape) const {
    const Tensor *tensor = find(part);
    const bool isBf16 = tensor && tensor->dtype == DType::BF16;
    return find.require(part, isBf16 ? DType::BF16 : DType::F16, shape);
  }

  std::unique_ptr<StoredWeight> made(Layout layout) const {
    const bool needsZeros =
        quantization.hasZeros || layout != Layout::CompressedTensors;
    if (!found.words || !found.scales || (needsZeros && !found.zeros))
      return nullptr;
    WeightFormat format;
    format.type = WeightType::Int4;
    format.groupSize = static_cast<int32_t>(quantization.groupSize);
    format.hasZeros = quantization.hasZeros;
    format.hasBf16Scales = found.scales->dtype == DType::BF16;
    return std::make_unique<IntegerWeight>(format, quantization, layout, found,
                                           moduleOf(spec.name));
  }

  const Quantization &quantization;
  const TensorFinder &find;
  const WeightSpec &spec;
  int64_t groupColumns = 0;
  IntegerTensors found;
};

} // namespace

std::unique_ptr<StoredWeight> findIntegers(const Quantization &quantization,
                                           const TensorFinder &find,
                                           const WeightSpec &spec) {
  return IntegerFinder(quantization, find, spec).weight();
}

} // namespace llama
