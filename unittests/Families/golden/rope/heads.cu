// rope tokens=4096 heads=8190 d=64 dtype=bf16
// heads.t64.v8.i2
// sm_90
#include "rope/HeadRope.cuh"

namespace {
constexpr kiln::RopeSignature kSignature{.type = kiln::DType::BF16, .cache = kiln::DType::BF16, .table = kiln::DType::FP32, .style = kiln::RopeStyle::Halves, .headDim = 64, .valueDim = 64, .rotaryDim = 0, .rotaryOffset = 0, .hasQ = true, .hasKOut = false, .hasKCache = false, .hasVCache = false, .hasQNorm = false, .hasKNorm = false, .hasUnitOffset = false, .slots = kiln::RopeSlots::None, .hasSequences = false, .hasLongIndices = false, .scales = kiln::ScaleKind::None, .align = 16};
constexpr kiln::HeadRopeConfig kConfig{.blockThreads = 64, .vector = 8, .items = 2, .staged = 0};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 64 && kConfig.sharedBytes(kSignature) == 0,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(64, 1)
kiln_rope_heads_t64_v8_i2_sig95c3(const __grid_constant__ kiln::RopeParams params) {
  kiln::headRope<kSignature, kConfig>(params);
}
