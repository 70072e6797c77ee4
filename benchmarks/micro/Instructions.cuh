//===- micro/Instructions.cuh - the instructions under test ---------------===//
//
// Kernel sources of Kiln are made for NVRTC, which takes every function for one
// of the device. nvcc does not, so the timed instructions are written here
// again, one function for each. Lists of registers are those of
// common/Wgmma.cuh. Source of every form: PTX ISA.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Wgmma.cuh"

namespace micro {

/// The type of both operands of a wgmma.
enum class Product { E4m3, S8, Bf16 };

#define MICRO_SUMS_4(i)                                                        \
  "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3])
#define MICRO_SUMS_8(i) MICRO_SUMS_4(i), MICRO_SUMS_4(i + 4)
#define MICRO_SUMS_16(i) MICRO_SUMS_8(i), MICRO_SUMS_8(i + 8)
#define MICRO_SUMS_32(i) MICRO_SUMS_16(i), MICRO_SUMS_16(i + 16)
#define MICRO_SUMS_64(i) MICRO_SUMS_32(i), MICRO_SUMS_32(i + 32)
#define MICRO_LIST_4 MICRO_SUMS_4(0)
#define MICRO_LIST_8 MICRO_SUMS_8(0)
#define MICRO_LIST_16 MICRO_SUMS_16(0)
#define MICRO_LIST_32 MICRO_SUMS_32(0)
#define MICRO_LIST_40 MICRO_SUMS_32(0), MICRO_SUMS_8(32)
#define MICRO_LIST_48 MICRO_SUMS_32(0), MICRO_SUMS_16(32)
#define MICRO_LIST_64 MICRO_SUMS_64(0)
#define MICRO_LIST_80 MICRO_SUMS_64(0), MICRO_SUMS_16(64)
#define MICRO_LIST_96 MICRO_SUMS_64(0), MICRO_SUMS_32(64)
#define MICRO_LIST_128 MICRO_SUMS_64(0), MICRO_SUMS_64(64)

#define MICRO_SHARED(n, count, shape, tail, a, b, p)                           \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #p ", 0;\n"                \
               "wgmma.mma_async.sync.aligned.m64n" #n shape                    \
               " {" KILN_REGS_##count "}, %" #a ", %" #b ", p" tail ";\n}"     \
               : MICRO_LIST_##count                                            \
               : "l"(rows), "l"(columns), "r"(accumulate))
#define MICRO_REGISTERS(n, count, a0, a1, a2, a3, b, p)                        \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #p ", 0;\n"                \
               "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.bf16.bf16"      \
               " {" KILN_REGS_##count "}, {%" #a0 ", %" #a1 ", %" #a2          \
                                      ", %" #a3 "}, %" #b ", p, 1, 1, 0;\n}"   \
               : MICRO_LIST_##count                                            \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(columns),     \
                 "r"(accumulate))
/// Width \p n has \p count sums; the other operands follow them.
#define MICRO_WIDTH(n, count, o1, o2, o3, o4, o5)                              \
  template <> struct WgmmaOf<n> {                                              \
    template <Product kProduct>                                                \
    static __device__ void run(unsigned (&d)[n / 2], unsigned long long rows,  \
                               unsigned long long columns, int accumulate) {   \
      if constexpr (kProduct == Product::E4m3)                                 \
        MICRO_SHARED(n, count, "k32.f32.e4m3.e4m3", ", 1, 1", count, o1, o2);  \
      else if constexpr (kProduct == Product::S8)                              \
        MICRO_SHARED(n, count, "k32.s32.s8.s8", "", count, o1, o2);            \
      else                                                                     \
        MICRO_SHARED(n, count, "k16.f32.bf16.bf16", ", 1, 1, 0, 0", count, o1, \
                     o2);                                                      \
    }                                                                          \
    static __device__ void run(unsigned (&d)[n / 2], const unsigned (&a)[4],   \
                               unsigned long long columns, int accumulate) {   \
      MICRO_REGISTERS(n, count, count, o1, o2, o3, o4, o5);                    \
    }                                                                          \
  };

template <int kN> struct WgmmaOf;

MICRO_WIDTH(8, 4, 5, 6, 7, 8, 9)
MICRO_WIDTH(16, 8, 9, 10, 11, 12, 13)
MICRO_WIDTH(32, 16, 17, 18, 19, 20, 21)
MICRO_WIDTH(64, 32, 33, 34, 35, 36, 37)
MICRO_WIDTH(80, 40, 41, 42, 43, 44, 45)
MICRO_WIDTH(96, 48, 49, 50, 51, 52, 53)
MICRO_WIDTH(128, 64, 65, 66, 67, 68, 69)
MICRO_WIDTH(160, 80, 81, 82, 83, 84, 85)
MICRO_WIDTH(192, 96, 97, 98, 99, 100, 101)
MICRO_WIDTH(256, 128, 129, 130, 131, 132, 133)

