// softmax rows=64 cols=16 dtype=bf16 align=8
// resident.t128.rt8.v2.n1.r1.c1.mb1.h1.e1
// sm_90
#include "rows/ResidentRows.cuh"

namespace {
constexpr kiln::RowSignature kSignature{.op = kiln::RowOp::Softmax, .in = kiln::DType::BF16, .out = kiln::DType::BF16, .weight = false, .bias = false, .residual = false, .mask = kiln::RowMask::None, .scales = kiln::ScaleKind::Row, .chain = {{}}};
constexpr kiln::ResidentRowsConfig kConfig{.blockThreads = 128, .rowThreads = 8, .vector = 2, .vectors = 1, .sharedVectors = 0, .rows = 1, .cluster = 1, .blocksPerSm = 1, .start = 0, .streaming = 1, .exact = 1, .spread = 0, .unpacked = 0};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 128 && kConfig.sharedBytes(kSignature) == 0,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(128, 1)
kiln_softmax_resident_t128_rt8_v2_n1_r1_c1_mb1_h1_e1_sigde72(const __grid_constant__ kiln::RowParams params) {
  kiln::residentRows<kSignature, kConfig>(params);
}
