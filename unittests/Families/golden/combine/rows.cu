// combine tokens=64 cols=16 topk=31 dtype=fp32 weights=applied ldy=8192 align=8
// rows.l32.r1.i1.a8
// sm_90
#include "combine/RowCombine.cuh"

namespace {
constexpr kiln::CombineSignature kSignature{.in = kiln::DType::FP32, .weighted = true, .shared = false, .residual = false, .norm = false, .align = 8};
constexpr kiln::RowCombineConfig kConfig{.lanes = 32, .rows = 1, .items = 1, .ahead = 8};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 32 && kConfig.minBlocks(kSignature) == 20,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(32, 20)
kiln_combine_rows_l32_r1_i1_a8_sig15fa(const __grid_constant__ kiln::CombineParams params) {
  kiln::rowCombine<kSignature, kConfig>(params);
}
