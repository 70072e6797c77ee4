// gemm m=1000 n=4096 k=2048 dtype=fp32 compute=tf32 pointwise=bias
// sm90.bm128.bn128.bk32.st4.wg2.sw1.cm1.cn1
// sm_90a
#include "gemm/Sm90Tf32Gemm.cuh"

namespace {
constexpr kiln::GemmSignature kSignature{.in = kiln::DType::FP32, .out = kiln::DType::FP32, .compute = kiln::ComputeMode::TF32, .layout = kiln::Layout::NN, .pointwise = {{kiln::PointwiseOp::Bias}}, .readsC = false, .alignA = 16, .alignB = 16, .alignD = 16, .inB = kiln::DType::None, .scaleA = kiln::ScaleKind::None, .scaleB = kiln::ScaleKind::None, .orderB = kiln::WeightOrder::Plain, .scaleTypeB = kiln::DType::None, .groupB = 0, .zeroB = false, .groups = kiln::GroupKind::None, .gathers = false, .scatters = false, .hasRowWeights = false, .zeroA = kiln::ScaleKind::None, .scaleD = kiln::ScaleKind::None};
constexpr kiln::Sm90GemmConfig kConfig{.blockM = 128, .blockN = 128, .blockK = 32, .stages = 4, .consumers = 2, .pingPong = 0, .swapAB = 1, .clusterM = 1, .clusterN = 1, .splits = 0, .columnShared = 0, .staging = 0};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 384 && kConfig.sharedBytes(kSignature) == 197776,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(384, 1)
kiln_gemm_sm90_bm128_bn128_bk32_st4_wg2_sw1_cm1_cn1_sigcf3c(const __grid_constant__ kiln::Sm90GemmParams params) {
  kiln::sm90Gemm<kSignature, kConfig>(params);
}
