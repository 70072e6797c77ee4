// attention_merge rows=4096 heads=32 d=128 dtype=bf16 lse=1
// flat.t256.v8.i2
// sm_90
#include "attention/FlatMerge.cuh"

namespace {
constexpr kiln::MergeSignature kSignature{.in = kiln::DType::BF16, .out = kiln::DType::BF16, .valueDim = 128, .lse = true, .align = 16};
constexpr kiln::FlatMergeConfig kConfig{.blockThreads = 256, .vector = 8, .items = 2};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 256 && kConfig.sharedBytes(kSignature) == 0,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(256, 1)
kiln_attention_merge_flat_t256_v8_i2_siga0f5(const __grid_constant__ kiln::MergeParams params) {
  kiln::flatMerge<kSignature, kConfig>(params);
}
