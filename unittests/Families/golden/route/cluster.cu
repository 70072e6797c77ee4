// route tokens=64 experts=256 topk=8 dtype=fp32 score=sigmoid choice_bias=1 groups=8 top_groups=4
// cluster.t256.i8.n1.c8
// sm_90
#include "route/ClusterRoute.cuh"

namespace {
constexpr kiln::RouteSignature kSignature{.in = kiln::DType::FP32, .sigmoid = true, .byScore = true, .grouped = true, .greatest = false};
constexpr kiln::ClusterRouteConfig kConfig{.blockThreads = 256, .items = 8, .chunks = 1, .cluster = 8};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == 256 && kConfig.sharedBytes(kSignature) == 22592,
              "host and device disagree about the config");
} // namespace

extern "C" __global__ void __launch_bounds__(256, 1)
kiln_route_cluster_t256_i8_n1_c8_sig026f(const __grid_constant__ kiln::RouteParams params) {
  kiln::clusterRoute<kSignature, kConfig>(params);
}
