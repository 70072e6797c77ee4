//===- BenchBuffers.cpp ---------------------------------------------------===//
#include "kiln/BenchBuffers.h"

#include "Support/Error.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

namespace kiln::cli {

/// The largest prime below 2^22.
static constexpr uint64_t kPoolElements = 4194301;

/// Where operands begin, before the misalignment that their problem has.
static constexpr uint64_t kOperandAlignment = 256;

//===----------------------------------------------------------------------===//
// Types of elements
//===----------------------------------------------------------------------===//

/// \p value with \p bits explicit mantissa bits, to nearest even.
static float roundMantissa(float value, int bits) {
  uint32_t word = std::bit_cast<uint32_t>(value);
  int dropped = 23 - bits;
  uint32_t odd = (word >> dropped) & 1;
  word += (1u << (dropped - 1)) - 1 + odd;
  return std::bit_cast<float>(word & ~((1u << dropped) - 1));
}

static uint16_t toBf16(float value) {
  return static_cast<uint16_t>(
      std::bit_cast<uint32_t>(roundMantissa(value, 7)) >> 16);
}

static float fromBf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

/// Of finite values below 65504.
static uint16_t toHalf(float value) {
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  float size = std::abs(value);
  constexpr float kLeastNormal = 0x1p-14f;
  if (size < kLeastNormal)
    return sign | static_cast<uint16_t>(std::nearbyint(size * 0x1p24f));
  uint32_t word = std::bit_cast<uint32_t>(roundMantissa(size, 10));
  constexpr uint32_t kBiasDifference = (127 - 15) << 10;
  return sign | static_cast<uint16_t>((word >> 13) - kBiasDifference);
}

static float fromHalf(uint16_t bits) {
  float sign = bits & 0x8000 ? -1.0f : 1.0f;
  int exponent = (bits >> 10) & 0x1f, mantissa = bits & 0x3ff;
  if (exponent == 0x1f)
    return mantissa ? NAN : sign * INFINITY;
  if (exponent == 0)
    return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
}

//===----------------------------------------------------------------------===//
// Random data
//===----------------------------------------------------------------------===//

llvm::Expected<const RandomPool::Sample *>
RandomPool::sampleOf(DType type, int mantissaBits) {
  Sample &sample = samples[{type, mantissaBits}];
  if (!sample.memory.empty())
    return &sample;
  std::mt19937 generator(1234567);
  std::normal_distribution<float> normal;
  std::vector<uint8_t> bytes(kPoolElements * bytesOf(type));
  for (uint64_t i = 0; i < kPoolElements; ++i) {
    float value = normal(generator);
    if (type == DType::FP32) {
      value = mantissaBits ? roundMantissa(value, mantissaBits) : value;
      std::memcpy(&bytes[i * sizeof(value)], &value, sizeof(value));
    } else {
      uint16_t bits = type == DType::BF16 ? toBf16(value) : toHalf(value);
      std::memcpy(&bytes[i * sizeof(bits)], &bits, sizeof(bits));
    }
  }
  auto memory = DeviceMemory::allocate(*driver, bytes.size());
  if (!memory)
    return memory.takeError();
  if (llvm::Error error =
          copyToDevice(*driver, memory->address(), bytes.data(), bytes.size()))
    return error;
  sample.memory = std::move(*memory);
  sample.bytes = bytes.size();
  return &sample;
}

llvm::Error RandomPool::fill(const OperandSpec &spec, DeviceAddress to,
                             uint64_t bytes, uint64_t seed, CudaStream stream) {
  auto sample = sampleOf(spec.type, spec.mantissaBits);
  if (!sample)
    return sample.takeError();
  constexpr uint64_t kStride = 1299709; // any prime spreads the seeds
  uint64_t offset = seed * kStride % kPoolElements *
                    static_cast<uint64_t>(bytesOf(spec.type));
  while (bytes > 0) {
    uint64_t part = std::min(bytes, (*sample)->bytes - offset);
    if (llvm::Error error = copyOnDevice(
            *driver, to, (*sample)->memory.address() + offset, part, stream))
      return error;
    to += part;
    bytes -= part;
    offset = 0;
  }
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

static uint64_t slotBytes(const OperandSpec &spec) {
  uint64_t bytes = static_cast<uint64_t>(spec.bytes() + spec.misalignment);
  return (bytes + kOperandAlignment - 1) / kOperandAlignment *
         kOperandAlignment;
}

/// Fills the inputs of the first copy, then copies it: filling anew would take
/// longer for small operands.
static llvm::Error fillCopies(const Driver &driver, const OperandTable &table,
                              llvm::ArrayRef<OperandAddresses> copies,
                              RandomPool &pool, CudaStream stream) {
  for (size_t i = 0; i < table.operands.size(); ++i) {
    const OperandSpec &spec = table.operands[i];
    uint64_t bytes = static_cast<uint64_t>(spec.bytes());
    if (bytes == 0 || spec.role == OperandRole::Out)
      continue;
    if (llvm::Error error = pool.fill(spec, copies[0][i], bytes, i + 1, stream))
      return error;
    for (const OperandAddresses &copy : copies.drop_front())
      if (llvm::Error error =
              copyOnDevice(driver, copy[i], copies[0][i], bytes, stream))
        return error;
  }
  return llvm::Error::success();
}

llvm::Expected<BenchBuffers>
BenchBuffers::create(const Driver &driver, const DeviceModel &device,
                     const OperandTable &table, uint64_t maxBytes,
                     RandomPool &pool, CudaStream stream) {
  uint64_t copyBytes = 0;
  for (const OperandSpec &spec : table.operands)
    copyBytes += slotBytes(spec);
  copyBytes = std::max(copyBytes, kOperandAlignment);
  constexpr uint64_t kMaxCopies = 1024;
  uint64_t wanted = 3 * static_cast<uint64_t>(device.l2Bytes) / copyBytes + 1;
  uint64_t count = std::clamp<uint64_t>(
      std::min(std::max<uint64_t>(wanted, 2), maxBytes / copyBytes), 1,
      kMaxCopies);
  BenchBuffers buffers;
  auto memory = DeviceMemory::allocate(driver, count * copyBytes);
  if (!memory)
    return memory.takeError();
  buffers.memory = std::move(*memory);
  DeviceAddress next = buffers.memory.address();
  for (uint64_t copy = 0; copy < count; ++copy) {
    OperandAddresses &addresses = buffers.addressLists.emplace_back();
    for (const OperandSpec &spec : table.operands) {
      addresses.push_back(next + static_cast<uint64_t>(spec.misalignment));
      next += slotBytes(spec);
    }
  }
  if (llvm::Error error =
          fillCopies(driver, table, buffers.addressLists, pool, stream))
    return error;
  return buffers;
}

llvm::Expected<std::vector<float>> readRow(const Driver &driver,
                                           const OperandSpec &spec,
                                           DeviceAddress address, int64_t row) {
  int64_t offset = row / spec.rows * spec.batchStride +
                   row % spec.rows * spec.leadingDimension;
  int64_t elementBytes = bytesOf(spec.type);
  std::vector<uint8_t> bytes(static_cast<size_t>(spec.cols * elementBytes));
  if (llvm::Error error = copyToHost(
          driver, bytes.data(),
          address + static_cast<uint64_t>(offset * elementBytes), bytes.size()))
    return error;
  std::vector<float> values(static_cast<size_t>(spec.cols));
  for (size_t i = 0; i < values.size(); ++i) {
    if (spec.type == DType::FP32) {
      std::memcpy(&values[i], &bytes[i * sizeof(float)], sizeof(float));
      continue;
    }
    uint16_t bits;
    std::memcpy(&bits, &bytes[i * sizeof(bits)], sizeof(bits));
    values[i] = spec.type == DType::BF16 ? fromBf16(bits) : fromHalf(bits);
  }
  return values;
}

} // namespace kiln::cli
