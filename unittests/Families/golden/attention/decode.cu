// attention batch=32 sq=1 sk=4096 heads=32 kvheads=8 d=128 dtype=bf16
// decode.r8.t16.st3.w4
// sm_90
#include "attention/DecodeAttention.cuh"

namespace {
constexpr kiln::AttentionSignature kSignature{.q = kiln::DType::BF16, .kv = kiln::DType::BF16, .out = kiln::DType::BF16, .headDim = 128, .valueDim = 128, .mask = kiln::AttentionMask::None, .queryLengths = kiln::AttentionLengths::Uniform, .keyLengths = kiln::AttentionLengths::Uniform, .pages = kiln::AttentionPages::None, .softcap = false, .sinks = false, .alibi = false, .lse = false, .scales = false, .align = 16};
constexpr kiln::DecodeAttentionConfig kConfig{.rows = 8, .tile = 16, .stages = 3, .warps = 4, .parts = 0, .sharedQueries = 0, .cluster = 0};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 128 && kConfig.sharedBytes(kSignature) == 98304,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(128, 1)
kiln_attention_decode_r8_t16_st3_w4_sig6e93(const __grid_constant__ kiln::AttentionParams params) {
  kiln::decodeAttention<kSignature, kConfig>(params);
}
