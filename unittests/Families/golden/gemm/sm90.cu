// gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NT pointwise=bias,silu beta=1
// sm90.bm128.bn128.bk64.st4.wg2.pp1.cm2.cn1.rg16
// sm_90a
#include "gemm/Sm90Gemm.cuh"

namespace {
constexpr kiln::GemmSignature kSignature{.in = kiln::DType::BF16, .out = kiln::DType::BF16, .compute = kiln::ComputeMode::Native, .layout = kiln::Layout::NT, .pointwise = {{kiln::PointwiseOp::Bias, kiln::PointwiseOp::Silu}}, .readsC = true, .alignA = 16, .alignB = 16, .alignD = 16, .inB = kiln::DType::None, .scaleA = kiln::ScaleKind::None, .scaleB = kiln::ScaleKind::None, .orderB = kiln::WeightOrder::Plain, .scaleTypeB = kiln::DType::None, .groupB = 0, .zeroB = false, .groups = kiln::GroupKind::None, .gathers = false, .scatters = false, .hasRowWeights = false, .zeroA = kiln::ScaleKind::None, .scaleD = kiln::ScaleKind::None};
constexpr kiln::Sm90GemmConfig kConfig{.blockM = 128, .blockN = 128, .blockK = 64, .stages = 4, .consumers = 2, .pingPong = 1, .swapAB = 0, .clusterM = 2, .clusterN = 1, .splits = 0, .columnShared = 0, .staging = 0};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 384 && kConfig.sharedBytes(kSignature) == 197840,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(384, 1)
kiln_gemm_sm90_bm128_bn128_bk64_st4_wg2_pp1_cm2_cn1_sigac3c(const __grid_constant__ kiln::Sm90GemmParams params) {
  kiln::sm90Gemm<kSignature, kConfig>(params);
}
