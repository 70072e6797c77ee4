//===- common/Ptx.cuh - the PTX instructions that kernels use -------------===//
//
// One function for each instruction, named after it. Inline assembly is used
// here alone. Shared memory is addressed by 32-bit offsets of its own window
// (sharedAddress). Source of every form: PTX ISA.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace kiln::ptx {

/// Emits no instruction: the compiler takes \p value for a new one from here
/// on.
inline void opaque(unsigned &value) { asm volatile("" : "+r"(value)); }
inline void opaque(long long &value) { asm("" : "+l"(value)); }
inline void opaque(const float *&value) { asm("" : "+l"(value)); }
inline void opaque(const char *&value) { asm volatile("" : "+l"(value)); }

/// blockIdx.x and .y, read where they are called: the compiler keeps no value
/// derived from them for another call.
inline unsigned ctaidX() {
  unsigned value;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(value));
  return value;
}
inline unsigned ctaidY() {
  unsigned value;
  asm volatile("mov.u32 %0, %%ctaid.y;" : "=r"(value));
  return value;
}

/// Emits no instruction: the compiler moves no use of \p values across. With
/// wgmma it has to stand before the fence of products that use them and behind
/// the wait.
template <int kCount> void pin(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    asm volatile("" : "+f"(values[i])::"memory");
}
template <int kCount> void pin(unsigned (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    asm volatile("" : "+r"(values[i])::"memory");
}

/// Address of \p pointer within the window of shared memory.
inline unsigned sharedAddress(const void *pointer) {
  unsigned long long address;
  asm("cvta.to.shared.u64 %0, %1;"
      : "=l"(address)
      : "l"(reinterpret_cast<unsigned long long>(pointer)));
  return static_cast<unsigned>(address);
}

/// Waits for \p threads threads, whole warps, at barrier \p id of the block.
inline void barSync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// Arrives without waiting for the others.
inline void barArrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// Copies kBytes from global to shared memory asynchronously (sm_80): the first
/// \p sourceBytes of them are read, the rest become zero. Both addresses are
/// aligned to kBytes. (compute-sanitizer takes each copy for a read of kBytes.)
template <int kBytes>
void cpAsync(unsigned shared, const void *global, int sourceBytes) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16,
                "cp.async copies 4, 8 or 16 bytes");
  // Only 16-byte copies can bypass the L1 cache.
  if constexpr (kBytes == 16)
    asm volatile(
        "cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared),
        "l"(global), "r"(sourceBytes)
        : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared),
                 "l"(global), "n"(kBytes), "r"(sourceBytes)
                 : "memory");
}

/// Copies kBytes as cpAsync does, or zeros when \p inside is false; nothing at
/// all when \p active is false. Cheaper than a byte count in a register.
template <int kBytes>
void cpAsyncOrZero(unsigned shared, const void *global, bool inside,
                   bool active) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16,
                "cp.async copies 4, 8 or 16 bytes");
  if constexpr (kBytes == 16)
    asm volatile("{\n"
                 ".reg .pred active, outside;\n"
                 "setp.ne.b32 active, %3, 0;\n"
                 "setp.eq.b32 outside, %2, 0;\n"
                 "@active cp.async.cg.shared.global.L2::128B [%0], [%1], 16, "
                 "outside;\n"
                 "}" ::"r"(shared),
                 "l"(global), "r"(static_cast<int>(inside)),
                 "r"(static_cast<int>(active))
                 : "memory");
  else
    asm volatile("{\n"
                 ".reg .pred active, outside;\n"
                 "setp.ne.b32 active, %3, 0;\n"
                 "setp.eq.b32 outside, %2, 0;\n"
                 "@active cp.async.ca.shared.global [%0], [%1], %4, outside;\n"
                 "}" ::"r"(shared),
                 "l"(global), "r"(static_cast<int>(inside)),
                 "r"(static_cast<int>(active)), "n"(kBytes)
                 : "memory");
}

