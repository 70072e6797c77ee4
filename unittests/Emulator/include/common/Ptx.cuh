//===- common/Ptx.cuh - the PTX instructions, emulated --------------------===//
//
// In the place of kernel_src's file of this name: its functions, for the host.
// That file and the PTX ISA say what an instruction does.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace kiln::ptx {

//===----------------------------------------------------------------------===//
// Without an effect here, or on memory alone
//===----------------------------------------------------------------------===//

inline void opaque(unsigned &) {}
inline void opaque(long long &) {}
inline void opaque(const float *&) {}
inline void opaque(const char *&) {}
template <int kCount> void pin(float (&)[kCount]) {}
template <int kCount> void pin(unsigned (&)[kCount]) {}
inline void prefetchL2(const void *) {}
inline unsigned long long createPolicyEvictFirst() { return 0; }
inline void griddepcontrolLaunchDependents() {}
inline void griddepcontrolWait() { kilnMachine->awaitPredecessor(); }

inline unsigned ctaidX() { return blockIdx.x; }
inline unsigned ctaidY() { return blockIdx.y; }

inline unsigned sharedAddress(const void *pointer) {
  return unsigned(reinterpret_cast<uintptr_t>(pointer) -
                  reinterpret_cast<uintptr_t>(kilnMachine->thread->shared)) +
         emulated::kSharedBase;
}

namespace detail {
template <class T> T &sharedAt(unsigned address) {
  return *static_cast<T *>(kilnMachine->sharedAt(address, sizeof(T)));
}
template <class T> T &globalAt(const void *address) {
  return *static_cast<T *>(const_cast<void *>(address));
}
} // namespace detail

inline unsigned short ldShared16(unsigned shared) {
  return detail::sharedAt<unsigned short>(shared);
}
inline unsigned ldShared32(unsigned shared) {
  return detail::sharedAt<unsigned>(shared);
}
inline uint2 ldShared64(unsigned shared) {
  return detail::sharedAt<uint2>(shared);
}
inline uint4 ldShared128(unsigned shared) {
  return detail::sharedAt<uint4>(shared);
}
inline void stShared16(unsigned shared, unsigned value) {
  detail::sharedAt<unsigned short>(shared) = (unsigned short)value;
}
inline void stShared32(unsigned shared, unsigned value) {
  detail::sharedAt<unsigned>(shared) = value;
}
inline void stShared64(unsigned shared, unsigned low, unsigned high) {
  detail::sharedAt<uint2>(shared) = {low, high};
}
inline void stShared128(unsigned shared, const unsigned (&values)[4]) {
  detail::sharedAt<uint4>(shared) = {values[0], values[1], values[2],
                                     values[3]};
}

inline float ldGlobalFloat(const float *pointer) {
  return detail::globalAt<float>(pointer);
}
inline unsigned ldGlobalNoAllocate8(const void *pointer) {
  return detail::globalAt<unsigned char>(pointer);
}
inline unsigned ldGlobalNoAllocate16(const void *pointer) {
  return detail::globalAt<unsigned short>(pointer);
}
inline unsigned ldGlobalNoAllocate32(const void *pointer) {
  return detail::globalAt<unsigned>(pointer);
}
inline uint2 ldGlobalNoAllocate64(const void *pointer) {
  return detail::globalAt<uint2>(pointer);
}
inline uint4 ldGlobalNoAllocate128(const void *pointer) {
  return detail::globalAt<uint4>(pointer);
}
inline uint4 ldGlobalNoAllocate128(const void *pointer, unsigned long long) {
  return detail::globalAt<uint4>(pointer);
}
inline unsigned short ldGlobalOrZero16(const void *pointer, bool exists) {
  return exists ? detail::globalAt<unsigned short>(pointer) : 0;
}
inline unsigned ldGlobalOrZero32(const void *pointer, bool exists) {
  return exists ? detail::globalAt<unsigned>(pointer) : 0;
}
inline void stGlobal128(void *pointer, uint4 value) {
  detail::globalAt<uint4>(pointer) = value;
}
inline void stGlobalStreaming8(void *pointer, unsigned value) {
  detail::globalAt<unsigned char>(pointer) = (unsigned char)value;
}
inline void stGlobalStreaming16(void *pointer, unsigned value) {
  detail::globalAt<unsigned short>(pointer) = (unsigned short)value;
}
inline void stGlobalStreaming32(void *pointer, unsigned value) {
  detail::globalAt<unsigned>(pointer) = value;
}
inline void stGlobalStreaming64(void *pointer, uint2 value) {
  detail::globalAt<uint2>(pointer) = value;
}
inline void stGlobalStreaming128(void *pointer, uint4 value) {
  detail::globalAt<uint4>(pointer) = value;
}
inline float4 ldGlobalCg(const float4 *pointer) { return *pointer; }
inline float ldGlobalCg(const float *pointer) { return *pointer; }
inline void stGlobalCg(float4 *pointer, float4 value) { *pointer = value; }
inline float4 ldRelaxed(const float4 *pointer) {
  kilnMachine->poll();
  return *pointer;
}
inline void stRelaxed(float4 *pointer, float4 value) { *pointer = value; }
inline uint4 ldRelaxedSys(const void *pointer) {
  kilnMachine->poll();
  return detail::globalAt<uint4>(pointer);
}
inline unsigned ldRelaxedSys32(const void *pointer) {
  return detail::globalAt<unsigned>(pointer);
}
inline void stRelaxedSys(void *pointer, uint4 value) {
  detail::globalAt<uint4>(pointer) = value;
}
inline void stRelaxedSys32(void *pointer, unsigned value) {
  detail::globalAt<unsigned>(pointer) = value;
}
inline unsigned long long globalTimer() { return kilnMachine->globalTimer(); }
inline unsigned atomAddAcqRel(unsigned *pointer, unsigned value) {
  return std::exchange(*pointer, *pointer + value);
}

