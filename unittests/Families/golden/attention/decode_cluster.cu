// attention batch=4 sq=4 sk=8192 heads=64 kvheads=8 d=128 dtype=bf16 kv=e4m3 mask=causal sinks=1 lse=1 qlen=packed kvlen=used pages=table page=16 scales=head
// decode.r32.t16.st3.w4.sq1.cl1
// sm_90
#include "attention/DecodeAttention.cuh"

namespace {
constexpr kiln::AttentionSignature kSignature{.q = kiln::DType::BF16, .kv = kiln::DType::E4M3, .out = kiln::DType::BF16, .headDim = 128, .valueDim = 128, .mask = kiln::AttentionMask::Causal, .queryLengths = kiln::AttentionLengths::Packed, .keyLengths = kiln::AttentionLengths::Used, .pages = kiln::AttentionPages::Table, .softcap = false, .sinks = true, .alibi = false, .lse = true, .scales = true, .align = 16};
constexpr kiln::DecodeAttentionConfig kConfig{.rows = 32, .tile = 16, .stages = 3, .warps = 4, .parts = 0, .sharedQueries = 1, .cluster = 1};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 128 && kConfig.sharedBytes(kSignature) == 96512,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(128, 1)
kiln_attention_decode_r32_t16_st3_w4_sq1_cl1_sig33c8(const __grid_constant__ kiln::AttentionParams params) {
  kiln::decodeAttention<kSignature, kConfig>(params);
}
