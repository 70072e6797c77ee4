// gemm m=1 n=4096 k=4096 dtype=bf16 layout=NT pointwise=bias
// gemv.r4.u4.w4.wk4.v1.mb4.ef1
// sm_90
#include "gemm/Gemv.cuh"

namespace {
constexpr kiln::GemmSignature kSignature{.in = kiln::DType::BF16, .out = kiln::DType::BF16, .compute = kiln::ComputeMode::Native, .layout = kiln::Layout::NT, .pointwise = {{kiln::PointwiseOp::Bias}}, .readsC = false, .alignA = 16, .alignB = 16, .alignD = 16, .inB = kiln::DType::None, .scaleA = kiln::ScaleKind::None, .scaleB = kiln::ScaleKind::None, .orderB = kiln::WeightOrder::Plain, .scaleTypeB = kiln::DType::None, .groupB = 0, .zeroB = false, .groups = kiln::GroupKind::None, .gathers = false, .scatters = false, .hasRowWeights = false, .zeroA = kiln::ScaleKind::None, .scaleD = kiln::ScaleKind::None};
constexpr kiln::GemvConfig kConfig{.rowsPerWarp = 4, .unroll = 4, .warps = 4, .warpsK = 4, .vectors = 1, .minBlocksPerSm = 4, .streamsA = 0, .evictFirst = 1};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 128 && kConfig.sharedBytes(kSignature) == 64,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(128, 4)
kiln_gemm_gemv_r4_u4_w4_wk4_v1_mb4_ef1_sig2fad(const __grid_constant__ kiln::GemmParams params) {
  kiln::gemv<kSignature, kConfig>(params);
}
