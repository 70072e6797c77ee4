//===- StoredWeight.cpp ---------------------------------------------------===//
#include "StoredWeight.h"

#include "Error.h"
#include "LowPrecision.h"
#include "Mxfp4.h"
#include "RandomWeights.h"
#include "StoredExperts.h"
#include "StoredIntegers.h"

#include <cassert>
#include <cstring>
#include <utility>

namespace llama {

//===----------------------------------------------------------------------===//
// Quantised rows
//===----------------------------------------------------------------------===//

bool isFloat(DType type) {
  return type == DType::BF16 || type == DType::F16 || type == DType::F32;
}

float elementOf(DType type, const std::byte *data, int64_t index) {
  if (type == DType::F32) {
    float value = 0;
    std::memcpy(&value, data + index * int64_t(sizeof(value)), sizeof(value));
    return value;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, data + index * int64_t(sizeof(bits)), sizeof(bits));
  return type == DType::F16 ? fp16ToFloat(bits) : bf16ToFloat(bits);
}

static float e4m3Scale(const WeightFormat &format, const void *scales,
                       int64_t column) {
  const int64_t index =
      format.type == WeightType::E4m3Blocks ? column / kScaleBlock : 0;
  return static_cast<const float *>(scales)[index];
}

void dequantize(const WeightFormat &format, int64_t columns,
                const QuantizedRow &row, float *out) {
  if (format.type == WeightType::Mxfp4) {
    for (int64_t first = 0; first < columns; first += kMxfp4Group)
      dequantizeMxfp4(
          row.codes + first / 2,
          static_cast<const uint8_t *>(row.scales)[first / kMxfp4Group],
          out + first);
    return;
  }
  if (format.type != WeightType::Int4) {
    for (int64_t i = 0; i < columns; ++i)
      out[i] = e4m3ToFloat(row.codes[i]) * e4m3Scale(format, row.scales, i);
    return;
  }
  const DType type = format.hasBf16Scales ? DType::BF16 : DType::F16;
  const int64_t size = format.groupSize ? format.groupSize : columns;
  for (int64_t first = 0; first < columns; first += size) {
    const int64_t group = first / size;
    const float scale =
        elementOf(type, static_cast<const std::byte *>(row.scales), group);
    const int zero = row.zeros ? row.zeros[group] : 8;
    for (int64_t i = first; i < first + size && i < columns; ++i) {
      const int code = row.codes[i / 2] >> (i % 2 * 4) & 15;
      out[i] = float(code - zero) * scale;
    }
  }
}

WeightBytes rowBytesOf(const WeightFormat &format, int64_t columns) {
  const auto width = static_cast<uint64_t>(columns);
  const auto parts = [&](int64_t size) {
    return static_cast<uint64_t>((columns + size - 1) / size);
  };
  if (format.type == WeightType::E4m3Blocks)
    return {width, sizeof(float) * parts(kScaleBlock), 0};
  if (format.type == WeightType::Mxfp4)
    return {parts(2), parts(kMxfp4Group), 0};
  if (format.type != WeightType::Int4)
    return {width, sizeof(float), 0};
  const uint64_t groups = format.groupSize ? parts(format.groupSize) : 1;
  return {parts(2), sizeof(uint16_t) * groups, format.hasZeros ? groups : 0};
}

QuantizedRowMemory::QuantizedRowMemory(const WeightFormat &format,
                                       int64_t columns) {
  const WeightBytes bytes = rowBytesOf(format, columns);
  codes.resize(bytes.data);
  scales.resize(bytes.scales);
  zeros.resize(bytes.zeros);
}

StoredWeight::~StoredWeight() = default;

void StoredWeight::readRow(int64_t row, float *out) const {
  QuantizedRowMemory memory(stored, width);
  readQuantized(row, memory.row());
  dequantize(stored, width, memory.row(), out);
}

void StoredWeight::readQuantized(int64_t, const QuantizedRow &) const {
  assert(false && "the weight is not quantised");
}

//===----------------------------------------------------------------------===//
// Floats
//===----------------------------------------------------------------------===//

namespace {

class RandomWeight : public StoredWeight {
public:
  RandomWeight(const WeightSpec &spec, uint64_t seed)
      : StoredWeight({}, spec.columns()), key(randomKey(seed, spec.name)),
        scale(randomScale(spec.kind)) {}

  void readRow(int64_t row, float *out) const override {
    for (int64_t i = 0; i < columns(); ++i)
      out[i] = bf16ToFloat(
          randomWeight(key, static_cast<uint64_t>(row * columns() + i), scale));
  }

private:
  uint64_t key;
  RandomScale scale;
};

class FloatWeight : public StoredWeight {
public:
  FloatWeight(const WeightSpec &spec, const Tensor &tensor)
      : StoredWeight({}, spec.columns()), tensor(tensor) {}

