//===- FakeCublasLtRules.cpp ----------------------------------------------===//
#include "Fakes/FakeCublasLtRules.h"

#include <initializer_list>

namespace kiln::fake {

int ltBytesOf(int type) {
  switch (type) {
  case kLtReal32:
  case kLtInteger32:
    return 4;
  case kLtReal16:
  case kLtRealBf16:
    return 2;
  default:
    return 1;
  }
}

static bool hasShapes(const LtProduct &p) {
  auto m = p.matmul.transA ? p.a.cols : p.a.rows;
  auto n = p.matmul.transB ? p.b.rows : p.b.cols;
  auto k = p.matmul.transB ? p.b.cols : p.b.rows;
  auto fits = [](const KilnFakeLayout &layout) {
    return layout.ld >= static_cast<int64_t>(layout.rows);
  };
  return m == p.d.rows && n == p.d.cols && static_cast<int64_t>(k) == p.k() &&
         p.c.rows == p.d.rows && p.c.cols == p.d.cols && fits(p.a) &&
         fits(p.b) && fits(p.c) && fits(p.d);
}

static bool divides(int64_t bytes, const KilnFakeLayout &layout) {
  return layout.ld * ltBytesOf(layout.type) % bytes == 0;
}

/// "A must be transposed and B non-transposed."
static bool isAlongK(const LtProduct &p) {
  return p.matmul.transA == 1 && p.matmul.transB == 0;
}

static bool isAligned(const void *pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

static int judgeBlocks(const LtProduct &p) {
  const KilnFakeMatmul &matmul = p.matmul;
  auto isBlock = [](int mode) {
    return mode == kLtVector128 || mode == kLtBlock128;
  };
  if (!isBlock(matmul.scaleModeA) || !isBlock(matmul.scaleModeB) ||
      (matmul.scaleModeA == kLtBlock128 && matmul.scaleModeB == kLtBlock128))
    return kLtNotSupported;
  if (p.m() % 4 != 0 || p.n() % 4 != 0)
    return kLtNotSupported;
  const bool isThere = matmul.scaleA && matmul.scaleB;
  return isThere && isAligned(matmul.scaleA) && isAligned(matmul.scaleB)
             ? kLtSuccess
             : kLtInvalidValue;
}

static int judgeScales(const LtProduct &p, size_t version) {
  const KilnFakeMatmul &matmul = p.matmul;
  if (matmul.scaleModeA == kLtScalar && matmul.scaleModeB == kLtScalar)
    return kLtSuccess;
  if (version < 120900 || p.d.batch != 1)
    return kLtNotSupported;
  if (matmul.scaleModeA != kLtOuterVector &&
      matmul.scaleModeB != kLtOuterVector)
    return judgeBlocks(p);
  if (matmul.scaleModeA != matmul.scaleModeB)
    return kLtNotSupported;
  return matmul.scaleA && matmul.scaleB ? kLtSuccess : kLtInvalidValue;
}

static int judgeFp8(const LtProduct &p, size_t version, uint32_t alignment) {
  const bool hasTypes =
      isLtFp8(p.b.type) && (p.a.type == kLtE4m3 || p.b.type == kLtE4m3) &&
      (p.d.type == kLtReal32 || p.d.type == kLtReal16 ||
       p.d.type == kLtRealBf16) &&
      p.c.type == p.d.type && p.matmul.computeType == kLtCompute32 &&
      p.matmul.scaleType == kLtReal32;
  if (!hasTypes || !isAlongK(p) || alignment < 16)
    return kLtNotSupported;
  // Its default has the type of D, with fp32 as an exception.
  const bool hasBias = p.matmul.epilogue & 4;
  if (hasBias && p.matmul.biasType == kLtReal32)
    return kLtNotSupported;
  for (const KilnFakeLayout *layout : {&p.a, &p.b, &p.c, &p.d})
    if (!divides(16, *layout))
      return kLtNotSupported;
  return judgeScales(p, version);
}

static int judgeIntegers(const LtProduct &p, uint32_t alignment) {
  const bool hasTypes = p.b.type == kLtInteger8 && p.d.type == kLtInteger32 &&
                        p.c.type == kLtInteger32 &&
                        p.matmul.computeType == kLtComputeInteger &&
                        p.matmul.scaleType == kLtInteger32;
  if (!hasTypes || !isAlongK(p) || alignment < 4 || p.matmul.epilogue != 1)
    return kLtNotSupported;
  return divides(4, p.a) && divides(4, p.b) ? kLtSuccess : kLtNotSupported;
}

int judge(const LtProduct &p, size_t version, uint32_t alignment) {
  if (!hasShapes(p))
    return kLtInvalidValue;
  if (isLtFp8(p.a.type))
    return judgeFp8(p, version, alignment);
  if (p.matmul.scaleA || p.matmul.scaleB || p.matmul.scaleModeA ||
      p.matmul.scaleModeB || p.matmul.fastAccumulation)
    return kLtInvalidValue;
  if (p.a.type == kLtInteger8)
    return judgeIntegers(p, alignment);
  const bool isKnown =
      (p.matmul.computeType == kLtCompute32 ||
       (p.matmul.computeType == kLtComputeTf32 && p.a.type == kLtReal32)) &&
      p.matmul.scaleType == kLtReal32;
  return isKnown && p.a.type == p.b.type ? kLtSuccess : kLtNotSupported;
}

} // namespace kiln::fake
