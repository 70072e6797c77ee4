// transpose2d rows=9 cols=73144 dtype=int8
// line.tc256.t256.cp16
// sm_90
#include "transpose/LineTranspose.cuh"

namespace {
constexpr kiln::TransposeSignature kSignature{.elementBytes = 1, .align = 1};
constexpr kiln::LineTransposeConfig kConfig{.tileCols = 256, .blockThreads = 256, .copyBytes = 16};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 256 && kConfig.minBlocks(kSignature) == 4,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(256, 4)
kiln_transpose2d_line_tc256_t256_cp16_sig9515(const __grid_constant__ kiln::TransposeParams params) {
  kiln::lineTranspose<kSignature, kConfig>(params);
}
