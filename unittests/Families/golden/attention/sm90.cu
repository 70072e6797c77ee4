// attention batch=4 sq=4096 sk=4096 heads=32 kvheads=8 d=128 dtype=bf16 mask=causal
// sm90.wg2.bn128.st2.pk1
// sm_90a
#include "attention/Sm90Attention.cuh"

namespace {
constexpr kiln::AttentionSignature kSignature{.q = kiln::DType::BF16, .kv = kiln::DType::BF16, .out = kiln::DType::BF16, .headDim = 128, .valueDim = 128, .mask = kiln::AttentionMask::Causal, .queryLengths = kiln::AttentionLengths::Uniform, .keyLengths = kiln::AttentionLengths::Uniform, .pages = kiln::AttentionPages::None, .softcap = false, .sinks = false, .alibi = false, .lse = false, .scales = false, .align = 16};
constexpr kiln::Sm90AttentionConfig kConfig{.consumers = 2, .blockN = 128, .stages = 2, .ordered = 0, .dynamic = 0, .packed = 1, .ragged = 0, .collected = 0};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 384 && kConfig.sharedBytes(kSignature) == 197984,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(384, 1)
kiln_attention_sm90_wg2_bn128_st2_pk1_sig574e(const __grid_constant__ kiln::Sm90AttentionParams params) {
  kiln::sm90Attention<kSignature, kConfig>(params);
}
