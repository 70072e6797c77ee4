// attention batch=4 sq=1 sk=8192 heads=64 kvheads=8 d=64 dtype=bf16 kv=e4m3 mask=window left=127 right=0 softcap=30 sinks=1 alibi=1 lse=1 qlen=packed kvlen=used pages=list page=16 scales=head
// naive.w4
// sm_90
#include "attention/NaiveAttention.cuh"

namespace {
constexpr kiln::AttentionSignature kSignature{.q = kiln::DType::BF16, .kv = kiln::DType::E4M3, .out = kiln::DType::BF16, .headDim = 64, .valueDim = 64, .mask = kiln::AttentionMask::Window, .queryLengths = kiln::AttentionLengths::Packed, .keyLengths = kiln::AttentionLengths::Used, .pages = kiln::AttentionPages::List, .softcap = true, .sinks = true, .alibi = true, .lse = true, .scales = true, .align = 16};
constexpr kiln::NaiveAttentionConfig kConfig{.warps = 4};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 128 && kConfig.sharedBytes(kSignature) == 0,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(128, 1)
kiln_attention_naive_w4_sigd667(const __grid_constant__ kiln::AttentionParams params) {
  kiln::naiveAttention<kSignature, kConfig>(params);
}
