// gemm m=4096 n=12 k=4096 dtype=fp16 layout=NT
// skinny.r16.v16.k64.st6.w4.mb2.sa1.sp1.sk2
// sm_90
#include "gemm/SkinnyGemm.cuh"

namespace {
constexpr kiln::GemmSignature kSignature{.in = kiln::DType::FP16, .out = kiln::DType::FP16, .compute = kiln::ComputeMode::Native, .layout = kiln::Layout::NT, .pointwise = {{}}, .readsC = false, .alignA = 16, .alignB = 16, .alignD = 8, .inB = kiln::DType::None, .scaleA = kiln::ScaleKind::None, .scaleB = kiln::ScaleKind::None, .orderB = kiln::WeightOrder::Plain, .scaleTypeB = kiln::DType::None, .groupB = 0, .zeroB = false, .groups = kiln::GroupKind::None, .gathers = false, .scatters = false, .hasRowWeights = false, .zeroA = kiln::ScaleKind::None, .scaleD = kiln::ScaleKind::None};
constexpr kiln::SkinnyGemmConfig kConfig{.rows = 16, .vectors = 16, .warpK = 64, .stages = 6, .warps = 4, .minBlocksPerSm = 2, .streamsA = 1, .splits = 1};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 128 && kConfig.sharedBytes(kSignature) == 98304,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(128, 2)
kiln_gemm_skinny_r16_v16_k64_st6_w4_mb2_sa1_sp1_sig8c7d(const __grid_constant__ kiln::GemmParams params) {
  kiln::skinnyGemm<kSignature, kConfig>(params);
}
