// transpose2d rows=777 cols=1001 dtype=bf16
// shifted.tr128.tc128.t256.ps3
// sm_90
#include "transpose/ShiftedTranspose.cuh"

namespace {
constexpr kiln::TransposeSignature kSignature{.elementBytes = 2, .align = 2};
constexpr kiln::ShiftedTransposeConfig kConfig{.tileRows = 128, .tileCols = 128, .blockThreads = 256};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 256 && kConfig.sharedBytes(kSignature) == 39456,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(256, 4)
kiln_transpose2d_shifted_tr128_tc128_t256_siga73d(const __grid_constant__ kiln::TransposeParams params) {
  kiln::shiftedTranspose<kSignature, kConfig>(params);
}
