// attention batch=8 sq=16 sk=8192 heads=32 kvheads=8 d=64 dtype=fp16 mask=window left=1023 right=0 lse=1 kvlen=used pages=table page=16
// sm90.wg2.bn128.st2.or1.dy1.pk4
// sm_90a
#include "attention/Sm90Attention.cuh"

namespace {
constexpr kiln::AttentionSignature kSignature{.q = kiln::DType::FP16, .kv = kiln::DType::FP16, .out = kiln::DType::FP16, .headDim = 64, .valueDim = 64, .mask = kiln::AttentionMask::Window, .queryLengths = kiln::AttentionLengths::Uniform, .keyLengths = kiln::AttentionLengths::Used, .pages = kiln::AttentionPages::Table, .softcap = false, .sinks = false, .alibi = false, .lse = true, .scales = false, .align = 16};
constexpr kiln::Sm90AttentionConfig kConfig{.consumers = 2, .blockN = 128, .stages = 2, .ordered = 1, .dynamic = 1, .packed = 4, .ragged = 0, .collected = 0};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 384 && kConfig.sharedBytes(kSignature) == 99680,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(384, 1)
kiln_attention_sm90_wg2_bn128_st2_or1_dy1_pk4_sigcb92(const __grid_constant__ kiln::Sm90AttentionParams params) {
  kiln::sm90Attention<kSignature, kConfig>(params);
}
