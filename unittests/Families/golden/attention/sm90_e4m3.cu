// attention batch=2 sq=4096 sk=4096 heads=16 d=128 dtype=e4m3 mask=causal lse=1 scales=head
// sm90.wg2.bn192.st2.pk1
// sm_90a
#include "attention/Sm90Attention.cuh"

namespace {
constexpr kiln::AttentionSignature kSignature{.q = kiln::DType::E4M3, .kv = kiln::DType::E4M3, .out = kiln::DType::BF16, .headDim = 128, .valueDim = 128, .mask = kiln::AttentionMask::Causal, .queryLengths = kiln::AttentionLengths::Uniform, .keyLengths = kiln::AttentionLengths::Uniform, .pages = kiln::AttentionPages::None, .softcap = false, .sinks = false, .alibi = false, .lse = true, .scales = true, .align = 16};
constexpr kiln::Sm90AttentionConfig kConfig{.consumers = 2, .blockN = 192, .stages = 2, .ordered = 0, .dynamic = 0, .packed = 1, .ragged = 0, .collected = 0};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 384 && kConfig.sharedBytes(kSignature) == 198024,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(384, 1)
kiln_attention_sm90_wg2_bn192_st2_pk1_sigad45(const __grid_constant__ kiln::Sm90AttentionParams params) {
  kiln::sm90Attention<kSignature, kConfig>(params);
}
