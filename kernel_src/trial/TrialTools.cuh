//===- trial/TrialTools.cuh - kernels that prepare and judge trials -------===//
//
// The tuner's own kernels: they fill operands, poison outputs, check red zones,
// compare with a reference, and empty the L2. One translation unit that
// includes this header holds them all under their extern "C" names.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Convert.cuh"
#include "trial/TrialParams.h"

namespace kiln::trial {

/// Index of this thread among all of the launch, and how many there are.
inline long long firstIndex() {
  return static_cast<long long>(blockIdx.x) * kTrialThreads + threadIdx.x;
}
inline long long indexStep() {
  return static_cast<long long>(gridDim.x) * kTrialThreads;
}

/// A sample of N(0, 1) from 64 random bits (Box and Muller, 1958).
inline float normalOf(unsigned long long bits) {
  constexpr float kScale = 1.0f / 4294967296.0f;
  float radius = (static_cast<float>(static_cast<unsigned>(bits)) + 0.5f) *
                 kScale; // (0, 1]
  float angle = static_cast<float>(static_cast<unsigned>(bits >> 32)) * kScale;
  return sqrtf(-2.0f * logf(radius)) * cospif(2.0f * angle);
}

/// Stores element \p index of \p kType.
template <DType kType>
void storeTyped(void *data, long long index, float value) {
  static_cast<Storage<kType> *>(data)[index] = fromFloat<kType>(value);
}

/// Stores element \p index of \p type.
inline void storeElement(void *data, DType type, long long index, float value) {
  switch (type) {
  case DType::FP64:
    static_cast<double *>(data)[index] = value;
    break;
  case DType::FP32:
    storeTyped<DType::FP32>(data, index, value);
    break;
  case DType::FP16:
    storeTyped<DType::FP16>(data, index, value);
    break;
  case DType::E4M3:
    storeTyped<DType::E4M3>(data, index, value);
    break;
  case DType::E5M2:
    storeTyped<DType::E5M2>(data, index, value);
    break;
  case DType::INT8:
    storeTyped<DType::INT8>(data, index, value);
    break;
  default:
    storeTyped<DType::BF16>(data, index, value);
  }
}

/// Loads element \p index of \p kType; exact.
template <DType kType> float loadTyped(const void *data, long long index) {
  return toFloat<kType>(static_cast<const Storage<kType> *>(data)[index]);
}

/// Loads element \p index of \p type; exact, int64 below 2^53.
inline double loadElement(const void *data, DType type, long long index) {
  switch (type) {
  case DType::INT64:
    return static_cast<double>(static_cast<const long long *>(data)[index]);
  case DType::INT32:
    return static_cast<const int *>(data)[index];
  case DType::FP64:
    return static_cast<const double *>(data)[index];
  case DType::FP32:
    return loadTyped<DType::FP32>(data, index);
  case DType::FP16:
    return loadTyped<DType::FP16>(data, index);
  case DType::E4M3:
    return loadTyped<DType::E4M3>(data, index);
  case DType::E5M2:
    return loadTyped<DType::E5M2>(data, index);
  case DType::INT8:
    return loadTyped<DType::INT8>(data, index);
  default:
    return loadTyped<DType::BF16>(data, index);
  }
}

/// \p value rounded to \p kType.
template <DType kType> float roundTyped(float value) {
  return toFloat<kType>(fromFloat<kType>(value));
}

/// \p value rounded to \p type, as a kernel with exact sums would store it.
inline double roundTo(DType type, double value) {
  float single = static_cast<float>(value);
  switch (type) {
  case DType::FP64:
  case DType::INT64:
  case DType::INT32:
    return value;
  case DType::FP32:
    return single;
  case DType::FP16:
    return roundTyped<DType::FP16>(single);
  case DType::E4M3:
    return roundTyped<DType::E4M3>(single);
  case DType::E5M2:
    return roundTyped<DType::E5M2>(single);
  case DType::INT8:
    return roundTyped<DType::INT8>(single);
  default:
    return roundTyped<DType::BF16>(single);
  }
}

/// \p value to 10 mantissa bits, ties away from zero; not for NaN.
inline float roundMantissa10(float value) {
  return __uint_as_float((__float_as_uint(value) + 0x1000u) & 0xffffe000u);
}

/// True for about one in \p period of random \p bits; never for a period of 0.
inline bool isPicked(unsigned long long bits, int period) {
  return period > 0 && bits % period == 0;
}

/// The value of element \p index before it is rounded to its type.
inline float valueOf(const FillNormalParams &params, long long index) {
  if (params.rowPeriod > 0 &&
      index / params.rowLength % params.rowPeriod == params.rowPeriod - 1)
    return params.rowValue;
  unsigned long long bits = mix(mix(params.seed + 1) + index);
  unsigned long long choice = mix(bits), other = mix(choice);
  if (isPicked(other, params.minusInfinityPeriod))
    return __uint_as_float(0xff800000u);
  if (isPicked(choice, params.outlierPeriod))
    return other >> 63 ? -params.outlier : params.outlier;
  float sample = params.mean + params.deviation * normalOf(bits);
  return params.isLogarithmic ? ptx::ex2ApproxFtz(sample) : sample;
}

inline void fillNormal(const FillNormalParams &params) {
  for (long long i = firstIndex(); i < params.count; i += indexStep()) {
    float value = valueOf(params, i);
    if (params.mantissaBits == 10)
      value = roundMantissa10(value);
    storeElement(params.data, params.type, i, value);
  }
}

inline void fillIntegers(const FillIntegersParams &params) {
  const RowLayout &layout = params.layout;
  for (long long i = firstIndex(); i < layout.rowCount() * layout.cols;
       i += indexStep()) {
    const long long at = layout.offsetOf(i / layout.cols) + i % layout.cols;
    if (params.type == DType::INT64)
      static_cast<long long *>(params.data)[at] = params.values.at(i);
    else
      static_cast<int *>(params.data)[at] =
          static_cast<int>(params.values.at(i));
  }
}

inline unsigned char patternByte(unsigned pattern, long long index) {
  return static_cast<unsigned char>(pattern >> (index % 4 * 8));
}

inline void fillPattern(const FillPatternParams &params) {
  auto *words = static_cast<unsigned *>(params.data);
  auto *bytes = static_cast<unsigned char *>(params.data);
  long long wordCount = params.bytes / 4;
  for (long long i = firstIndex(); i < wordCount; i += indexStep())
    words[i] = params.pattern;
  for (long long i = wordCount * 4 + firstIndex(); i < params.bytes;
       i += indexStep())
    bytes[i] = patternByte(params.pattern, i);
}

/// Bytes in which two words differ.
inline unsigned differingBytes(unsigned left, unsigned right) {
  unsigned count = 0;
  for (unsigned difference = left ^ right; difference != 0; difference >>= 8)
    count += (difference & 0xffu) != 0;
  return count;
}

inline void checkRedZone(const CheckRedZoneParams &params) {
  const auto *data = static_cast<const unsigned char *>(params.data);
  unsigned long long count = 0;
  for (long long i = firstIndex(); i < params.bytes; i += indexStep())
    count += data[i] != patternByte(params.pattern, i);
  if (count != 0)
    atomicAdd(params.differing, count);
}

inline void checkGaps(const CheckGapsParams &params) {
  const auto *data = static_cast<const unsigned char *>(params.data);
  const int bytes = bytesOf(params.type);
  const long long span = params.grid.span();
  unsigned long long count = 0;
  for (long long i = firstIndex(); i < span; i += indexStep())
    if (!params.grid.isOfRow(i))
      for (int byte = 0; byte < bytes; ++byte)
        count += data[i * bytes + byte] != patternByte(params.pattern, byte);
  if (count != 0)
    atomicAdd(params.differing, count);
}

inline void countDifferences(const CountDifferencesParams &params) {
  const auto *left = static_cast<const unsigned *>(params.left);
  const auto *right = static_cast<const unsigned *>(params.right);
  unsigned long long count = 0;
  for (long long i = firstIndex(); i < params.bytes / 4; i += indexStep())
    count += differingBytes(left[i], right[i]);
  if (count != 0)
    atomicAdd(params.differing, count);
}

inline void flushL2(const FlushL2Params &params) {
  auto *data = static_cast<uint4 *>(params.data);
  for (long long i = firstIndex(); i < params.bytes / 16; i += indexStep()) {
    uint4 value = data[i];
    value.x += 1;
    data[i] = value;
  }
}

/// The quotient |d - ref| / tolerance; at most 1 is a pass, and the result is
/// never NaN.
inline double errorRatio(const CompareToleranceParams &params, double d,
                         double ref, double bound) {
  const double infinity = __longlong_as_double(0x7ff0000000000000ll);
  if (isnan(d) || isnan(ref))
    return isnan(d) && isnan(ref) ? 0.0 : infinity;
  if (d == roundTo(params.type, ref))
    return 0.0;
  double tolerance =
      params.relEps * fabs(ref) + params.absScale * bound + params.absolute;
  double ratio = fabs(d - ref) / tolerance;
  return isnan(ratio) ? infinity : ratio;
}

/// Sum over the warp, or its largest value, in every lane.
inline unsigned long long warpSum(unsigned long long value) {
  for (int distance = 16; distance > 0; distance /= 2)
    value += __shfl_xor_sync(~0u, value, distance);
  return value;
}
inline double warpMax(double value) {
  for (int distance = 16; distance > 0; distance /= 2)
    value = fmax(value, __shfl_xor_sync(~0u, value, distance));
  return value;
}

/// Whether the element at \p offset has its earlier value.
inline bool isUntouched(const CompareToleranceParams &params,
                        long long offset) {
  const int bytes = bytesOf(params.type);
  const auto *now = static_cast<const unsigned char *>(params.d);
  const auto *before = static_cast<const unsigned char *>(params.before);
  for (long long i = offset * bytes; i < (offset + 1) * bytes; ++i)
    if (now[i] != (before ? before[i] : patternByte(params.pattern, i)))
      return false;
  return true;
}

inline void compareTolerance(const CompareToleranceParams &params) {
  const long long cols = params.layout.cols;
  const long long count = (params.rowEnd - params.rowBegin) * cols;
  unsigned long long checked = 0, mismatches = 0, disturbed = 0;
  double worst = 0;
  for (long long i = firstIndex(); i < count; i += indexStep()) {
    const long long row = params.rowBegin + i / cols, column = i % cols;
    const long long offset = params.layout.offsetOf(row) + column;
    const auto index = static_cast<unsigned long long>(row * cols + column);
    ++checked;
    if (params.bound[i] < 0) {
      if (isUntouched(params, offset))
        continue;
      ++disturbed;
      atomicMin(&params.result->firstDisturbed, index);
      continue;
    }
    double d = loadElement(params.d, params.type, offset);
    double ratio = errorRatio(params, d, params.reference[i], params.bound[i]);
    worst = fmax(worst, ratio);
    if (ratio > 1) {
      ++mismatches;
      atomicMin(&params.result->firstBad, index);
    }
  }
  checked = warpSum(checked);
  mismatches = warpSum(mismatches);
  disturbed = warpSum(disturbed);
  worst = warpMax(worst);
  if (threadIdx.x % 32 == 0 && checked != 0) {
    atomicAdd(&params.result->checked, checked);
    if (mismatches != 0)
      atomicAdd(&params.result->mismatches, mismatches);
    if (disturbed != 0)
      atomicAdd(&params.result->disturbed, disturbed);
    // Bit patterns of non-negative doubles are ordered like the doubles.
    atomicMax(reinterpret_cast<unsigned long long *>(&params.result->maxRatio),
              static_cast<unsigned long long>(__double_as_longlong(worst)));
  }
}

} // namespace kiln::trial

