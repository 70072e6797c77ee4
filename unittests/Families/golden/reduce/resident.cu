// reduce op=sum rows=16 cols=31 dtype=fp32 out=fp16
// resident.t256.rt2.v1.n8.s8.r1.c1.mb1.h1
// sm_90
#include "rows/ResidentRows.cuh"

namespace {
constexpr kiln::RowSignature kSignature{.op = kiln::RowOp::Sum, .in = kiln::DType::FP32, .out = kiln::DType::FP16, .weight = false, .bias = false, .residual = false, .mask = kiln::RowMask::None, .scales = kiln::ScaleKind::Row, .chain = {{}}};
constexpr kiln::ResidentRowsConfig kConfig{.blockThreads = 256, .rowThreads = 2, .vector = 1, .vectors = 8, .sharedVectors = 8, .rows = 1, .cluster = 1, .blocksPerSm = 1, .start = 0, .streaming = 1, .exact = 0, .spread = 0, .unpacked = 0};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 256 && kConfig.sharedBytes(kSignature) == 8192,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(256, 1)
kiln_reduce_resident_t256_rt2_v1_n8_s8_r1_c1_mb1_h1_sig7d93(const __grid_constant__ kiln::RowParams params) {
  kiln::residentRows<kSignature, kConfig>(params);
}
