// gather rows=64 cols=16 dtype=fp32 by=targets index=int64 first=4096 divisor=64
// lanes.t512.l1.i4.r1.v16
// sm_90
#include "gather/LaneGather.cuh"

namespace {
constexpr kiln::GatherSignature kSignature{.in = kiln::DType::None, .out = kiln::DType::None, .align = 16};
constexpr kiln::LaneGatherConfig kConfig{.blockThreads = 512, .lanes = 1, .items = 4, .rows = 1, .access = 16, .hint = 0};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 512 && kConfig.minBlocks(kSignature) == 4,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(512, 4)
kiln_gather_lanes_t512_l1_i4_r1_v16_sig2791(const __grid_constant__ kiln::LaneGatherParams params) {
  kiln::laneGather<kSignature, kConfig>(params);
}
