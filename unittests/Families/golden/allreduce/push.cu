// allreduce rows=64 cols=16 ranks=2 dtype=fp32 ldy=8196
// push.t32.v1
// sm_90
#include "allreduce/PushRows.cuh"

namespace {
constexpr kiln::AllReduceSignature kSignature{.type = kiln::DType::FP32, .ranks = 2, .residual = false, .norm = false, .align = 16};
constexpr kiln::PushRowsConfig kConfig{.blockThreads = 32, .vectors = 1};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 32 && kConfig.minBlocks(kSignature) == 4,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(32, 4)
kiln_allreduce_push_t32_v1_sig8e80(const __grid_constant__ kiln::PushRowsParams params) {
  kiln::pushRows<kSignature, kConfig>(params);
}
