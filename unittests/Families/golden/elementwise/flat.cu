// elementwise op=bias,gelu_tanh rows=8192 cols=4096 dtype=bf16 out=fp8_e4m3
// flat.t256.v8.i4.h1.ps2
// sm_90
#include "elementwise/FlatElementwise.cuh"

namespace {
constexpr kiln::ElementwiseSignature kSignature{.in = kiln::DType::BF16, .out = kiln::DType::E4M3, .chain = {{kiln::PointwiseOp::Bias, kiln::PointwiseOp::GeluTanh}}, .contiguous = true};
constexpr kiln::FlatElementwiseConfig kConfig{.blockThreads = 256, .vector = 8, .items = 4, .hint = 1, .residentBlocks = 0, .start = 0};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 256 && kConfig.minBlocks(kSignature) == 3,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(256, 3)
kiln_elementwise_flat_t256_v8_i4_h1_sig7b3d(const __grid_constant__ kiln::FlatElementwiseParams params) {
  kiln::flatElementwise<kSignature, kConfig>(params);
}