inline void barSync(int id, int threads) {
  kilnMachine->barrier(id, threads, /*waits=*/true);
}
inline void barArrive(int id, int threads) {
  kilnMachine->barrier(id, threads, /*waits=*/false);
}

//===----------------------------------------------------------------------===//
// Asynchronous copies
//===----------------------------------------------------------------------===//

template <int kBytes>
void cpAsync(unsigned shared, const void *global, int sourceBytes) {
  kilnMachine->copy(shared, global, kBytes, sourceBytes);
}
template <int kBytes>
void cpAsyncOrZero(unsigned shared, const void *global, bool inside,
                   bool active) {
  if (active)
    kilnMachine->copy(shared, global, kBytes, inside ? kBytes : 0);
}
inline void cpAsyncOrZero16(unsigned shared, const void *global, bool inside,
                            unsigned long long) {
  kilnMachine->copy(shared, global, 16, inside ? 16 : 0);
}
inline void cpAsyncCommit() { kilnMachine->commitCopies(); }
template <int kPending> void cpAsyncWait() {
  kilnMachine->waitForCopies(kPending);
}

//===----------------------------------------------------------------------===//
// Conversions and approximations
//===----------------------------------------------------------------------===//

inline float cvtF32F16(unsigned short bits) {
  return __builtin_bit_cast(_Float16, bits);
}
inline unsigned short cvtRnF16F32(float value) {
  return __builtin_bit_cast(unsigned short, static_cast<_Float16>(value));
}
inline unsigned cvtRnF16x2F32(float low, float high) {
  return cvtRnF16F32(low) | unsigned(cvtRnF16F32(high)) << 16;
}