/// d (64 x kN) += A B, or = where \p accumulate is 0, for 32 bytes along k,
/// with both tiles in shared memory. Sums are fp32, or int32 for int8, as bits.
template <Product kProduct, int kN>
__device__ void wgmma(unsigned (&d)[kN / 2], unsigned long long rows,
                      unsigned long long columns, int accumulate) {
  WgmmaOf<kN>::template run<kProduct>(d, rows, columns, accumulate);
}

/// As above for bf16, with A in registers.
template <int kN>
__device__ void wgmma(unsigned (&d)[kN / 2], const unsigned (&a)[4],
                      unsigned long long columns, int accumulate) {
  WgmmaOf<kN>::run(d, a, columns, accumulate);
}

__device__ inline void wgmmaFence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void wgmmaCommit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kPending> __device__ void wgmmaWait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
/// Keeps all uses of \p values in place relative to waits and fences.
template <int kCount> __device__ void pin(unsigned (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    asm volatile("" : "+r"(values[i])::"memory");
}

/// D += A B of one warp: m16n8k16 for bf16.
__device__ inline void mma(float (&d)[4], const unsigned (&a)[4],
                           const unsigned (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),
                 "r"(b[1]));
}

/// The SM's clock.
__device__ inline long long clockNow() {
  long long clocks;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(clocks)::"memory");
  return clocks;
}

__device__ inline unsigned sharedAddress(const void *pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

//===----------------------------------------------------------------------===//
// Tiles of 128 bytes a row, with the 128-byte swizzle
//===----------------------------------------------------------------------===//

constexpr int kRowBytes = 128, kAtomBytes = 1024;

/// The descriptor of the tile at \p address, a multiple of kAtomBytes.
__device__ inline unsigned long long descriptorOf(unsigned address) {
  constexpr unsigned long long kSwizzle128 = 1ull << 62;
  constexpr unsigned long long kStride = kAtomBytes >> 4, kLeading = 1;
  return kSwizzle128 | kStride << 32 | kLeading << 16 |
         (address & 0x3ffffu) >> 4;
}

/// The offset of instruction \p k among a tile's four in a descriptor: 32 bytes
/// each.
__device__ constexpr unsigned stepOffset(int k) { return k * 32 >> 4; }

/// Offset of byte \p byte of row \p row in a tile.
__device__ inline int swizzled(int row, int byte) {
  return row * kRowBytes + (byte ^ (row & 7) << 4);
}

/// The first whole atom of dynamic shared memory, which has kAtomBytes more
/// than are used.
__device__ inline unsigned char *atomsOf(unsigned char *memory) {
  unsigned address = sharedAddress(memory);
  return memory + (kAtomBytes - address % kAtomBytes) % kAtomBytes;
}

/// Makes generic stores visible to wgmma and bulk copies behind a barrier.
__device__ inline void fenceProxyAsync() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

//===----------------------------------------------------------------------===//
// Bulk copies
//===----------------------------------------------------------------------===//

/// CUtensorMap, as opaque bytes for the kernels.
struct alignas(64) TensorMap {
  unsigned long long opaque[16];
};

__device__ inline void barrierInit(unsigned barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n"
               "fence.mbarrier_init.release.cluster;" ::"r"(barrier)
               : "memory");
}
__device__ inline void barrierExpect(unsigned barrier, unsigned bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
      "r"(bytes)
      : "memory");
}
__device__ inline void barrierWait(unsigned barrier, unsigned parity) {
  asm volatile("{\n.reg .pred done;\n"
               "WAIT: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], "
               "%1;\n"
               "@!done bra WAIT;\n}" ::"r"(barrier),
               "r"(parity)
               : "memory");
}
/// Loads the box of \p map at (x, y); its bytes arrive at \p barrier.
__device__ inline void tmaLoad(unsigned shared, const TensorMap *map,
                               unsigned barrier, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::"
      "bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(shared),
      "l"(map), "r"(barrier), "r"(x), "r"(y)
      : "memory");
}

/// Sets another base address and height in the map at \p shared.
__device__ inline void replaceAddress(unsigned shared, const void *address) {
  asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 "
               "[%0], %1;" ::"r"(shared),
               "l"(address)
               : "memory");
}
__device__ inline void replaceRows(unsigned shared, unsigned rows) {
  asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 "
               "[%0], 1, %1;" ::"r"(shared),
               "r"(rows)
               : "memory");
}
/// Publishes the map at \p shared as \p global; by a whole warp.
__device__ inline void publishMap(TensorMap *global, unsigned shared) {
  asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic."
               "release.gpu.sync.aligned [%0], [%1], 128;" ::"l"(global),
               "r"(shared)
               : "memory");
}
/// Makes a published map visible to later copies.
__device__ inline void acquireMap(const TensorMap *global) {
  asm volatile(
      "fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(global)
      : "memory");
}

} // namespace micro
