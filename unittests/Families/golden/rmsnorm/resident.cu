// rmsnorm rows=8192 cols=4096 dtype=bf16 weight=1
// resident.t256.rt256.v4.n2.s2.r1.c1.mb1.e1
// sm_90
#include "rows/ResidentRows.cuh"

namespace {
constexpr kiln::RowSignature kSignature{.op = kiln::RowOp::RmsNorm, .in = kiln::DType::BF16, .out = kiln::DType::BF16, .weight = true, .bias = false, .residual = false, .mask = kiln::RowMask::None, .scales = kiln::ScaleKind::Row, .chain = {{}}};
constexpr kiln::ResidentRowsConfig kConfig{.blockThreads = 256, .rowThreads = 256, .vector = 4, .vectors = 2, .sharedVectors = 2, .rows = 1, .cluster = 1, .blocksPerSm = 1, .start = 0, .streaming = 0, .exact = 1, .spread = 0, .unpacked = 0};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 256 && kConfig.sharedBytes(kSignature) == 4096,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(256, 1)
kiln_rmsnorm_resident_t256_rt256_v4_n2_s2_r1_c1_mb1_e1_sig234b(const __grid_constant__ kiln::RowParams params) {
  kiln::residentRows<kSignature, kConfig>(params);
}
