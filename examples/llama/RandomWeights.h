//===- RandomWeights.h - weights without a file, by seed ------------------===//
//
// A weight depends on the seed, the name of its tensor and its index alone, so
// that any part can be made anywhere: here, by the kernel of RandomWeightsPtx.h
// or by numpy, with equal bits. That takes integers and single fp32 operations,
// each of which IEEE 754 rounds in one way:
//
//   key   = mix64(seed + hashText(name))                       64 bits, wraps
//   h     = mix64(key + (index + 1) * 0x9e3779b97f4a7c15)      64 bits, wraps
//   sum   = h[15:0] + h[31:16] + h[47:32] + h[63:48] - 131070  exact
//   value = bf16(fp32(fp32(sum) * scale) + offset)             nearest even
//
// fp32(sum) is exact, since |sum| <= 131070 < 2^24. The product and the sum are
// rounded each; a fused multiply-add would differ. The sum of four uniform
// numbers (Irwin-Hall) is close to normal: its tails end at 3.46 standard
// deviations, which no comparison of kernels depends on, and it needs neither
// a logarithm nor a cosine, whose last bits differ between libraries.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_RANDOMWEIGHTS_H
#define KILN_EXAMPLES_LLAMA_RANDOMWEIGHTS_H

#include <cstdint>
#include <string_view>

namespace llama {

/// value = x * scale + offset, for x of the sum above.
struct RandomScale {
  float scale = 0;
  float offset = 0;
};

/// The scale for a standard deviation and a mean. The deviation of the sum is
/// sqrt((65536^2 - 1) / 3).
RandomScale randomScale(double deviation, double mean);

/// The key of the tensor \p name.
uint64_t randomKey(uint64_t seed, std::string_view name);

/// Element \p index of the tensor of \p key, as the bits of a bf16.
uint16_t randomWeight(uint64_t key, uint64_t index, RandomScale scale);

/// Elements [first, first + count) of a tensor. About 1 ns an element.
void fillRandomWeights(uint16_t *out, uint64_t key, uint64_t first,
                       uint64_t count, RandomScale scale);

/// \p value rounded to bf16, nearest even, as bits. NaN stays NaN.
uint16_t roundToBf16(float value);

/// The numbers that the bits of a bf16 and of an fp16 stand for.
float bf16ToFloat(uint16_t bits);
float fp16ToFloat(uint16_t bits);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_RANDOMWEIGHTS_H
