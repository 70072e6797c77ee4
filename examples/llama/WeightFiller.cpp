//===- WeightFiller.cpp ---------------------------------------------------===//
#include "WeightFiller.h"

#include "Checkpoint.h"
#include "HostMatrix.h"
#include "RandomWeights.h"
#include "RandomWeightsPtx.h"

#include <cstring>
#include <vector>

namespace llama {

namespace {

constexpr uint64_t kElement = 2; // bytes of a bf16

/// Where the part begins in its tensor.
uint64_t offsetOf(const PlacedTensor &part) {
  return kElement * static_cast<uint64_t>(part.firstRow * part.spec.columns() +
                                          part.firstColumn);
}

/// The rows of the part, from its tensor to its matrix.
Rows rowsOf(const PlacedTensor &part) {
  const auto rows = static_cast<uint64_t>(part.rows);
  const uint64_t row = kElement * static_cast<uint64_t>(part.columns);
  if (part.spec.columns() == 1) // a vector is one row to a copy
    return {1, rows * row, rows * row, rows * row};
  return {rows, row, kElement * static_cast<uint64_t>(part.spec.columns()),
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

WeightFiller::WeightFiller(const Gpu &gpu, const ModelConfig &model,
                           const WeightSource &source,
                           const kiln::Engine *packer)
    : gpu(gpu), model(model), source(source), packer(packer) {
  if (!source.checkpoint)
    kernel = std::make_unique<PtxKernel>(gpu, kRandomWeightsPtx,
                                         kRandomWeightsEntry);
}

void WeightFiller::fill(const PlannedMatrix &matrix, DeviceAddress base) {
  if (matrix.format.type == WeightType::Fp32)
    return uploadNumbers(matrix, base);
  if (matrix.format.type != WeightType::Bf16)
    return upload(matrix, base);
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

/// Vectors as fp32, by the host.
void WeightFiller::uploadNumbers(const PlannedMatrix &matrix,
                                 DeviceAddress base) const {
  std::vector<float> numbers(static_cast<size_t>(matrix.rows));
  for (const PlacedTensor &part : matrix.parts) {
    const auto weight = openWeight(model, source, part.spec);
    for (int64_t row = 0; row < part.rows; ++row)
      weight->readRow(part.firstRow + row,
                      &numbers[static_cast<size_t>(part.targetRow + row)]);
  }
  const uint64_t bytes = numbers.size() * sizeof(float);
  uploadRows(gpu, base + matrix.data, numbers.data(), {1, bytes, bytes, bytes});
}

DeviceAddress WeightFiller::scratchOf(uint64_t bytes) {
  if (scratch.bytes() < bytes) {
    gpu.synchronize(); // it may be in use
    scratch = {};
    scratch = DeviceMemory(gpu, bytes, MemoryUse::Scratch);
  }
  return scratch.address();
}

//===----------------------------------------------------------------------===//
// bf16
//===----------------------------------------------------------------------===//

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
  DeviceAddress drawn = isInPlace ? target : scratchOf(elements * kElement);
  uint64_t key = randomKey(source.seed, part.spec.name);
  RandomScale scale = randomScale(part.spec.kind);
  void *parameters[] = {&drawn, &key, &elements, &scale.scale, &scale.offset};
  constexpr unsigned kBlocks = 2048, kThreads = 256;
  kernel->launch(kBlocks, kThreads, parameters);
  if (!isInPlace)
    copyRows(gpu, target, drawn + offsetOf(part), rowsOf(part));
}

//===----------------------------------------------------------------------===//
// Quantised
//===----------------------------------------------------------------------===//

void WeightFiller::upload(const PlannedMatrix &matrix, DeviceAddress base) {
  const HostMatrix host(model, source, matrix);
  if (isPacked(matrix.format.type)) {
    pack(matrix, host, base);
  } else {
    const auto copyAll = [&](uint64_t at, const std::vector<uint8_t> &bytes) {
      copyToDevice(gpu, base + at, bytes.data(), bytes.size());
    };
    copyAll(matrix.data, host.codes());
    copyAll(matrix.scales, host.scales());
  }
  gpu.synchronize(); // host memory ends here
}

/// Zero points as compressed-tensors has them: words [rows / 8][groups], row 0
/// of eight in the lowest bits.
static std::vector<uint32_t> zeroWords(const std::vector<uint8_t> &zeros,
                                       int64_t rows) {
  const size_t groups = zeros.size() / static_cast<size_t>(rows);
  constexpr size_t kCodes = 8;
  const size_t wordRows = (static_cast<size_t>(rows) + kCodes - 1) / kCodes;
  std::vector<uint32_t> words(wordRows * groups);
  for (size_t i = 0; i < zeros.size(); ++i) {
    const size_t row = i / groups;
    words[row / kCodes * groups + i % groups] |= uint32_t(zeros[i])
                                                 << 4 * (row % kCodes);
  }
  return words;
}

kiln::Sized<kiln_prepack_args> packingOf(const PlannedMatrix &matrix) {
  const WeightFormat &format = matrix.format;
  kiln::Sized<kiln_prepack_args> call;
  call.n = matrix.rows;
  call.k = matrix.columns;
  call.group_size = format.groupSize;
  if (format.type == WeightType::Int4) {
    // Its rows are those of HostMatrix.
    call.source = KILN_WEIGHTS_COMPRESSED_TENSORS;
    call.scales.type = format.hasBf16Scales ? KILN_BF16 : KILN_FP16;
    call.flags = format.hasZeros ? KILN_PREPACK_HAS_ZEROS : 0;
  } else if (format.type == WeightType::Mxfp4) {
    call.source = KILN_WEIGHTS_MXFP4;
  } else {
    call.source = KILN_WEIGHTS_E4M3;
    call.scales.type = KILN_FP32;
  }
  return call;
}

void WeightFiller::pack(const PlannedMatrix &matrix, const HostMatrix &host,
                        DeviceAddress base) {
  std::vector<uint32_t> zeros;
  if (matrix.format.hasZeros)
    zeros = zeroWords(host.zeros(), matrix.rows);
  const uint64_t zeroBytes = zeros.size() * sizeof(uint32_t);
  constexpr uint64_t kAlignment = 256;
  const auto alignUp = [](uint64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  };
  const uint64_t codeRoom = alignUp(host.codes().size()),
                 scaleRoom = alignUp(host.scales().size());
  const DeviceAddress codes = scratchOf(codeRoom + scaleRoom + zeroBytes);
  const DeviceAddress scales = codes + codeRoom;
  copyToDevice(gpu, codes, host.codes().data(), host.codes().size());
  copyToDevice(gpu, scales, host.scales().data(), host.scales().size());
  copyToDevice(gpu, scales + scaleRoom, zeros.data(), zeroBytes);

  const auto at = [](DeviceAddress address) {
    return reinterpret_cast<void *>(address);
  };
  kiln::Sized<kiln_prepack_args> call = packingOf(matrix);
  call.weights.data = at(codes);
  call.scales.data = at(scales);
  call.packed.data = at(base + matrix.data);
  call.packed_scales.data = at(base + matrix.scales);
  if (matrix.format.hasZeros) {
    call.zeros.data = at(scales + scaleRoom);
    call.packed_zeros.data = at(base + matrix.zeros);
  }
  kiln::Status(kiln_prepack(packer->get(), &call, nullptr, gpu.stream()))
      .orThrow();
  gpu.synchronize();
}

} // namespace llama