extern "C" __global__ void __launch_bounds__(kiln::kTrialThreads)
    kilnFillNormal(const __grid_constant__ kiln::FillNormalParams params) {
  kiln::trial::fillNormal(params);
}

extern "C" __global__ void __launch_bounds__(kiln::kTrialThreads)
    kilnFillIntegers(const __grid_constant__ kiln::FillIntegersParams params) {
  kiln::trial::fillIntegers(params);
}

extern "C" __global__ void __launch_bounds__(kiln::kTrialThreads)
    kilnFillPattern(const __grid_constant__ kiln::FillPatternParams params) {
  kiln::trial::fillPattern(params);
}

extern "C" __global__ void __launch_bounds__(kiln::kTrialThreads)
    kilnCheckRedZone(const __grid_constant__ kiln::CheckRedZoneParams params) {
  kiln::trial::checkRedZone(params);
}

extern "C" __global__ void __launch_bounds__(kiln::kTrialThreads)
    kilnCheckGaps(const __grid_constant__ kiln::CheckGapsParams params) {
  kiln::trial::checkGaps(params);
}

extern "C" __global__ void __launch_bounds__(kiln::kTrialThreads)
    kilnCountDifferences(
        const __grid_constant__ kiln::CountDifferencesParams params) {
  kiln::trial::countDifferences(params);
}

extern "C" __global__ void __launch_bounds__(kiln::kTrialThreads)
    kilnFlushL2(const __grid_constant__ kiln::FlushL2Params params) {
  kiln::trial::flushL2(params);
}

extern "C" __global__ void __launch_bounds__(kiln::kTrialThreads)
    kilnCompareTolerance(
        const __grid_constant__ kiln::CompareToleranceParams params) {
  kiln::trial::compareTolerance(params);
}
