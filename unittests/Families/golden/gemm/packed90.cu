// gemm m=24 n=4096 k=4096 dtype=bf16 layout=NT pointwise=bias b=int4 scale_b=1x128 order_b=k64r16
// packed90.r128.v24.bk256.st7.wg2
// sm_90a
#include "gemm/Sm90PackedGemm.cuh"

namespace {
constexpr kiln::GemmSignature kSignature{.in = kiln::DType::BF16, .out = kiln::DType::BF16, .compute = kiln::ComputeMode::Native, .layout = kiln::Layout::NT, .pointwise = {{kiln::PointwiseOp::Bias}}, .readsC = false, .alignA = 16, .alignB = 16, .alignD = 16, .inB = kiln::DType::INT4, .scaleA = kiln::ScaleKind::None, .scaleB = kiln::ScaleKind::Block1x128, .orderB = kiln::WeightOrder::K64R16, .scaleTypeB = kiln::DType::FP16, .groupB = 128, .zeroB = false, .groups = kiln::GroupKind::None, .gathers = false, .scatters = false, .hasRowWeights = false, .zeroA = kiln::ScaleKind::None, .scaleD = kiln::ScaleKind::None};
constexpr kiln::Sm90PackedConfig kConfig{.rows = 128, .vectors = 24, .blockK = 256, .stages = 7, .consumers = 2, .kShared = 0, .splits = 0, .staging = 0};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 384 && kConfig.sharedBytes(kSignature) == 221376,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(384, 1)
kiln_gemm_packed90_r128_v24_bk256_st7_wg2_sigc150(const __grid_constant__ kiln::Sm90GemmParams params) {
  kiln::sm90PackedGemm<kSignature, kConfig>(params);
}