/// As cpAsyncOrZero for 16 bytes, always active, with a cache policy for L2.
inline void cpAsyncOrZero16(unsigned shared, const void *global, bool inside,
                            unsigned long long policy) {
  asm volatile("{\n"
               ".reg .pred outside;\n"
               "setp.eq.b32 outside, %2, 0;\n"
               "cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], "
               "16, outside, %3;\n"
               "}" ::"r"(shared),
               "l"(global), "r"(static_cast<int>(inside)), "l"(policy)
               : "memory");
}

/// Closes the group of this thread's copies since the last commit.
inline void cpAsyncCommit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Waits until at most kPending of this thread's groups are in flight.
template <int kPending> void cpAsyncWait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

/// Loads four 8x8 matrices of 16-bit elements (sm_75). Lane l gives the address
/// of row l % 8 of matrix l / 8. Register i gets two elements of matrix i: row
/// lane / 4, columns 2 * (lane % 4) and the next.
inline void ldmatrixX4(unsigned (&registers)[4], unsigned shared) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]),
        "=r"(registers[3])
      : "r"(shared)
      : "memory");
}

/// As ldmatrixX4, for two matrices: lanes 0 to 15 give the addresses.
inline void ldmatrixX2(unsigned &register0, unsigned &register1,
                       unsigned shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(register0), "=r"(register1)
               : "r"(shared)
               : "memory");
}

/// As ldmatrixX4, with each matrix transposed.
inline void ldmatrixX4Trans(unsigned (&registers)[4], unsigned shared) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]),
        "=r"(registers[3])
      : "r"(shared)
      : "memory");
}

inline unsigned short ldShared16(unsigned shared) {
  unsigned short value;
  asm volatile("ld.shared.b16 %0, [%1];"
               : "=h"(value)
               : "r"(shared)
               : "memory");
  return value;
}

inline uint4 ldShared128(unsigned shared) {
  uint4 value;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "r"(shared)
               : "memory");
  return value;
}

inline uint2 ldShared64(unsigned shared) {
  uint2 value;
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
               : "=r"(value.x), "=r"(value.y)
               : "r"(shared)
               : "memory");
  return value;
}

inline unsigned ldShared32(unsigned shared) {
  unsigned value;
  asm volatile("ld.shared.b32 %0, [%1];"
               : "=r"(value)
               : "r"(shared)
               : "memory");
  return value;
}

inline void stShared16(unsigned shared, unsigned value) {
  asm volatile("st.shared.b16 [%0], %1;" ::"r"(shared),
               "h"(static_cast<unsigned short>(value))
               : "memory");
}

inline void stShared32(unsigned shared, unsigned value) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(shared), "r"(value) : "memory");
}

inline void stShared64(unsigned shared, unsigned low, unsigned high) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(shared), "r"(low),
               "r"(high)
               : "memory");
}

inline void stShared128(unsigned shared, const unsigned (&values)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(shared),
               "r"(values[0]), "r"(values[1]), "r"(values[2]), "r"(values[3])
               : "memory");
}