  void readRow(int64_t row, float *out) const override {
    for (int64_t i = 0; i < columns(); ++i)
      out[i] = elementOf(tensor.dtype, tensor.data, row * columns() + i);
  }

private:
  const Tensor &tensor;
};

//===----------------------------------------------------------------------===//
// e4m3
//===----------------------------------------------------------------------===//

class E4m3Weight : public StoredWeight {
public:
  E4m3Weight(WeightType type, const WeightSpec &spec, const Tensor &weight,
             const Tensor &scales)
      : StoredWeight({type}, spec.columns()), weight(weight), scales(scales),
        hasOneScale(scales.elements() == 1) {}

  void readQuantized(int64_t row, const QuantizedRow &out) const override {
    std::memcpy(out.codes, weight.data + row * columns(),
                static_cast<size_t>(columns()));
    auto *to = static_cast<float *>(out.scales);
    if (format().type == WeightType::E4m3Rows) {
      *to = elementOf(scales.dtype, scales.data, hasOneScale ? 0 : row);
      return;
    }
    const int64_t count = (columns() + kScaleBlock - 1) / kScaleBlock;
    for (int64_t i = 0; i < count; ++i)
      to[i] =
          elementOf(scales.dtype, scales.data, row / kScaleBlock * count + i);
  }

private:
  const Tensor &weight, &scales;
  bool hasOneScale;
};

std::unique_ptr<StoredWeight> findE4m3(const Quantization &quantization,
                                       const TensorFinder &find,
                                       const WeightSpec &spec,
                                       const Tensor &weight) {
  if (quantization.bits != 8)
    return find.fail("weight has the type F8_E4M3, which the "
                     "quantization_config does not announce");
  const Tensor *scales = find("weight_scale_inv");
  if (!scales)
    scales = find("weight_scale");
  if (!scales)
    return find.fail("weight_scale is missing");
  if (!isFloat(scales->dtype))
    return find.fail("weight_scale has the type " +
                     std::string(nameOf(scales->dtype)) +
                     ", expected F32, BF16 or F16");
  const int64_t rows = spec.shape.front();
  using Shape = std::vector<int64_t>;
  const auto blocks = [](int64_t size) {
    return (size + kScaleBlock - 1) / kScaleBlock;
  };
  const Shape &shape = scales->shape;
  const bool fits = quantization.hasBlocks
                        ? shape == Shape{blocks(rows), blocks(spec.columns())}
                        : scales->elements() == 1 || shape == Shape{rows} ||
                              shape == Shape{rows, 1};
  if (!fits)
    return find.fail("weight_scale has the shape " + shapeText(shape) +
                     " beside a weight of " + shapeText(spec.shape));
  return std::make_unique<E4m3Weight>(
      quantization.hasBlocks ? WeightType::E4m3Blocks : WeightType::E4m3Rows,
      spec, weight, *scales);
}

} // namespace

//===----------------------------------------------------------------------===//
// Which of them a tensor is
//===----------------------------------------------------------------------===//

std::unique_ptr<StoredWeight> findStored(const ModelConfig &model,
                                         const Checkpoint &checkpoint,
                                         const WeightSpec &spec,
                                         std::vector<std::string> &faults) {
  if (isOfAllExperts(spec))
    return findExperts(checkpoint, spec, faults);
  const TensorFinder find(checkpoint, spec, faults);
  const auto tensor = checkpoint.tensors().find(spec.name);
  if (tensor == checkpoint.tensors().end()) {
    if (spec.kind == WeightKind::Matrix && model.quantization.bits == 4)
      return findIntegers(model.quantization, find, spec);
    faults.push_back(spec.name + " is missing");
    return nullptr;
  }
  const Tensor &weight = tensor->second;
  const bool isE4m3 =
      weight.dtype == DType::F8E4M3 && spec.kind == WeightKind::Matrix;
  const size_t before = faults.size();
  if (weight.shape != spec.shape)
    faults.push_back(spec.name + " has the shape " + shapeText(weight.shape) +
                     ", expected " + shapeText(spec.shape));
  if (!isFloat(weight.dtype) && !isE4m3)
    faults.push_back(spec.name + " has the type " +
                     std::string(nameOf(weight.dtype)) +
                     ", expected BF16, F16 or F32");
  if (faults.size() != before)
    return nullptr;
  if (isE4m3)
    return findE4m3(model.quantization, find, spec, weight);
  return std::make_unique<FloatWeight>(spec, weight);
}

std::unique_ptr<StoredWeight> openWeight(const ModelConfig &model,
                                         const WeightSource &source,
                                         const WeightSpec &spec) {
  if (!source.checkpoint && isOfAllExperts(spec))
    return drawExperts(spec, source.seed);
  if (!source.checkpoint)
    return std::make_unique<RandomWeight>(spec, source.seed);
  std::vector<std::string> faults;
  auto found = findStored(model, *source.checkpoint, spec, faults);
  if (!found)
    throw Error(source.checkpoint->path() + ": " + faults.front());
  return found;
}

} // namespace llama
