//===- varlen_prefill.cpp - prefill of packed sequences (cu_seqlens) ------===//
//
// Sequences of different lengths follow each other in one QKV tensor of
// [token][3][head][element], as the projection before has written it. The
// causal mask ends at the last key; the log-sum-exp of each row is kept.
//
//===----------------------------------------------------------------------===//
#include "Sample.h"

int main() {
  return runSample("varlen_prefill", [](const Gpu &gpu) {
    constexpr int64_t heads = 16, dim = 128, token = 3 * heads * dim;
    const std::vector<int32_t> cuSeqlens{0, 100, 612, 640};
    const auto batch = static_cast<int64_t>(cuSeqlens.size()) - 1;
    const int64_t tokens = cuSeqlens.back();
    constexpr int64_t longest = 512; // a bound of all lengths
    const Buffer<int32_t> offsets(gpu, cuSeqlens);
    const Buffer<Bf16> qkv(gpu, tokens * token), o(gpu, tokens * heads * dim);
    const Buffer<float> lse(gpu, heads * tokens);

    kiln::Attention prefill(KILN_BF16, batch, longest, longest, heads, dim);
    prefill.causal().o(o.data()).lse(lse.data());
    prefill.q(qkv.data(), token);
    prefill.k(qkv.data() + heads * dim, token);
    prefill.v(qkv.data() + 2 * heads * dim, token);
    prefill.queryOffsets(offsets.data(), tokens);
    prefill.keyOffsets(offsets.data(), tokens);

    kiln::Engine engine = kiln::Engine::create().orThrow();
    engine.run(prefill, gpu.stream()).orThrow();
    std::printf("prefill of %lld tokens in %lld sequences\n", (long long)tokens,
                (long long)batch);
  });
}