/// d += a b for bf16 (16x16, row) and (16x8, column), fp32 sums (sm_80).
/// Accumulators: rows lane / 4 and + 8, columns 2 * (lane % 4) and the next.
inline void mmaBf16(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                    unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// As mmaBf16, for fp16.
inline void mmaFp16(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                    unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// As mmaBf16, for e4m3 (16x32) and (32x8) (sm_89).
inline void mmaE4m3(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                    unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// As mmaBf16, for tf32 (16x8) and (8x8).
inline void mmaTf32(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                    unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// fp32 of the fp16 value in \p bits.
inline float cvtF32F16(unsigned short bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

/// fp16 bits of \p value, to nearest even.
inline unsigned short cvtRnF16F32(float value) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

/// Two fp16 in one register, to nearest even (sm_80).
inline unsigned cvtRnF16x2F32(float low, float high) {
  unsigned bits;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

/// Two bf16 in one register, to nearest even (sm_80).
inline unsigned cvtRnBf16x2F32(float low, float high) {
  unsigned bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

/// Four bytes of two registers: hexadecimal digit i of \p selector selects byte
/// i, 0 to 3 from \p low, 4 to 7 from \p high.
inline unsigned prmt(unsigned low, unsigned high, unsigned selector) {
  unsigned bytes;
  asm("prmt.b32 %0, %1, %2, %3;"
      : "=r"(bytes)
      : "r"(low), "r"(high), "r"(selector));
  return bytes;
}

/// Two e4m3 in the lower half, to nearest even; magnitudes above 448 become
/// 448, NaN becomes 0x7f (sm_89).
inline unsigned cvtRnSatfiniteE4m3x2F32(float low, float high) {
  unsigned short bits;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;"
      : "=h"(bits)
      : "f"(high), "f"(low));
  return bits;
}

/// Four e4m3, the first lowest, rounded alike (sm_89).
inline unsigned cvtRnSatfiniteE4m3x4F32(float a, float b, float c, float d) {
  unsigned bits;
  asm("{\n.reg .b16 low, high;\n"
      "cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n"
      "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n"
      "mov.b32 %0, {low, high};\n}"
      : "=r"(bits)
      : "f"(a), "f"(b), "f"(c), "f"(d));
  return bits;
}

/// Converts two e4m3 to two fp16 in one register; exact (sm_89).
inline unsigned cvtRnF16x2E4m3x2(unsigned short pair) {
  unsigned bits;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(bits) : "h"(pair));
  return bits;
}

/// The greater of two values; NaN if either is (sm_80).
inline float maxNan(float a, float b) {
  float value;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(value) : "f"(a), "f"(b));
  return value;
}

/// The greater of two bf16 each of two registers; NaN if either is (sm_80).
inline unsigned maxNanBf16x2(unsigned a, unsigned b) {
  unsigned pair;
  asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(pair) : "r"(a), "r"(b));
  return pair;
}

/// The same of fp16 (sm_80).
inline unsigned maxNanF16x2(unsigned a, unsigned b) {
  unsigned pair;
  asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(pair) : "r"(a), "r"(b));
  return pair;
}

/// The greatest value of the warp's lanes, which all call it (sm_80).
inline unsigned reduxMax(unsigned value) {
  unsigned greatest;
  asm volatile("redux.sync.max.u32 %0, %1, 0xffffffff;"
               : "=r"(greatest)
               : "r"(value));
  return greatest;
}

/// The sum of the warp's values, modulo 2^32 (sm_80).
inline unsigned reduxAdd(unsigned value) {
  unsigned sum;
  asm volatile("redux.sync.add.u32 %0, %1, 0xffffffff;"
               : "=r"(sum)
               : "r"(value));
  return sum;
}

/// 2^x within 2 units of the last place; subnormal results become 0.
inline float ex2ApproxFtz(float x) {
  float value;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(x));
  return value;
}

/// log2(x) with an absolute error of 2^-22 near 1, else a relative error of
/// 2^-22; -inf for 0.
inline float lg2ApproxFtz(float x) {
  float value;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(x));
  return value;
}

/// tanh(x) within a relative error of 2^-11 (sm_75).
inline float tanhApprox(float x) {
  float value;
  asm("tanh.approx.f32 %0, %1;" : "=f"(value) : "f"(x));
  return value;
}

/// 1 / x within 1 unit of the last place; subnormal results become 0.
inline float rcpApproxFtz(float x) {
  float value;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(x));
  return value;
}

/// A load of global memory that the compiler does not move.
inline float ldGlobalFloat(const float *pointer) {
  float value;
  asm volatile("ld.global.f32 %0, [%1];"
               : "=f"(value)
               : "l"(pointer)
               : "memory");
  return value;
}

// Loads of data that this launch reads once: they leave nothing in L1. They
// avoid the read-only path, because an operand may be overwritten in place. The
// number in a name is the number of bits, to which the pointer is aligned.
inline unsigned ldGlobalNoAllocate8(const void *pointer) {
  unsigned value;
  asm volatile("ld.global.L1::no_allocate.u8 %0, [%1];"
               : "=r"(value)
               : "l"(pointer)
               : "memory");
  return value;
}

inline unsigned ldGlobalNoAllocate16(const void *pointer) {
  unsigned short value;
  asm volatile("ld.global.L1::no_allocate.u16 %0, [%1];"
               : "=h"(value)
               : "l"(pointer)
               : "memory");
  return value;
}

inline unsigned ldGlobalNoAllocate32(const void *pointer) {
  unsigned value;
  asm volatile("ld.global.L1::no_allocate.b32 %0, [%1];"
               : "=r"(value)
               : "l"(pointer)
               : "memory");
  return value;
}

