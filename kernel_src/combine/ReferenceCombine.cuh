//===- combine/ReferenceCombine.cuh - the reference of combine ------------===//
//
// A block a token, in double. Kernels round the sum to its type before its
// norm; the reference does not, and counts that as an error.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "combine/ReferenceCombineConfig.h"
#include "common/Convert.cuh"

namespace kiln {

template <CombineSignature kSignature> class ReferenceCombine {
  static constexpr DType kType = kSignature.in;
  static constexpr int kThreads = ReferenceCombineConfig{}.threads();

public:
  ReferenceCombine(const CombineParams &params, long long token)
      : params(params), token(token) {}

  void compute(bool isSum, double *values, double *bounds) const {
    const bool isNorm = kSignature.norm && !isSum;
    const double factor = isNorm ? normFactor() : 1;
    for (int col = threadIdx.x; col < params.cols; col += kThreads) {
      double size;
      const double sum = sumOf(col, size);
      // Sums are fp32, and the whole is rounded where it is stored.
      const double error = 1e-6 * size + roundingOf(sum);
      if (!isNorm) {
        values[col] = sum;
        bounds[col] = error;
        continue;
      }
      const double weight = element(params.normWeight, col);
      const double norm = sum * factor * weight;
      values[col] = norm;
      // The mean is that of rounded sums.
      bounds[col] = error * factor * fabs(weight) + 2 * roundingOf(norm) +
                    4e-6 * fabs(norm);
    }
  }

private:
  static double element(const void *matrix, long long at) {
    return toFloat<kType>(static_cast<const Storage<kType> *>(matrix)[at]);
  }

  static double roundingOf(double value) {
    constexpr double kHalf = kType == DType::BF16   ? 0x1p-8
                             : kType == DType::FP16 ? 0x1p-11
                                                    : 0x1p-23;
    constexpr double kSubnormal = kType == DType::FP16 ? 0x1p-24 : 0;
    return fabs(value) * kHalf + kSubnormal;
  }

  /// \p size is the sum of magnitudes.
  double sumOf(int col, double &size) const {
    double sum = 0;
    size = 0;
    auto add = [&](double value) {
      sum += value;
      size += fabs(value);
    };
    for (int j = 0; j < params.topK; ++j) {
      const long long choice = token * params.topK + j;
      const double weight = kSignature.weighted ? params.weights[choice] : 1;
      if (weight != 0)
        add(element(params.x, choice * params.ldx + col) *
            (kSignature.weighted && params.applies ? weight : 1));
    }
    if constexpr (kSignature.shared)
      add(element(params.shared, token * params.ldShared + col));
    if constexpr (kSignature.residual)
      add(element(params.residual, token * params.ldResidual + col));
    return sum;
  }

  double normFactor() const {
    __shared__ double squares[kThreads];
    double own = 0, size;
    for (int col = threadIdx.x; col < params.cols; col += kThreads) {
      const double sum = sumOf(col, size);
      own += sum * sum;
    }
    __syncthreads();
    squares[threadIdx.x] = own;
    __syncthreads();
    double all = 0;
    for (int i = 0; i < kThreads; ++i)
      all += squares[i];
    return 1 / sqrt(all / params.cols + double(params.epsilon));
  }

  const CombineParams &params;
  const long long token;
};

template <CombineSignature kSignature, ReferenceCombineConfig>
void referenceCombine(const ReferenceCombineParams &params) {
  const CombineParams &combine = params.combine;
  for (long long token = params.rowBegin + blockIdx.x; token < params.rowEnd;
       token += gridDim.x) {
    const long long at = (token - params.rowBegin) * combine.cols;
    ReferenceCombine<kSignature>(combine, token)
        .compute(params.isSum != 0, params.reference + at, params.bound + at);
  }
}

} // namespace kiln
