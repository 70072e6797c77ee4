//===- common/PtxRates.cuh - instructions that are only timed -------------===//
//
// Continues Ptx.cuh with clocks, and with forms of plain arithmetic that the
// compiler neither merges nor removes: calibration counts them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Ptx.cuh"

namespace kiln::ptx {

/// Clocks of this SM since some time.
inline long long readClock() {
  long long clocks;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(clocks)::"memory");
  return clocks;
}

/// Nanoseconds since some time, the same for all SMs, in steps of up to a
/// microsecond.
inline long long readGlobalTimer() {
  long long ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
  return ns;
}

/// Loads 8 bytes past the L1 cache.
inline unsigned long long ldGlobalCg64(const void *pointer) {
  unsigned long long value;
  asm volatile("ld.global.cg.b64 %0, [%1];"
               : "=l"(value)
               : "l"(pointer)
               : "memory");
  return value;
}

/// A load that is made however often its value is known.
inline uint4 ldSharedVolatile128(unsigned shared) {
  uint4 value;
  asm volatile("ld.volatile.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "r"(shared)
               : "memory");
  return value;
}

inline void fmaF32(float &x, float a, float b) {
  asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x) : "f"(a), "f"(b));
}
inline void fmaF64(double &x, double a, double b) {
  asm volatile("fma.rn.f64 %0, %0, %1, %2;" : "+d"(x) : "d"(a), "d"(b));
}
/// Two fp16 elements (sm_53).
inline void fmaPairF16(unsigned &x, unsigned a, unsigned b) {
  asm volatile("fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(x) : "r"(a), "r"(b));
}
inline void madLo(unsigned &x, unsigned a, unsigned b) {
  asm volatile("mad.lo.u32 %0, %0, %1, %2;" : "+r"(x) : "r"(a), "r"(b));
}
inline void ex2(float &x) {
  asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
}

/// d += a b for fp64 (8x4, row) and (4x8, column) (sm_80).
inline void mmaF64(double (&d)[2], double a, double b) {
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 "
               "{%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+d"(d[0]), "+d"(d[1])
               : "d"(a), "d"(b));
}

/// d += a b for fp64 (16x16, row) and (16x8, column) (sm_90).
inline void mmaF64Wide(double (&d)[4], const double (&a)[8],
                       const double (&b)[4]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, "
               "{%12, %13, %14, %15}, {%0, %1, %2, %3};"
               : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
               : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]),
                 "d"(a[5]), "d"(a[6]), "d"(a[7]), "d"(b[0]), "d"(b[1]),
                 "d"(b[2]), "d"(b[3]));
}

/// As pin() of Ptx.cuh.
template <int kCount> void pin(int (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    asm volatile("" : "+r"(values[i])::"memory");
}
template <int kCount> void pin(double (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    asm volatile("" : "+d"(values[i])::"memory");
}

} // namespace kiln::ptx
