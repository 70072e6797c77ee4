//===- FakeCublasLt.cpp - the stand-in cuBLASLt ---------------------------===//
//
// Written from the documentation of cuBLAS alone: D[i, j] belongs to matrices
// with contiguous columns, and scales lie as "Scaling factors layouts" says.
//
//===----------------------------------------------------------------------===//
#include "Fakes/FakeCublasLt.h"

#include "Fakes/FakeCublasLtRules.h"

#include <array>
#include <cmath>
#include <cstring>

using namespace kiln::fake;

namespace {

struct Preference {
  uint64_t workspaceBytes = 0;
  std::array<uint32_t, 4> alignments{256, 256, 256, 256};
};

struct Algorithm {
  uint64_t opaque[8];
};

/// cublasLtMatmulHeuristicResult_t.
struct Result {
  Algorithm algorithm;
  size_t workspaceBytes;
  int state;
  float waves;
  int reserved[4];
};

constexpr uint64_t kMark = 0x4b696c6e4c74; // of algorithms that it made

size_t version = 130002;
KilnFakeMatmul last;
std::array<KilnFakeLayout, 4> lastLayouts;

/// Takes an attribute if it has the right size.
template <class Value> int take(Value &value, const void *from, size_t bytes) {
  if (bytes != sizeof(value))
    return kLtInvalidValue;
  std::memcpy(&value, from, sizeof(value));
  return kLtSuccess;
}

float fromBits(uint32_t bits, int mantissa, int exponents) {
  const int width = mantissa + exponents;
  const float sign = bits >> width & 1 ? -1.0f : 1.0f;
  const int bias = (1 << (exponents - 1)) - 1;
  const int exponent =
      static_cast<int>(bits >> mantissa) & ((1 << exponents) - 1);
  const int digits = static_cast<int>(bits) & ((1 << mantissa) - 1);
  if (exponent == 0)
    return sign * std::ldexp(float(digits), 1 - bias - mantissa);
  return sign * std::ldexp(float(digits + (1 << mantissa)),
                           exponent - bias - mantissa);
}

/// Element \p index; infinities and NaN are beyond what tests need.
double valueAt(const void *data, int64_t index, int type) {
  auto bitsAt = [&](auto zero) {
    std::memcpy(&zero,
                static_cast<const char *>(data) + index * int64_t(sizeof(zero)),
                sizeof(zero));
    return zero;
  };
  switch (type) {
  case kLtReal32:
    return bitsAt(0.0f);
  case kLtReal16:
    return fromBits(bitsAt(uint16_t()), 10, 5);
  case kLtRealBf16:
    return fromBits(bitsAt(uint16_t()), 7, 8);
  case kLtE4m3:
    return fromBits(bitsAt(uint8_t()), 3, 4);
  case kLtE5m2:
    return fromBits(bitsAt(uint8_t()), 2, 5);
  case kLtInteger8:
    return bitsAt(int8_t());
  default:
    return bitsAt(int32_t());
  }
}

/// op(matrix)[row, col]; the columns are contiguous.
double elementOf(const void *data, const KilnFakeLayout &layout, int transposed,
                 int64_t row, int64_t col) {
  if (transposed)
    std::swap(row, col);
  return valueAt(data, row + col * layout.ld, layout.type);
}

/// The scale of row \p outer of A, or column of B, at \p depth of \p k; there
/// are \p outers of them.
double scaleOf(const float *scales, int mode, int64_t outer, int64_t outers,
               int64_t depth, int64_t k) {
  if (!scales)
    return 1;
  const int64_t block = depth / 128, blocks = (k + 127) / 128;
  switch (mode) {
  case kLtOuterVector:
    return scales[outer];
  case kLtVector128: // M x L or N x L, M- or N-major
    return scales[outer + block * outers];
  case kLtBlock128: // L4 x M / 128 or L4 x N / 128, K-major
    return scales[block + outer / 128 * ((blocks + 3) / 4 * 4)];
  default:
    return *scales;
  }
}

double sumOf(const LtProduct &p, const void *a, const void *b, int64_t i,
             int64_t j) {
  double sum = 0;
  for (int64_t depth = 0; depth < p.k(); ++depth)
    sum +=
        elementOf(a, p.a, p.matmul.transA, i, depth) *
        elementOf(b, p.b, p.matmul.transB, depth, j) *
        scaleOf(p.matmul.scaleA, p.matmul.scaleModeA, i, p.m(), depth, p.k()) *
        scaleOf(p.matmul.scaleB, p.matmul.scaleModeB, j, p.n(), depth, p.k());
  return sum;
}

/// Only fp32 and int32 results are stored, for tests to read.
void multiply(const LtProduct &p, double alpha, const void *a, const void *b,
              void *d) {
  for (int64_t j = 0; j < p.n(); ++j)
    for (int64_t i = 0; i < p.m(); ++i) {
      const double value = alpha * sumOf(p, a, b, i, j);
      if (p.d.type == kLtReal32)
        static_cast<float *>(d)[i + j * p.d.ld] = static_cast<float>(value);
      if (p.d.type == kLtInteger32)
        static_cast<int32_t *>(d)[i + j * p.d.ld] = static_cast<int32_t>(value);
    }
}

LtProduct productOf(const void *matmul, void *const layouts[4]) {
  auto layout = [&](int i) -> const KilnFakeLayout & {
    return *static_cast<const KilnFakeLayout *>(layouts[i]);
  };
  return {*static_cast<const KilnFakeMatmul *>(matmul), layout(0), layout(1),
          layout(2), layout(3)};
}

} // namespace

