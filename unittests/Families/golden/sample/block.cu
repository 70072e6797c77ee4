// sample rows=64 vocab=16 dtype=bf16 repetition=1 presence=1
// block.t1024.i1
// sm_90
#include "sample/BlockSample.cuh"

namespace {
constexpr kiln::SampleSignature kSignature{.in = kiln::DType::BF16, .softcap = false, .temperature = false, .cuts = false, .penalties = true, .allowed = false, .logprobs = false, .align = 16};
constexpr kiln::BlockSampleConfig kConfig{.blockThreads = 1024, .items = 1};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 1024 && kConfig.sharedBytes(kSignature) == 34848,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(1024, 1)
kiln_sample_block_t1024_i1_sige829(const __grid_constant__ kiln::SampleParams params) {
  kiln::blockSample<kSignature, kConfig>(params);
}
