// transpose2d rows=8192 cols=8192 dtype=fp16
// tiled.tr128.tc64.t128.v8.h1.rg16
// sm_90
#include "transpose/TiledTranspose.cuh"

namespace {
constexpr kiln::TransposeSignature kSignature{.elementBytes = 2, .align = 16};
constexpr kiln::TiledTransposeConfig kConfig{.tileRows = 128, .tileCols = 64, .blockThreads = 128, .vector = 8, .hint = 1};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 128 && kConfig.sharedBytes(kSignature) == 16384,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(128, 8)
kiln_transpose2d_tiled_tr128_tc64_t128_v8_h1_sig89d5(const __grid_constant__ kiln::TransposeParams params) {
  kiln::tiledTranspose<kSignature, kConfig>(params);
}
