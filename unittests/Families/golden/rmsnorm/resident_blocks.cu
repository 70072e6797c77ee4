// rmsnorm rows=64 cols=4096 dtype=bf16 out=fp8_e4m3 weight=1 residual=1 scale_y=1x128
// resident.t256.rt256.v8.n2.r1.c1.mb4.e1
// sm_90
#include "rows/ResidentRows.cuh"

namespace {
constexpr kiln::RowSignature kSignature{.op = kiln::RowOp::RmsNorm, .in = kiln::DType::BF16, .out = kiln::DType::E4M3, .weight = true, .bias = false, .residual = true, .mask = kiln::RowMask::None, .scales = kiln::ScaleKind::Block1x128, .chain = {{}}};
constexpr kiln::ResidentRowsConfig kConfig{.blockThreads = 256, .rowThreads = 256, .vector = 8, .vectors = 2, .sharedVectors = 0, .rows = 1, .cluster = 1, .blocksPerSm = 4, .start = 0, .streaming = 0, .exact = 1, .spread = 0, .unpacked = 0};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 256 && kConfig.sharedBytes(kSignature) == 0,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(256, 4)
kiln_rmsnorm_resident_t256_rt256_v8_n2_r1_c1_mb4_e1_sig09f8(const __grid_constant__ kiln::RowParams params) {
  kiln::residentRows<kSignature, kConfig>(params);
}
