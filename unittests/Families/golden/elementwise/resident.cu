// elementwise op=silu,mul rows=64 cols=14336 dtype=bf16 out=fp8_e4m3 ldx=28672 ldo=28672 scale_y=1x128
// resident.t256.rt256.v8.n7.r1.c1.mb2.h1
// sm_90
#include "rows/ResidentRows.cuh"

namespace {
constexpr kiln::RowSignature kSignature{.op = kiln::RowOp::Quantize, .in = kiln::DType::BF16, .out = kiln::DType::E4M3, .weight = false, .bias = false, .residual = false, .mask = kiln::RowMask::None, .scales = kiln::ScaleKind::Block1x128, .chain = {{kiln::PointwiseOp::Silu, kiln::PointwiseOp::Mul}}};
constexpr kiln::ResidentRowsConfig kConfig{.blockThreads = 256, .rowThreads = 256, .vector = 8, .vectors = 7, .sharedVectors = 0, .rows = 1, .cluster = 1, .blocksPerSm = 2, .start = 0, .streaming = 1, .exact = 0, .spread = 0, .unpacked = 0};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 256 && kConfig.sharedBytes(kSignature) == 0,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(256, 2)
kiln_elementwise_resident_t256_rt256_v8_n7_r1_c1_mb2_h1_sigace5(const __grid_constant__ kiln::RowParams params) {
  kiln::residentRows<kSignature, kConfig>(params);
}
