// attention batch=128 sq=1 sk=4096 heads=128 kvheads=1 d=576 dv=512 dtype=bf16 latent=1
// sm90mla.cl2.pc2
// sm_90a
#include "attention/Sm90MlaAttention.cuh"

namespace {
constexpr kiln::AttentionSignature kSignature{.q = kiln::DType::BF16, .kv = kiln::DType::BF16, .out = kiln::DType::BF16, .headDim = 576, .valueDim = 512, .mask = kiln::AttentionMask::None, .queryLengths = kiln::AttentionLengths::Uniform, .keyLengths = kiln::AttentionLengths::Uniform, .pages = kiln::AttentionPages::None, .softcap = false, .sinks = false, .alibi = false, .lse = false, .scales = false, .align = 16};
constexpr kiln::Sm90MlaConfig kConfig{.cluster = 2, .pieces = 2};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 384 && kConfig.sharedBytes(kSignature) == 231360,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(384, 1)
kiln_attention_sm90mla_cl2_pc2_sig6341(const __grid_constant__ kiln::Sm90MlaParams params) {
  kiln::sm90MlaAttention<kSignature, kConfig>(params);
}