namespace detail {
inline float fromBf16(unsigned short bits) {
  return __uint_as_float(unsigned(bits) << 16);
}
inline unsigned toBf16(float value) {
  unsigned bits = __float_as_uint(value);
  return isnan(value) ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
/// The value of one of 256 codes; the host has no instruction for it.
inline float fromE4m3(unsigned bits) {
  const float sign = bits & 0x80 ? -1.0f : 1.0f;
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  if (exponent == 15 && mantissa == 7)
    return NAN;
  return sign * (exponent ? std::ldexp(8.0f + mantissa, exponent - 10)
                          : std::ldexp(float(mantissa), -9));
}
inline unsigned toE4m3(float value) {
  if (isnan(value))
    return 0x7f;
  const float size = std::fabs(value);
  unsigned bits = 0x7e; // 448
  if (size < 448) {
    int exponent = 0;
    std::frexp(size, &exponent);
    // In steps of its last place.
    const int place = size > 0 ? max(exponent - 4, -9) : -9;
    const float steps = std::nearbyint(std::ldexp(size, -place));
    bits = unsigned(steps) + (unsigned(place + 9) << 3);
  }
  return bits | (std::signbit(value) ? 0x80 : 0);
}
} // namespace detail

inline unsigned cvtRnBf16x2F32(float low, float high) {
  return detail::toBf16(low) | detail::toBf16(high) << 16;
}
inline unsigned cvtRnSatfiniteE4m3x2F32(float low, float high) {
  return detail::toE4m3(low) | detail::toE4m3(high) << 8;
}
inline unsigned cvtRnSatfiniteE4m3x4F32(float a, float b, float c, float d) {
  return cvtRnSatfiniteE4m3x2F32(a, b) | cvtRnSatfiniteE4m3x2F32(c, d) << 16;
}
inline unsigned cvtRnF16x2E4m3x2(unsigned short pair) {
  return cvtRnF16x2F32(detail::fromE4m3(pair & 0xff),
                       detail::fromE4m3(pair >> 8));
}
inline unsigned prmt(unsigned low, unsigned high, unsigned selector) {
  return __byte_perm(low, high, selector);
}

namespace detail {
inline float flushed(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? copysignf(0, value) : value;
}
} // namespace detail

inline float maxNan(float a, float b) {
  return isnan(a) ? a : isnan(b) ? b : fmaxf(a, b);
}
namespace detail {
/// The greater of each half of two registers.
template <class Value, class Bits>
unsigned maxNanHalves(unsigned a, unsigned b, Value value, Bits bits) {
  auto half = [&](unsigned shift) {
    return bits(maxNan(value((unsigned short)(a >> shift)),
                       value((unsigned short)(b >> shift))));
  };
  return half(0) | unsigned(half(16)) << 16;
}
} // namespace detail

inline unsigned maxNanBf16x2(unsigned a, unsigned b) {
  return detail::maxNanHalves(a, b, detail::fromBf16, detail::toBf16);
}
inline unsigned maxNanF16x2(unsigned a, unsigned b) {
  return detail::maxNanHalves(a, b, cvtF32F16, cvtRnF16F32);
}
inline unsigned reduxMax(unsigned value) {
  return __reduce_max_sync(~0u, value);
}
inline unsigned reduxAdd(unsigned value) {
  return __reduce_add_sync(~0u, value);
}
inline float ex2ApproxFtz(float x) {
  return detail::flushed(exp2f(detail::flushed(x)));
}
inline float lg2ApproxFtz(float x) { return log2f(detail::flushed(x)); }
inline float tanhApprox(float x) { return tanhf(x); }
inline float rcpApproxFtz(float x) {
  return detail::flushed(1 / detail::flushed(x));
}

//===----------------------------------------------------------------------===//
// Matrices of a warp
//===----------------------------------------------------------------------===//

namespace detail {

/// A lane's arguments of ldmatrix and stmatrix.
struct MatrixMove {
  unsigned shared;
  unsigned registers[4];
};

/// kCount 8 x 8 matrices of 16-bit elements between shared memory and
/// registers.
template <int kCount, bool kTransposed, bool kStores>
void moveMatrices(MatrixMove &mine) {
  kilnMachine->meet(~0u, &mine, [](void *const *lanes, unsigned mask) {
    for (int i = 0; i < kCount; ++i) {
      auto row = [&](int r) {
        auto *lane = static_cast<MatrixMove *>(lanes[8 * i + r]);
        return static_cast<unsigned short *>(
            kilnMachine->sharedAt(lane->shared, 16));
      };
      emulated::forLanes<MatrixMove>(
          lanes, mask, [&](int lane, MatrixMove &move) {
            for (int half = 0; half < 2; ++half) {
              int r = lane / 4, c = lane % 4 * 2 + half;
              if (kTransposed)
                std::swap(r, c);
              unsigned &both = move.registers[i];
              const int shift = 16 * half;
              if (kStores)
                row(r)[c] = (unsigned short)(both >> shift);
              else
                both = (both & ~(0xffffu << shift)) | unsigned(row(r)[c])
                                                          << shift;
            }
          });
    }
  });
}

enum class Element { Bf16, Fp16, Tf32, E4m3 };

struct WarpProduct {
  float *sums;
  const unsigned *a;
  unsigned b[2];
};

template <Element kElement> float elementOf(unsigned bits) {
  if constexpr (kElement == Element::Tf32)
    return __uint_as_float(bits & 0xffffe000u);
  else if constexpr (kElement == Element::Bf16)
    return fromBf16((unsigned short)bits);
  else if constexpr (kElement == Element::E4m3)
    return fromE4m3(bits & 0xff);
  else
    return cvtF32F16((unsigned short)bits);
}

/// mma.sync of 16 x 8, 32 bytes along k. A register has kEach elements of
/// a row of A, or of a column of B.
template <Element kElement>
void multiplyInWarp(float (&sums)[4], const unsigned (&a)[4], unsigned b0,
                    unsigned b1) {
  WarpProduct mine{sums, a, {b0, b1}};
  kilnMachine->meet(~0u, &mine, [](void *const *lanes, unsigned mask) {
    constexpr int kEach = kElement == Element::Tf32   ? 1
                          : kElement == Element::E4m3 ? 4
                                                      : 2;
    constexpr int kDepth = 8 * kEach;
    float a[16][kDepth], b[kDepth][8];
    emulated::forLanes<WarpProduct>(lanes, mask, [&](int lane, auto &of) {
      const int group = lane / 4, place = lane % 4 * kEach;
      for (int i = 0; i < kEach; ++i)
        for (int r = 0; r < 4; ++r) {
          auto element = [&](unsigned bits) {
            return elementOf<kElement>(bits >> 32 / kEach * i);
          };
          a[group + r % 2 * 8][place + r / 2 * 4 * kEach + i] =
              element(of.a[r]);
          if (r < 2)
            b[place + r * 4 * kEach + i][group] = element(of.b[r]);
        }
    });
    emulated::forLanes<WarpProduct>(lanes, mask, [&](int lane, auto &of) {
      for (int i = 0; i < 4; ++i) {
        float sum = 0;
        for (int k = 0; k < kDepth; ++k)
          sum += a[lane / 4 + i / 2 * 8][k] * b[k][lane % 4 * 2 + i % 2];
        of.sums[i] += sum;
      }
    });
  });
}

} // namespace detail

inline void ldmatrixX4(unsigned (&registers)[4], unsigned shared) {
  detail::MatrixMove move{shared, {}};
  detail::moveMatrices<4, false, false>(move);
  std::memcpy(registers, move.registers, sizeof(registers));
}
inline void ldmatrixX2(unsigned &register0, unsigned &register1,
                       unsigned shared) {
  detail::MatrixMove move{shared, {}};
  detail::moveMatrices<2, false, false>(move);
  register0 = move.registers[0];
  register1 = move.registers[1];
}
inline void ldmatrixX4Trans(unsigned (&registers)[4], unsigned shared) {
  detail::MatrixMove move{shared, {}};
  detail::moveMatrices<4, true, false>(move);
  std::memcpy(registers, move.registers, sizeof(registers));
}

inline void mmaBf16(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                    unsigned b1) {
  detail::multiplyInWarp<detail::Element::Bf16>(d, a, b0, b1);
}
inline void mmaFp16(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                    unsigned b1) {
  detail::multiplyInWarp<detail::Element::Fp16>(d, a, b0, b1);
}
inline void mmaE4m3(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                    unsigned b1) {
  detail::multiplyInWarp<detail::Element::E4m3>(d, a, b0, b1);
}
inline void mmaTf32(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                    unsigned b1) {
  detail::multiplyInWarp<detail::Element::Tf32>(d, a, b0, b1);
}

//===----------------------------------------------------------------------===//
// Clusters
//===----------------------------------------------------------------------===//

inline unsigned clusterCtaRank() { return kilnMachine->thread->clusterRank; }
inline unsigned mapaSharedCluster(unsigned shared, unsigned rank) {
  return (shared & 0xffffff) | (rank + 1) << 24;
}
inline void stSharedClusterF32(unsigned address, float value) {
  detail::sharedAt<float>(address) = value;
}
inline void stAsyncClusterF32(unsigned address, float value, unsigned barrier) {
  detail::sharedAt<float>(address) = value;
  kilnMachine->mbarrierComplete(barrier, sizeof(float));
}
inline float ldSharedClusterF32(unsigned address) {
  return detail::sharedAt<float>(address);
}
inline float4 ldSharedClusterF32x4(unsigned address) {
  return detail::sharedAt<float4>(address);
}
inline void barrierClusterArriveRelease() { kilnMachine->clusterArrive(); }
inline void barrierClusterArriveRelaxed() { kilnMachine->clusterArrive(); }
inline void barrierClusterWait() { kilnMachine->clusterWait(); }

} // namespace kiln::ptx
