// attention batch=3 sq=200 sk=1000 heads=14 kvheads=2 d=72 dv=64 dtype=fp16 mask=window left=100 right=5 softcap=20 alibi=1 lse=1 qlen=packed kvlen=used pages=table page=16
// mma.dt5.d80.br64.bc32.w4.ac1.el1.sw1.kt2.vt2.os1
// sm_90
#include "attention/MmaAttention.cuh"

namespace {
constexpr kiln::AttentionSignature kSignature{.q = kiln::DType::FP16, .kv = kiln::DType::FP16, .out = kiln::DType::FP16, .headDim = 72, .valueDim = 64, .mask = kiln::AttentionMask::Window, .queryLengths = kiln::AttentionLengths::Packed, .keyLengths = kiln::AttentionLengths::Used, .pages = kiln::AttentionPages::Table, .softcap = true, .sinks = false, .alibi = true, .lse = true, .scales = false, .align = 16};
constexpr kiln::MmaAttentionConfig kConfig{.dtype = 5, .headDim = 80, .blockRows = 64, .blockKeys = 32, .warps = 4, .asyncCopy = 1, .eagerLoads = 1, .swizzled = 1, .queryTiles = 0, .keyTiles = 2, .valueTiles = 2, .doubleBuffer = 0, .optimizedSoftmax = 1};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 128 && kConfig.sharedBytes(kSignature) == 20992,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(128, 2)
kiln_attention_mma_dt5_d80_br64_bc32_w4_ac1_el1_sw1_kt2_vt2_os1_sig6a5e(const __grid_constant__ kiln::AttentionParams params) {
  kiln::mmaAttention<kSignature, kConfig>(params);
}
