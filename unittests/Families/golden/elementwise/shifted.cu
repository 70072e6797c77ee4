// elementwise op=silu,mul rows=77 cols=1001 dtype=bf16 ldx=1003 align=2
// flat.t256.v8.i2.s2
// sm_90
#include "elementwise/FlatElementwise.cuh"

namespace {
constexpr kiln::ElementwiseSignature kSignature{.in = kiln::DType::BF16, .out = kiln::DType::BF16, .chain = {{kiln::PointwiseOp::Silu, kiln::PointwiseOp::Mul}}, .contiguous = false};
constexpr kiln::FlatElementwiseConfig kConfig{.blockThreads = 256, .vector = 8, .items = 2, .hint = 0, .residentBlocks = 0, .start = 2};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 256 && kConfig.minBlocks(kSignature) == 2,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(256, 2)
kiln_elementwise_flat_t256_v8_i2_s2_sig900d(const __grid_constant__ kiln::FlatElementwiseParams params) {
  kiln::flatElementwise<kSignature, kConfig>(params);
}
