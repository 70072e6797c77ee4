// prepack n=64 k=16 source=int8 scale_type=fp32
// blocks.t256.kb2
// sm_90
#include "prepack/BlockPrepack.cuh"

namespace {
constexpr kiln::PrepackSignature kSignature{.source = kiln::WeightSource::Int8, .scale = kiln::DType::FP32, .group = 0, .zeros = false, .wordRows = true};
constexpr kiln::BlockPrepackConfig kConfig{.blockThreads = 256, .depthBlocks = 2};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 256 && kConfig.sharedBytes(kSignature) == 8448,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(256, 1)
kiln_prepack_blocks_t256_kb2_sig6392(const __grid_constant__ kiln::PrepackParams params) {
  kiln::blockPrepack<kSignature, kConfig>(params);
}
