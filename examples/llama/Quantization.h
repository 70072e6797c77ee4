//===- Quantization.h - quantization_config of a config.json --------------===//
//
// How a checkpoint stores quantised weights. Modules that stay as they are need
// no list here: their tensors show it.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_QUANTIZATION_H
#define KILN_EXAMPLES_LLAMA_QUANTIZATION_H

#include <cstdint>
#include <string_view>

namespace llama {

class ConfigReader;

enum class QuantMethod : uint8_t {
  None,
  Fp8, ///< of transformers (DeepSeek, Qwen3) and AutoFP8
  CompressedTensors,
  ModelOpt,
  Awq,
  Gptq,
  Mxfp4 ///< of gpt-oss: experts in blocks and scales
};

/// The quant_method; "none".
std::string_view nameOf(QuantMethod method);

struct Quantization {
  QuantMethod method = QuantMethod::None;
  /// 8: e4m3, with a scale for each tensor, row, or block of 128 x 128.
  /// 4: integers, with a scale for each group of k.
  int bits = 0;
  bool hasBlocks = false;
  int64_t groupSize = 0; ///< 0: all of k
  /// Whether the integers have zero points. Without them codes stand for their
  /// value less 8.
  bool hasZeros = false;
  /// Whether zero points are stored less 1, as the first format of GPTQ does.
  bool hasZerosLessOne = false;
};

/// The key quantization_config of \p config; method None where it is absent.
/// Throws Error, which names key and value, for what the engine cannot do.
Quantization readQuantization(const ConfigReader &config);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_QUANTIZATION_H