#pragma GCC visibility push(default)
extern "C" {

void kilnFakeCublasLtSetVersion(size_t number) { version = number; }
const KilnFakeMatmul *kilnFakeCublasLtLast() { return &last; }
const KilnFakeLayout *kilnFakeCublasLtLastLayout(int which) {
  return &lastLayouts[static_cast<size_t>(which)];
}

size_t cublasLtGetVersion() { return version; }

const char *cublasLtGetStatusName(int status) {
  return status == kLtInvalidValue   ? "CUBLAS_STATUS_INVALID_VALUE"
         : status == kLtNotSupported ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                     : "CUBLAS_STATUS_SUCCESS";
}

int cublasLtCreate(void **handle) {
  *handle = &last;
  return kLtSuccess;
}
int cublasLtDestroy(void *) { return kLtSuccess; }

int cublasLtMatmulDescCreate(void **made, int computeType, int scaleType) {
  auto *matmul = new KilnFakeMatmul;
  matmul->computeType = computeType;
  matmul->scaleType = scaleType;
  *made = matmul;
  return kLtSuccess;
}
int cublasLtMatmulDescDestroy(void *matmul) {
  delete static_cast<KilnFakeMatmul *>(matmul);
  return kLtSuccess;
}

int cublasLtMatmulDescSetAttribute(void *description, int attribute,
                                   const void *value, size_t bytes) {
  auto &matmul = *static_cast<KilnFakeMatmul *>(description);
  // Scale modes came with 12.8.
  if (version < 120800 && attribute > 26)
    return kLtInvalidValue;
  switch (attribute) {
  case 3:
    return take(matmul.transA, value, bytes);
  case 4:
    return take(matmul.transB, value, bytes);
  case 7:
    return take(matmul.epilogue, value, bytes);
  case 8:
    return take(matmul.bias, value, bytes);
  case 17:
    return take(matmul.scaleA, value, bytes);
  case 18:
    return take(matmul.scaleB, value, bytes);
  case 25:
    return take(matmul.fastAccumulation, value, bytes);
  case 26:
    return take(matmul.biasType, value, bytes);
  case 31:
    return take(matmul.scaleModeA, value, bytes);
  case 32:
    return take(matmul.scaleModeB, value, bytes);
  default:
    return kLtInvalidValue;
  }
}

int cublasLtMatrixLayoutCreate(void **made, int type, uint64_t rows,
                               uint64_t cols, int64_t ld) {
  *made = new KilnFakeLayout{type, rows, cols, ld};
  return kLtSuccess;
}
int cublasLtMatrixLayoutDestroy(void *layout) {
  delete static_cast<KilnFakeLayout *>(layout);
  return kLtSuccess;
}

int cublasLtMatrixLayoutSetAttribute(void *matrix, int attribute,
                                     const void *value, size_t bytes) {
  auto &layout = *static_cast<KilnFakeLayout *>(matrix);
  switch (attribute) {
  case 5:
    return take(layout.batch, value, bytes);
  case 6:
    return take(layout.batchStride, value, bytes);
  default:
    return kLtInvalidValue;
  }
}

int cublasLtMatmulPreferenceCreate(void **made) {
  *made = new Preference;
  return kLtSuccess;
}
int cublasLtMatmulPreferenceDestroy(void *preference) {
  delete static_cast<Preference *>(preference);
  return kLtSuccess;
}

int cublasLtMatmulPreferenceSetAttribute(void *preferred, int attribute,
                                         const void *value, size_t bytes) {
  auto &preference = *static_cast<Preference *>(preferred);
  if (attribute == 1)
    return take(preference.workspaceBytes, value, bytes);
  if (attribute < 5 || attribute > 8)
    return kLtInvalidValue;
  return take(preference.alignments[static_cast<size_t>(attribute - 5)], value,
              bytes);
}

int cublasLtMatmulAlgoGetHeuristic(void *, void *description, void *a, void *b,
                                   void *c, void *d, void *preferred, int count,
                                   Result *results, int *found) {
  void *layouts[] = {a, b, c, d};
  const auto &preference = *static_cast<const Preference *>(preferred);
  uint32_t alignment = 256;
  for (uint32_t one : preference.alignments)
    alignment = one < alignment ? one : alignment;
  *found = 0;
  if (int status = judge(productOf(description, layouts), version, alignment))
    return status;
  for (; *found < count && *found < 2; ++*found)
    results[*found] = {
        {{kMark, static_cast<uint64_t>(*found)}}, 0, kLtSuccess, 1, {}};
  return kLtSuccess;
}

int cublasLtMatmul(void *, void *description, const void *alpha, const void *a,
                   void *aLayout, const void *b, void *bLayout, const void *,
                   const void *, void *cLayout, void *d, void *dLayout,
                   const Algorithm *algorithm, void *, size_t, void *) {
  void *layouts[] = {aLayout, bLayout, cLayout, dLayout};
  const LtProduct product = productOf(description, layouts);
  const auto combined = reinterpret_cast<uintptr_t>(a) |
                        reinterpret_cast<uintptr_t>(b) |
                        reinterpret_cast<uintptr_t>(d) | 256;
  const auto alignment = static_cast<uint32_t>(combined & -combined);
  if (algorithm->opaque[0] != kMark)
    return kLtInvalidValue;
  if (int status = judge(product, version, alignment))
    return status;
  last = product.matmul;
  lastLayouts = {product.a, product.b, product.c, product.d};
  const bool isWhole = product.matmul.scaleType == kLtInteger32;
  multiply(product,
           isWhole ? double(*static_cast<const int32_t *>(alpha))
                   : double(*static_cast<const float *>(alpha)),
           a, b, d);
  return kLtSuccess;
}

} // extern "C"
#pragma GCC visibility pop
