// gemm m=128 n=256 k=512 dtype=bf16 out=fp32 layout=NT pointwise=bias,gelu_tanh
// mma.bm128.bn128.bk32.st4.wm2.wn2.mb1
// sm_90
#include "gemm/MmaGemm.cuh"

namespace {
constexpr kiln::GemmSignature kSignature{.in = kiln::DType::BF16, .out = kiln::DType::FP32, .compute = kiln::ComputeMode::Native, .layout = kiln::Layout::NT, .pointwise = {{kiln::PointwiseOp::Bias, kiln::PointwiseOp::GeluTanh}}, .readsC = false, .alignA = 16, .alignB = 16, .alignD = 16, .inB = kiln::DType::None, .scaleA = kiln::ScaleKind::None, .scaleB = kiln::ScaleKind::None, .orderB = kiln::WeightOrder::Plain, .scaleTypeB = kiln::DType::None, .groupB = 0, .zeroB = false, .groups = kiln::GroupKind::None, .gathers = false, .scatters = false, .hasRowWeights = false, .zeroA = kiln::ScaleKind::None, .scaleD = kiln::ScaleKind::None};
constexpr kiln::MmaGemmConfig kConfig{.blockM = 128, .blockN = 128, .blockK = 32, .stages = 4, .warpsM = 2, .warpsN = 2, .minBlocksPerSm = 1, .splits = 0};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 128 && kConfig.sharedBytes(kSignature) == 65536,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(128, 1)
kiln_gemm_mma_bm128_bn128_bk32_st4_wm2_wn2_mb1_sig6d03(const __grid_constant__ kiln::GemmParams params) {
  kiln::mmaGemm<kSignature, kConfig>(params);
}
