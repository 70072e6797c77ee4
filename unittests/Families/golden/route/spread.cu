// route tokens=1000 experts=128 topk=8 dtype=fp16 first=32 local=32 group_align=128
// spread.t512.i4.n2
// sm_90
#include "route/SpreadRoute.cuh"

namespace {
constexpr kiln::RouteSignature kSignature{.in = kiln::DType::FP16, .sigmoid = false, .byScore = false, .grouped = false, .greatest = false};
constexpr kiln::SpreadRouteConfig kConfig{.blockThreads = 512, .items = 4, .chunks = 2};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 512 && kConfig.sharedBytes(kSignature) == 7200,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(512, 1)
kiln_route_spread_t512_i4_n2_sig7e2c(const __grid_constant__ kiln::RouteParams params) {
  kiln::spreadRoute<kSignature, kConfig>(params);
}