inline uint2 ldGlobalNoAllocate64(const void *pointer) {
  uint2 value;
  asm volatile("ld.global.L1::no_allocate.v2.b32 {%0, %1}, [%2];"
               : "=r"(value.x), "=r"(value.y)
               : "l"(pointer)
               : "memory");
  return value;
}

inline uint4 ldGlobalNoAllocate128(const void *pointer) {
  uint4 value;
  asm volatile("ld.global.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(pointer)
               : "memory");
  return value;
}

/// The cache policy for lines that L2 drops first (sm_80).
inline unsigned long long createPolicyEvictFirst() {
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

/// As ldGlobalNoAllocate128, with a cache policy for L2 (sm_80).
inline uint4 ldGlobalNoAllocate128(const void *pointer,
                                   unsigned long long policy) {
  uint4 value;
  asm volatile("ld.global.L1::no_allocate.L2::cache_hint.v4.b32 "
               "{%0, %1, %2, %3}, [%4], %5;"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(pointer), "l"(policy)
               : "memory");
  return value;
}

/// Stores 16 bytes at once. (The compiler splits a plain assignment into four
/// stores where it finds the parts in different places.)
inline void stGlobal128(void *pointer, uint4 value) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(pointer),
               "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w)
               : "memory");
}

// Stores of data that is not read again soon: caches drop their lines first.
// They are named like the loads above.
inline void stGlobalStreaming8(void *pointer, unsigned value) {
  asm volatile("st.global.cs.u8 [%0], %1;" ::"l"(pointer), "r"(value)
               : "memory");
}

inline void stGlobalStreaming16(void *pointer, unsigned value) {
  asm volatile("st.global.cs.u16 [%0], %1;" ::"l"(pointer),
               "h"(static_cast<unsigned short>(value))
               : "memory");
}

inline void stGlobalStreaming32(void *pointer, unsigned value) {
  asm volatile("st.global.cs.b32 [%0], %1;" ::"l"(pointer), "r"(value)
               : "memory");
}

inline void stGlobalStreaming64(void *pointer, uint2 value) {
  asm volatile("st.global.cs.v2.b32 [%0], {%1, %2};" ::"l"(pointer),
               "r"(value.x), "r"(value.y)
               : "memory");
}

inline void stGlobalStreaming128(void *pointer, uint4 value) {
  asm volatile("st.global.cs.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(pointer),
               "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w)
               : "memory");
}

/// Loads where \p exists, else gives zeros, without a branch, so that later
/// loads do not wait.
inline unsigned short ldGlobalOrZero16(const void *pointer, bool exists) {
  unsigned short value;
  asm volatile("{\n"
               "  .reg .pred p;\n"
               "  setp.ne.b32 p, %2, 0;\n"
               "  mov.b16 %0, 0;\n"
               "  @p ld.global.b16 %0, [%1];\n"
               "}"
               : "=h"(value)
               : "l"(pointer), "r"(static_cast<int>(exists))
               : "memory");
  return value;
}

inline unsigned ldGlobalOrZero32(const void *pointer, bool exists) {
  unsigned value;
  asm volatile("{\n"
               "  .reg .pred p;\n"
               "  setp.ne.b32 p, %2, 0;\n"
               "  mov.b32 %0, 0;\n"
               "  @p ld.global.b32 %0, [%1];\n"
               "}"
               : "=r"(value)
               : "l"(pointer), "r"(static_cast<int>(exists))
               : "memory");
  return value;
}

/// Loads 16 bytes through L2 alone, for data that other blocks wrote in this
/// launch.
inline float4 ldGlobalCg(const float4 *pointer) {
  float4 value;
  asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "l"(pointer)
               : "memory");
  return value;
}

inline float ldGlobalCg(const float *pointer) {
  float value;
  asm volatile("ld.global.cg.f32 %0, [%1];"
               : "=f"(value)
               : "l"(pointer)
               : "memory");
  return value;
}

/// Stores 16 bytes to L2.
inline void stGlobalCg(float4 *pointer, float4 value) {
  asm volatile("st.global.cg.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(pointer),
               "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w)
               : "memory");
}

