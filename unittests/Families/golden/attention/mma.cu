// attention batch=4 sq=4096 sk=4096 heads=16 d=128 dtype=bf16
// mma.dt15.d128.br128.bc64.w4.ac1.el1.sw1.qt2.kt2.vt2.os1
// sm_90
#include "attention/MmaAttention.cuh"

namespace {
constexpr kiln::AttentionSignature kSignature{.q = kiln::DType::BF16, .kv = kiln::DType::BF16, .out = kiln::DType::BF16, .headDim = 128, .valueDim = 128, .mask = kiln::AttentionMask::None, .queryLengths = kiln::AttentionLengths::Uniform, .keyLengths = kiln::AttentionLengths::Uniform, .pages = kiln::AttentionPages::None, .softcap = false, .sinks = false, .alibi = false, .lse = false, .scales = false, .align = 16};
constexpr kiln::MmaAttentionConfig kConfig{.dtype = 15, .headDim = 128, .blockRows = 128, .blockKeys = 64, .warps = 4, .asyncCopy = 1, .eagerLoads = 1, .swizzled = 1, .queryTiles = 2, .keyTiles = 2, .valueTiles = 2, .doubleBuffer = 0, .optimizedSoftmax = 1};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 128 && kConfig.sharedBytes(kSignature) == 65536,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(128, 2)
kiln_attention_mma_dt15_d128_br128_bc64_w4_ac1_el1_sw1_qt2_kt2_vt2_os1_sig6e93(const __grid_constant__ kiln::AttentionParams params) {
  kiln::mmaAttention<kSignature, kConfig>(params);
}
