//===- w4a16_gemm.cpp - bf16 activations by int4 weights (AWQ) ------------===//
//
// A checkpoint's weights are packed once, when the model is loaded; each GEMM
// reads the packed codes, scales and zero points. GPTQ, compressed-tensors and
// MXFP4 checkpoints differ in `source` alone.
//
//===----------------------------------------------------------------------===//
#include "Sample.h"

int main() {
  return runSample("w4a16_gemm", [](const Gpu &gpu) {
    constexpr int64_t m = 16, n = 1024, k = 2048;
    constexpr int32_t groupSize = 128;
    kiln::Engine engine = kiln::Engine::create().orThrow();

    // As AWQ stores them: int32 words of eight codes, fp16 scales.
    const Buffer<uint32_t> words(gpu, k * n / 8);
    const Buffer<uint16_t> scales(gpu, k / groupSize * n);
    const Buffer<uint32_t> zeros(gpu, k / groupSize * n / 8);

    kiln::Sized<kiln_prepack_args> pack;
    pack.source = KILN_WEIGHTS_AWQ;
    pack.flags = KILN_PREPACK_HAS_ZEROS;
    pack.n = n, pack.k = k, pack.group_size = groupSize;
    pack.scales.type = KILN_FP16;
    kiln::Sized<kiln_prepack_layout> sizes;
    kiln::Status(kiln_prepack_query(&pack, &sizes)).orThrow();
    const Buffer<uint8_t> codes(gpu, int64_t(sizes.weight_bytes));
    const Buffer<uint8_t> packedScales(gpu, int64_t(sizes.scale_bytes));
    const Buffer<uint8_t> packedZeros(gpu, int64_t(sizes.zero_bytes));
    pack.weights.data = words.data(), pack.packed.data = codes.data();
    pack.scales.data = scales.data();
    pack.packed_scales.data = packedScales.data();
    pack.zeros.data = zeros.data(), pack.packed_zeros.data = packedZeros.data();
    kiln::Status(kiln_prepack(engine.get(), &pack, nullptr, gpu.stream()))
        .orThrow();

    // d[m, n] = a[m, k] * ((code - zero) * scale)[n, k]^T
    const Buffer<Bf16> a(gpu, m * k), d(gpu, m * n);
    engine
        .run(kiln::Gemm(KILN_BF16, m, n, k)
                 .layout(KILN_LAYOUT_NT)
                 .a(a.data())
                 .packedWeights(KILN_INT4, sizes.order, codes.data(),
                                packedScales.data(), KILN_FP16, groupSize,
                                packedZeros.data())
                 .d(d.data()),
             gpu.stream())
        .orThrow();
    std::printf("W4A16: %lld x %lld x %lld\n", (long long)m, (long long)n,
                (long long)k);
  });
}
