// rowquant rows=64 cols=16 dtype=bf16
// resident.t256.rt1.v8.n2.r1.c1.mb1.h1.e1
// sm_90
#include "rows/ResidentRows.cuh"

namespace {
constexpr kiln::RowSignature kSignature{.op = kiln::RowOp::Quantize, .in = kiln::DType::BF16, .out = kiln::DType::E4M3, .weight = false, .bias = false, .residual = false, .mask = kiln::RowMask::None, .scales = kiln::ScaleKind::Row, .chain = {{}}};
constexpr kiln::ResidentRowsConfig kConfig{.blockThreads = 256, .rowThreads = 1, .vector = 8, .vectors = 2, .sharedVectors = 0, .rows = 1, .cluster = 1, .blocksPerSm = 1, .start = 0, .streaming = 1, .exact = 1, .spread = 0, .unpacked = 0};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 256 && kConfig.sharedBytes(kSignature) == 0,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(256, 1)
kiln_rowquant_resident_t256_rt1_v8_n2_r1_c1_mb1_h1_e1_sigfa20(const __grid_constant__ kiln::RowParams params) {
  kiln::residentRows<kSignature, kConfig>(params);
}
