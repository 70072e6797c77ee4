// attention batch=32 sq=2 sk=8192 skhint=3000 heads=16 kvheads=1 d=576 dv=512 dtype=fp16 mask=causal lse=1 kvlen=used pages=table page=64 latent=1
// sm90mla.cl1.pc2
// sm_90a
#include "attention/Sm90MlaAttention.cuh"

namespace {
constexpr kiln::AttentionSignature kSignature{.q = kiln::DType::FP16, .kv = kiln::DType::FP16, .out = kiln::DType::FP16, .headDim = 576, .valueDim = 512, .mask = kiln::AttentionMask::Causal, .queryLengths = kiln::AttentionLengths::Uniform, .keyLengths = kiln::AttentionLengths::Used, .pages = kiln::AttentionPages::Table, .softcap = false, .sinks = false, .alibi = false, .lse = true, .scales = false, .align = 16};
constexpr kiln::Sm90MlaConfig kConfig{.cluster = 1, .pieces = 2};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 384 && kConfig.sharedBytes(kSignature) == 231392,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(384, 1)
kiln_attention_sm90mla_cl1_pc2_sigd55f(const __grid_constant__ kiln::Sm90MlaParams params) {
  kiln::sm90MlaAttention<kSignature, kConfig>(params);
}
