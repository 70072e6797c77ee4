// gemm m=1000 n=1000 k=4096 dtype=fp32 layout=NT
// ffma.bm64.bn64.bk32.st4.tm8.tn8.lm4.wk2.tr1.mb3.sp1.sk2
// sm_90
#include "gemm/FfmaGemm.cuh"

namespace {
constexpr kiln::GemmSignature kSignature{.in = kiln::DType::FP32, .out = kiln::DType::FP32, .compute = kiln::ComputeMode::Native, .layout = kiln::Layout::NT, .pointwise = {{}}, .readsC = false, .alignA = 16, .alignB = 16, .alignD = 16, .inB = kiln::DType::None, .scaleA = kiln::ScaleKind::None, .scaleB = kiln::ScaleKind::None, .orderB = kiln::WeightOrder::Plain, .scaleTypeB = kiln::DType::None, .groupB = 0, .zeroB = false, .groups = kiln::GroupKind::None, .gathers = false, .scatters = false, .hasRowWeights = false, .zeroA = kiln::ScaleKind::None, .scaleD = kiln::ScaleKind::None};
constexpr kiln::FfmaGemmConfig kConfig{.blockM = 64, .blockN = 64, .blockK = 32, .stages = 4, .microM = 8, .microN = 8, .lanesM = 4, .warpsK = 2, .transposes = 1, .minBlocksPerSm = 3, .splits = 1};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 128 && kConfig.sharedBytes(kSignature) == 69632,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(128, 3)
kiln_gemm_ffma_bm64_bn64_bk32_st4_tm8_tn8_lm4_wk2_tr1_mb3_sp1_sigda89(const __grid_constant__ kiln::GemmParams params) {
  kiln::ffmaGemm<kSignature, kConfig>(params);
}
