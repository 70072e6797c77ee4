//===- ClusterMoves.cpp - copies, boxes and products ----------------------===//
#include "Emulator/Cluster.h"
#include "common/Types.h"

#include <cuda.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

namespace kiln::emulated {

void Cluster::finish(const GlobalCopy &copy) {
  const auto bytes = static_cast<unsigned>(copy.bytes);
  unsigned char *to = sharedAt(copy.shared, bytes);
  if (copy.sourceBytes > 0 &&
      reinterpret_cast<uintptr_t>(copy.global) % bytes != 0)
    fail(fmt::format("a copy of {} bytes from an address that is not aligned",
                     bytes));
  std::memset(to, 0, bytes);
  if (copy.sourceBytes > 0)
    std::memcpy(to, copy.global, static_cast<size_t>(copy.sourceBytes));
}

//===----------------------------------------------------------------------===//
// Boxes
//===----------------------------------------------------------------------===//

/// The swizzle that permutes the 16-byte chunks of rows of \p bytes, 32, 64 or
/// 128; 0: none.
static unsigned swizzled(unsigned address, unsigned bytes) {
  const unsigned chunks = bytes / 16;
  return chunks > 1 ? address ^ ((address >> 7 & (chunks - 1)) << 4) : address;
}

static unsigned swizzleBytes(const KilnFakeTensorMap &map) {
  switch (map.swizzle) {
  case CU_TENSOR_MAP_SWIZZLE_32B:
    return 32;
  case CU_TENSOR_MAP_SWIZZLE_64B:
    return 64;
  case CU_TENSOR_MAP_SWIZZLE_128B:
    return 128;
  default:
    return 0;
  }
}

static unsigned elementBytes(const KilnFakeTensorMap &map) {
  switch (map.dataType) {
  case CU_TENSOR_MAP_DATA_TYPE_UINT8:
    return 1;
  case CU_TENSOR_MAP_DATA_TYPE_UINT16:
  case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
  case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
    return 2;
  case CU_TENSOR_MAP_DATA_TYPE_UINT64:
  case CU_TENSOR_MAP_DATA_TYPE_INT64:
  case CU_TENSOR_MAP_DATA_TYPE_FLOAT64:
    return 8;
  default:
    return 4;
  }
}

/// Calls \p each(offset in the box, address, or null outside of the tensor) for
/// every element of a box. Returns the box's bytes.
template <class Each>
static unsigned forBox(const BoxMove &move, const Each &each) {
  const KilnFakeTensorMap &map = move.map;
  const unsigned bytes = elementBytes(map);
  unsigned box[5], place[5] = {}, offset = 0;
  for (int i = 0; i < 5; ++i)
    box[i] = i < map.rank ? map.box[i] : 1;
  for (bool isDone = false; !isDone;) {
    uint64_t address = map.address;
    bool isInside = true;
    for (int i = 0; i < map.rank; ++i) {
      const int64_t at = int64_t(move.at[i]) + place[i];
      isInside &= at >= 0 && static_cast<uint64_t>(at) < map.dims[i];
      address += static_cast<uint64_t>(at) * (i ? map.strides[i - 1] : bytes);
    }
    each(offset,
         isInside ? reinterpret_cast<unsigned char *>(address) : nullptr);
    offset += bytes;
    isDone = true;
    for (int i = 0; i < 5 && isDone; ++i) {
      isDone = ++place[i] == box[i];
      if (isDone)
        place[i] = 0;
    }
  }
  return offset;
}

/// Rounds fp32 to tf32's 10 mantissa bits, ties to even, as loads by such a map
/// do (measured on an H100).
static void roundToTf32(unsigned char *element) {
  uint32_t bits = 0;
  std::memcpy(&bits, element, sizeof(bits));
  constexpr uint32_t kInfinity = 0x7f800000, kCut = 0x1fff;
  if ((bits & kInfinity) != kInfinity)
    bits += kCut / 2 + (bits >> 13 & 1);
  bits &= ~kCut;
  std::memcpy(element, &bits, sizeof(bits));
}

void Cluster::loadBytes(const BoxMove &move, Block &block) {
  constexpr unsigned kEach = 16;
  const unsigned at = move.shared & 0xffffff;
  if (move.bytes % kEach != 0 || at % kEach != 0 ||
      reinterpret_cast<uintptr_t>(move.global) % kEach != 0)
    fail(fmt::format("a bulk copy of {} bytes to {:#x} that is not aligned",
                     move.bytes, at));
  const auto *from = static_cast<const unsigned char *>(move.global);
  for (unsigned i = 0; i < move.bytes; i += kEach)
    std::memcpy(bytesAt(block, at + i, kEach), from + i, kEach);
  mbarrierArrive(block, move.mbarrier & 0xffffff, /*arrivals=*/0,
                 -static_cast<int>(move.bytes));
}

void Cluster::load(const BoxMove &move, Block &block) {
  if (move.bytes != 0)
    return loadBytes(move, block);
  const unsigned at = move.shared & 0xffffff, bytes = elementBytes(move.map);
  if (at % 128 != 0)
    fail(fmt::format("a box at {:#x}, which is no multiple of 128", at));
  const unsigned all =
      forBox(move, [&](unsigned offset, const unsigned char *from) {
        unsigned char *to = bytesAt(
            block, swizzled(at + offset, swizzleBytes(move.map)), bytes);
        if (from)
          std::memcpy(to, from, bytes);
        else
          std::memset(to, 0, bytes);
        if (move.map.dataType == CU_TENSOR_MAP_DATA_TYPE_TFLOAT32)
          roundToTf32(to);
      });
  mbarrierArrive(block, move.mbarrier & 0xffffff, /*arrivals=*/0,
                 -static_cast<int>(all));
}

void Cluster::finish(const BoxMove &store) {
  Block &block = *current->block;
  const unsigned bytes = elementBytes(store.map);
  if (store.shared % 128 != 0)
    fail(fmt::format("a box at {:#x}, which is no multiple of 128",
                     store.shared));
  forBox(store, [&](unsigned offset, unsigned char *to) {
    if (to)
      std::memcpy(
          to,
          bytesAt(block,
                  swizzled(store.shared + offset, swizzleBytes(store.map)),
                  bytes),
          bytes);
  });
}

void Cluster::deliverOne() {
  // Loads that are in flight together arrive in any order.
  constexpr size_t kInFlight = 4;
  const size_t i = random() % std::min(loads.size(), kInFlight);
  const Pending pending = loads[i];
  loads.erase(loads.begin() + static_cast<ptrdiff_t>(i));
  if (pending.move.clusterMask == 0)
    return load(pending.move, *pending.issuer);
  for (size_t rank = 0; rank < blocks.size(); ++rank)
    if (pending.move.clusterMask >> rank & 1)
      load(pending.move, blocks[rank]);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

template <class Last> void Cluster::meetInWarpgroup(const Last &last) {
  Block &block = *current->block;
  const unsigned number = current->thread.index / kWarpgroup;
  Warpgroup &group = block.warpgroups[number];
  if (++group.present < kWarpgroup)
    return wait(Wait::Warpgroup, number);
  group.present = 0;
  last(group);
  wake(block, Wait::Warpgroup, number);
}

void Cluster::multiply(const Product &product) {
  const unsigned index = current->thread.index;
  Warpgroup &group = current->block->warpgroups[index / kWarpgroup];
  GroupProduct &all = group.product;
  const unsigned thread = index % kWarpgroup;
  const bool agrees = all.shape.width == product.width &&
                      all.shape.descriptorA == product.descriptorA &&
                      all.shape.descriptorB == product.descriptorB &&
                      !all.shape.accumulate == !product.accumulate;
  if (group.present > 0 && !agrees)
    fail("threads of a warpgroup name other operands of a product");
  all.shape = product;
  all.sums[thread] = product.sums;
  all.a[thread] = product.a;
  meetInWarpgroup(
      [](Warpgroup &group) { group.products.open.push_back(group.product); });
}

void Cluster::commitProducts() {
  meetInWarpgroup([](Warpgroup &group) { group.products.close(); });
}

void Cluster::waitForProducts(int pending) {
  meetInWarpgroup([&](Warpgroup &group) {
    group.products.wait(pending, [&](const GroupProduct &one) { finish(one); });
  });
}

static float valueOf(DType type, const unsigned char *bytes) {
  if (type == DType::INT8)
    return static_cast<signed char>(*bytes);
  if (type == DType::E5M2) {
    const auto bits = static_cast<uint16_t>(*bytes << 8);
    return static_cast<float>(__builtin_bit_cast(_Float16, bits));
  }
  if (type == DType::E4M3) {
    const int exponent = *bytes >> 3 & 15, mantissa = *bytes & 7;
    const float size = exponent
                           ? std::ldexp(8.0f + float(mantissa), exponent - 10)
                           : std::ldexp(float(mantissa), -9);
    return (*bytes & 0x7f) == 0x7f ? NAN : *bytes & 0x80 ? -size : size;
  }
  // wgmma does not read the bits of fp32 that tf32 does not have.
  if (type == DType::FP32) {
    uint32_t word = 0;
    std::memcpy(&word, bytes, sizeof(word));
    return __builtin_bit_cast(float, word & ~0x1fffu);
  }
  uint16_t bits = 0;
  std::memcpy(&bits, bytes, sizeof(bits));
  if (type == DType::FP16)
    return static_cast<float>(__builtin_bit_cast(_Float16, bits));
  return __builtin_bit_cast(float, uint32_t(bits) << 16);
}

namespace {

/// An operand of wgmma in shared memory. Source: PTX ISA, matrix descriptor.
class Tile {
public:
  Tile(unsigned long long descriptor, bool isTransposed, unsigned bytes)
      : start((descriptor & 0x3fff) << 4),
        leading((descriptor >> 16 & 0x3fff) << 4),
        stride((descriptor >> 32 & 0x3fff) << 4),
        rowBytes(kRowBytes[descriptor >> 62]), isTransposed(isTransposed),
        bytes(bytes) {}

  /// Rows of 8 x 16 bytes, which swizzle nothing, are for K-major tiles alone.
  bool isValid() const { return rowBytes != 0 || !isTransposed; }

  /// The address of the element at \p k of \p row, a row of A or a column of B.
  unsigned addressOf(unsigned row, unsigned k) const {
    if (rowBytes == 0)
      return start + row / 8 * stride + row % 8 * 16 +
             k * bytes / 16 * leading + k * bytes % 16;
    if (!isTransposed)
      return swizzled(start + row / 8 * stride + row % 8 * rowBytes + k * bytes,
                      rowBytes);
    const unsigned each = rowBytes / bytes;
    return swizzled(start + row / each * leading + k / 8 * stride +
                        k % 8 * rowBytes + row % each * bytes,
                    rowBytes);
  }

private:
  static constexpr unsigned kRowBytes[] = {0, 128, 64, 32};

  unsigned start, leading, stride, rowBytes;
  bool isTransposed;
  unsigned bytes;
};

} // namespace

static constexpr int kMostDepth = 32, kMostWidth = 256;

/// Adds \p depth products to each of \p width \p sums.
static void addProducts(const float *a, const float (*b)[kMostWidth], int depth,
                        int width, float *sums) {
  for (int k = 0; k < depth; ++k)
    for (int n = 0; n < width; ++n)
      sums[n] += a[k] * b[k][n];
}

/// As above for fp8: addends are shifted to the exponent of the greatest one,
/// and the bits below 14 are cut off. Source: DeepSeek-V3 Technical Report,
/// arXiv:2412.19437, 3.3.2.
static void addShifted(const float *a, const float (*b)[kMostWidth], int depth,
                       int width, float *sums) {
  constexpr int kBits = 14;
  for (int n = 0; n < width; ++n) {
    float greatest = std::abs(sums[n]), plain = sums[n];
    for (int k = 0; k < depth; ++k) {
      greatest = std::max(greatest, std::abs(a[k] * b[k][n]));
      plain += a[k] * b[k][n];
    }
    if (greatest == 0 || !std::isfinite(plain)) {
      sums[n] = plain;
      continue;
    }
    constexpr int kLeast = -149; // of a denormal number
    const float unit =
        std::ldexp(1.0f, std::max(std::ilogb(greatest) + 1 - kBits, kLeast));
    float units = std::trunc(sums[n] / unit);
    for (int k = 0; k < depth; ++k)
      units += std::trunc(a[k] * b[k][n] / unit);
    sums[n] = units * unit;
  }
}

void Cluster::finish(const GroupProduct &product) {
  constexpr int kRows = 64;
  const auto type = static_cast<DType>(product.shape.typeA);
  const auto typeB = static_cast<DType>(product.shape.typeB);
  const bool isInteger = type == DType::INT8;
  const int bytes = bytesOf(type), depth = 32 / bytes;
  const int width = product.shape.width;
  static float a[kRows][kMostDepth], b[kMostDepth][kMostWidth], row[kMostWidth];
  Block &block = *current->block;
  auto read = [&](const Tile &tile, DType of, int r, int k) {
    return valueOf(of,
                   bytesAt(block, tile.addressOf(unsigned(r), unsigned(k)), 1));
  };
  const Tile tileA(product.shape.descriptorA, product.shape.transA,
                   unsigned(bytes));
  const Tile tileB(product.shape.descriptorB, product.shape.transB,
                   unsigned(bytes));
  if (!tileB.isValid() || (!product.shape.a && !tileA.isValid()))
    return fail("a transposed operand without a swizzle");
  for (int k = 0; k < depth; ++k)
    for (int n = 0; n < width; ++n)
      b[k][n] = read(tileB, typeB, n, k);
  for (int r = 0; r < kRows && !product.shape.a; ++r)
    for (int k = 0; k < depth; ++k)
      a[r][k] = read(tileA, type, r, k);
  // The elements of a thread: rows t / 4 and + 8, in four registers of 4 /
  // bytes elements.
  auto rowOf = [](int t) { return t / kWarp * 16 + t % kWarp / 4; };
  const int each = 4 / bytes;
  for (int t = 0; t < kWarpgroup && product.shape.a; ++t)
    for (int i = 0; i < 4 * each; ++i) {
      const int r = i / each % 2 * 8, k = i / each / 2 * 4 * each + i % each;
      a[rowOf(t) + r][t % 4 * each + k] = valueOf(
          type, reinterpret_cast<const unsigned char *>(product.a[size_t(t)]) +
                    i * bytes);
    }
  for (int r = 0; r < kRows; ++r) {
    const int half = r % 16 / 8, firstThread = r / 16 * kWarp + r % 8 * 4;
    auto sumOf = [&](int n) {
      return static_cast<char *>(
                 product.sums[size_t(firstThread + n % 8 / 2)]) +
             sizeof(float) * size_t(n / 8 * 4 + half * 2 + n % 2);
    };
    // Sums of integers are exact as fp32 in products as short as the tests'.
    for (int n = 0; n < width; ++n) {
      int integer = 0;
      std::memcpy(&row[n], sumOf(n), sizeof(float));
      std::memcpy(&integer, sumOf(n), sizeof(int));
      if (isInteger)
        row[n] = static_cast<float>(integer);
      if (!product.shape.accumulate)
        row[n] = 0.0f;
    }
    (isFp8(type) ? addShifted : addProducts)(a[r], b, depth, width, row);
    for (int n = 0; n < width; ++n) {
      const int integer = isInteger ? static_cast<int>(row[n]) : 0;
      std::memcpy(sumOf(n),
                  isInteger ? static_cast<const void *>(&integer) : &row[n],
                  sizeof(float));
    }
  }
}

} // namespace kiln::emulated