/// Adds to a counter in global memory, with acquire and release at device
/// scope; returns the value before.
inline unsigned atomAddAcqRel(unsigned *pointer, unsigned value) {
  unsigned old;
  asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;"
               : "=r"(old)
               : "l"(pointer), "r"(value)
               : "memory");
  return old;
}

/// Loads 16 bytes that another block of this launch may be writing: each float
/// is its old or its new value (relaxed at device scope, sm_70).
inline float4 ldRelaxed(const float4 *pointer) {
  float4 value;
  asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "l"(pointer)
               : "memory");
  return value;
}

/// Stores 16 bytes for another block's ldRelaxed.
inline void stRelaxed(float4 *pointer, float4 value) {
  asm volatile(
      "st.relaxed.gpu.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(pointer),
      "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w)
      : "memory");
}

/// Loads 16 bytes, or a word, that another GPU may be writing: each word is its
/// old or its new value (relaxed at system scope, sm_70).
inline uint4 ldRelaxedSys(const void *pointer) {
  uint4 value;
  asm volatile("ld.relaxed.sys.global.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(pointer)
               : "memory");
  return value;
}
inline unsigned ldRelaxedSys32(const void *pointer) {
  unsigned value;
  asm volatile("ld.relaxed.sys.global.b32 %0, [%1];"
               : "=r"(value)
               : "l"(pointer)
               : "memory");
  return value;
}

/// Stores 16 bytes, or a word, for another GPU's ldRelaxedSys.
inline void stRelaxedSys(void *pointer, uint4 value) {
  asm volatile(
      "st.relaxed.sys.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(pointer),
      "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w)
      : "memory");
}
inline void stRelaxedSys32(void *pointer, unsigned value) {
  asm volatile("st.relaxed.sys.global.b32 [%0], %1;" ::"l"(pointer), "r"(value)
               : "memory");
}

/// Nanoseconds of a clock that all SMs share, of coarse resolution.
inline unsigned long long globalTimer() {
  unsigned long long value;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value));
  return value;
}

/// Prefetches the line of \p address to L2, without waiting.
inline void prefetchL2(const void *address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address) : "memory");
}

/// Rank of this block in its cluster (sm_90).
inline unsigned clusterCtaRank() {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// The address of this block's \p shared in block \p rank of the cluster
/// (sm_90), for stSharedCluster.
inline unsigned mapaSharedCluster(unsigned shared, unsigned rank) {
  unsigned address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(address)
      : "r"(shared), "r"(rank));
  return address;
}

/// Stores into the shared memory of a block of the cluster (sm_90).
inline void stSharedClusterF32(unsigned address, float value) {
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(address), "f"(value)
               : "memory");
}

/// As stSharedClusterF32, and counts its bytes at \p barrier, an mbarrier of
/// the block of \p address (sm_90): a wait for that barrier makes the value
/// visible.
inline void stAsyncClusterF32(unsigned address, float value, unsigned barrier) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 "
               "[%0], %1, [%2];" ::"r"(address),
               "r"(__float_as_uint(value)), "r"(barrier)
               : "memory");
}

/// Loads from the shared memory of a block of the cluster (sm_90), by the
/// mapped address.
inline float ldSharedClusterF32(unsigned address) {
  float value;
  asm volatile("ld.shared::cluster.f32 %0, [%1];"
               : "=f"(value)
               : "r"(address)
               : "memory");
  return value;
}
inline float4 ldSharedClusterF32x4(unsigned address) {
  float4 value;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "r"(address)
               : "memory");
  return value;
}

/// The two halves of a barrier of the cluster (sm_90). Stores before an arrival
/// with release are visible after the wait; a relaxed arrival orders nothing.
inline void barrierClusterArriveRelease() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
inline void barrierClusterArriveRelaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
inline void barrierClusterWait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// Lets the dependent grid start once every block has called this or has ended
/// (sm_90). That grid sees this one's writes only behind its wait.
inline void griddepcontrolLaunchDependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

/// Waits until the grid that this one depends on has ended and its writes are
/// visible (sm_90); returns at once where the launch is not dependent.
inline void griddepcontrolWait() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

} // namespace kiln::ptx
