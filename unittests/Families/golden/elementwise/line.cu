// elementwise op=bias,silu rows=77 cols=1001 dtype=bf16
// flat.t128.v8.i4.h1.s1
// sm_90
#include "elementwise/FlatElementwise.cuh"

namespace {
constexpr kiln::ElementwiseSignature kSignature{.in = kiln::DType::BF16, .out = kiln::DType::BF16, .chain = {{kiln::PointwiseOp::Bias, kiln::PointwiseOp::Silu}}, .contiguous = true};
constexpr kiln::FlatElementwiseConfig kConfig{.blockThreads = 128, .vector = 8, .items = 4, .hint = 1, .residentBlocks = 0, .start = 1};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 128 && kConfig.minBlocks(kSignature) == 9,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(128, 9)
kiln_elementwise_flat_t128_v8_i4_h1_s1_sig88c8(const __grid_constant__ kiln::FlatElementwiseParams params) {
  kiln::flatElementwise<kSignature, kConfig>(params);
}
