// attention sq=4096 sk=4096 heads=32 kvheads=8 d=128 dtype=bf16 mask=causal
// naive.w4
// sm_90
#include "attention/NaiveAttention.cuh"

namespace {
constexpr kiln::AttentionSignature kSignature{.q = kiln::DType::BF16, .kv = kiln::DType::BF16, .out = kiln::DType::BF16, .headDim = 128, .valueDim = 128, .mask = kiln::AttentionMask::Causal, .queryLengths = kiln::AttentionLengths::Uniform, .keyLengths = kiln::AttentionLengths::Uniform, .pages = kiln::AttentionPages::None, .softcap = false, .sinks = false, .alibi = false, .lse = false, .scales = false, .align = 16};
constexpr kiln::NaiveAttentionConfig kConfig{.warps = 4};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 128 && kConfig.sharedBytes(kSignature) == 0,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(128, 1)
kiln_attention_naive_w4_sig574e(const __grid_constant__ kiln::AttentionParams params) {
  kiln::naiveAttention<kSignature, kConfig>(params);
}
