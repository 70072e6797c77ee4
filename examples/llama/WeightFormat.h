//===- WeightFormat.h - how the weight of a product is stored -------------===//
#ifndef KILN_EXAMPLES_LLAMA_WEIGHTFORMAT_H
#define KILN_EXAMPLES_LLAMA_WEIGHTFORMAT_H

#include <cstdint>

namespace llama {

enum class WeightType : uint8_t {
  Bf16,
  /// e4m3 [n, k] with an fp32 scale for each row (per-channel).
  E4m3Rows,
  /// e4m3 [n, k] with an fp32 scale for each block of 128 x 128.
  E4m3Blocks,
  /// e4m3 with an fp32 scale for each row, packed for bf16 activations (W8A16).
  E4m3Packed,
  /// 4-bit codes with a 16-bit scale for each group of k, packed (W4A16).
  Int4,
  /// MXFP4 (Mxfp4.h): e2m1 with an e8m0 scale for each 32 of k, packed.
  Mxfp4,
  /// Vectors that kernels read as fp32.
  Fp32
};

/// The side of E4m3Blocks.
constexpr int64_t kScaleBlock = 128;

struct WeightFormat {
  WeightType type = WeightType::Bf16;
  /// Steps of k that share a scale, for Int4: 32, 64, 128, or 0: all. 32 for
  /// Mxfp4.
  int32_t groupSize = 0;
  /// Whether codes of Int4 have zero points. Without them a code stands for its
  /// value less 8.
  bool hasZeros = false;
  /// Whether scales of Int4 are bf16 and not fp16.
  bool hasBf16Scales = false;

  bool operator==(const WeightFormat &other) const {
    return type == other.type && groupSize == other.groupSize &&
           hasZeros == other.hasZeros && hasBf16Scales == other.hasBf16Scales;
  }
  bool operator!=(const WeightFormat &other) const { return !(*this == other); }
};

/// Whether products read it in the order of kiln_prepack.
bool isPacked(WeightType type);

/// Rows of a block of scales, or of packed rows, of a weight of \p type: it can
/// be divided between blocks.
int64_t rowsOfBlock(WeightType type);

/// The bytes of a weight in device memory.
struct WeightBytes {
  uint64_t data = 0, scales = 0, zeros = 0;

  uint64_t all() const { return data + scales + zeros; }
};

/// The bytes of a weight of \p rows x \p columns. Packed weights are as large
/// as kiln_prepack_query() says.
WeightBytes bytesOf(const WeightFormat &format, int64_t rows, int64_t columns);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_WEIGHTFORMAT_H
