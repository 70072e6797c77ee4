//===- WeightFiller.cpp ---------------------------------------------------===//
#include "WeightFiller.h"

#include "Checkpoint.h"
#include "RandomWeights.h"
#include "RandomWeightsPtx.h"

#include <cstring>
#include <vector>

namespace llama {

namespace {

constexpr uint64_t kElement = 2; // bytes of a bf16

/// Where the part begins in its tensor.
uint64_t offsetOf(const PlacedTensor &part) {
  return kElement *
         static_cast<uint64_t>(part.firstRow * part.width() + part.firstColumn);
}

/// The rows of the part, from its tensor to its matrix.
Rows rowsOf(const PlacedTensor &part) {
  const auto rows = static_cast<uint64_t>(part.rows);
  const uint64_t row = kElement * static_cast<uint64_t>(part.columns);
  if (part.width() == 1) // a vector is one row to a copy
    return {1, rows * row, rows * row, rows * row};
  return {rows, row, kElement * static_cast<uint64_t>(part.width()),
          row * static_cast<uint64_t>(part.rowStep)};
}

template <class Element, class ToFloat>
std::vector<uint16_t> roundedElements(const Tensor &tensor,
                                      const ToFloat &toFloat) {
  std::vector<uint16_t> rounded(tensor.bytes / sizeof(Element));
  for (size_t i = 0; i < rounded.size(); ++i) {
    Element element;
    std::memcpy(&element, tensor.data + i * sizeof(Element), sizeof(Element));
    rounded[i] = roundToBf16(toFloat(element));
  }
  return rounded;
}

/// The elements as bf16, where they have another of checkWeights()' types.
std::vector<uint16_t> roundedOf(const Tensor &tensor) {
  if (tensor.dtype == DType::F32)
    return roundedElements<float>(tensor, [](float value) { return value; });
  if (tensor.dtype == DType::F16)
    return roundedElements<uint16_t>(tensor, fp16ToFloat);
  return {};
}

} // namespace

WeightFiller::WeightFiller(const Gpu &gpu, const WeightSource &source)
    : gpu(gpu), source(source) {
  if (!source.checkpoint)
    kernel = std::make_unique<PtxKernel>(gpu, kRandomWeightsPtx,
                                         kRandomWeightsEntry);
}

void WeightFiller::fill(const PlannedMatrix &matrix, DeviceAddress base) {
  for (const PlacedTensor &part : matrix.parts) {
    const DeviceAddress target =
        base + matrix.data +
        kElement * static_cast<uint64_t>(part.targetRow * matrix.columns);
    if (source.checkpoint)
      copy(part, target);
    else
      draw(part, target);
  }
}

void WeightFiller::copy(const PlacedTensor &part, DeviceAddress target) const {
  const Tensor &tensor = source.checkpoint->tensor(part.spec.name);
  const std::vector<uint16_t> rounded = roundedOf(tensor);
  const auto *data = reinterpret_cast<const std::byte *>(rounded.data());
  if (rounded.empty())
    data = tensor.data;
  uploadRows(gpu, target, data + offsetOf(part), rowsOf(part));
}

void WeightFiller::draw(const PlacedTensor &part, DeviceAddress target) {
  auto elements = static_cast<uint64_t>(part.spec.elements());
  const bool isInPlace =
      part.rowStep == 1 && elements == static_cast<uint64_t>(part.rows) *
                                           static_cast<uint64_t>(part.columns);
  if (!isInPlace && scratch.bytes() < elements * kElement)
    scratch = DeviceMemory(gpu, elements * kElement, MemoryUse::Scratch);
  DeviceAddress drawn = isInPlace ? target : scratch.address();
  uint64_t key = randomKey(source.seed, part.spec.name);
  RandomScale scale = randomScale(part.spec.kind);
  void *parameters[] = {&drawn, &key, &elements, &scale.scale, &scale.offset};
  constexpr unsigned kBlocks = 2048, kThreads = 256;
  kernel->launch(kBlocks, kThreads, parameters);
  if (!isInPlace)
    copyRows(gpu, target, drawn + offsetOf(part), rowsOf(part));
}

} // namespace llama
