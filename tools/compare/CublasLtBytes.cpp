//===- CublasLtBytes.cpp --------------------------------------------------===//
#include "compare/CublasLtBytes.h"

#include "Kernel/TypeName.h"
#include "Support/Error.h"

namespace kiln::cli {

/// The first with scales of rows and blocks: 12.9.
static constexpr size_t kFirstWithVectors = 120900;
static constexpr int64_t kBlock = 128;

static int64_t roundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

llvm::Error checkCublasLtTypes(const MatrixProduct &product) {
  if (bytesOf(product.type) != 1)
    return llvm::Error::success();
  // Its kernels of one byte read both operands along k. Later GPUs can more.
  if (product.layout != Layout::NT)
    return makeError(ErrorCode::Unsupported,
                     "cuBLASLt multiplies types of one byte in the layout NT");
  if (product.type == DType::INT8)
    return product.out == DType::INT32
               ? llvm::Error::success()
               : makeError(ErrorCode::Unsupported,
                           "cuBLASLt multiplies int8 to int32, not to {}",
                           nameOf(product.out));
  if (product.type == DType::E5M2 && product.typeB == DType::E5M2)
    return makeError(ErrorCode::Unsupported,
                     "cuBLASLt multiplies e5m2 with e4m3 alone");
  if (product.out == DType::FP32 &&
      product.epilogue.contains(PointwiseOp::Bias))
    return makeError(ErrorCode::Unsupported,
                     "cuBLASLt takes no fp32 bias for products of fp8");
  return llvm::Error::success();
}

/// Checks that blocks' scales lie as cuBLASLt reads them. It is not told their
/// strides: others would give wrong results without an error.
static llvm::Error checkBlocks(const MatrixProduct &product) {
  if (product.scalesA.kind != ScaleKind::Block1x128 ||
      product.scalesB.kind != ScaleKind::Block128x128)
    return makeError(ErrorCode::Unsupported,
                     "bench asks cuBLASLt for block scales as 1x128 with "
                     "128x128 alone");
  if (product.m % 4 != 0 || product.n % 4 != 0)
    return makeError(ErrorCode::Unsupported,
                     "cuBLASLt takes block scales where m and n are "
                     "multiples of 4, not m={} n={}",
                     product.m, product.n);
  const ProductScales &a = product.scalesA, &b = product.scalesB;
  const int64_t depths = (product.k + kBlock - 1) / kBlock;
  if (!a.alongRows || (depths > 1 && a.ld != product.m))
    return makeError(ErrorCode::Unsupported,
                     "cuBLASLt reads scales of 1x128 by rows without gaps: "
                     "scale_order_a=rows ldsa={}",
                     product.m);
  const int64_t ld = roundUp(depths, 4);
  if (b.alongRows || (product.n > kBlock && b.ld != ld))
    return makeError(ErrorCode::Unsupported,
                     "cuBLASLt reads scales of 128x128 along k, in lines of "
                     "multiples of 4: scale_order_b=k ldsb={}",
                     ld);
  return llvm::Error::success();
}

llvm::Expected<CublasLtScalePair> cublasLtScalesOf(const MatrixProduct &product,
                                                   size_t version) {
  CublasLtScalePair pair;
  if (!product.hasScales())
    return pair;
  const ProductScales &ofA = product.scalesA, &ofB = product.scalesB;
  if (!isFp8(product.type))
    return makeError(ErrorCode::Unsupported,
                     "cuBLASLt takes scales with fp8, not with {}",
                     nameOf(product.type));
  if (product.batch != 1)
    return makeError(ErrorCode::Unsupported,
                     "cuBLASLt takes no scales of each matrix of a batch");
  auto operandOf = [](const ProductScales &scales) {
    return scales.kind == ScaleKind::None ? -1 : scales.operand;
  };
  pair.a.operand = operandOf(ofB);
  pair.b.operand = operandOf(ofA);
  auto isOfTensor = [](const ProductScales &scales) {
    return scales.kind == ScaleKind::None || scales.kind == ScaleKind::Tensor;
  };
  if (isOfTensor(ofA) && isOfTensor(ofB))
    return pair;
  if (version < kFirstWithVectors)
    return makeError(ErrorCode::Unsupported,
                     "cuBLASLt takes scales of rows and blocks from 12.9 on");
  if (ofA.kind == ScaleKind::Row && ofB.kind == ScaleKind::Row) {
    pair.a.mode = pair.b.mode = CublasLtScaleMode::OuterVector;
    return pair;
  }
  if (!isBlockScale(ofA.kind) && !isBlockScale(ofB.kind))
    return makeError(ErrorCode::Unsupported,
                     "cuBLASLt takes scales of rows for both operands or for "
                     "none");
  if (llvm::Error error = checkBlocks(product))
    return error;
  pair.a.mode = CublasLtScaleMode::Block128x128;
  pair.b.mode = CublasLtScaleMode::Vector128;
  return pair;
}

} // namespace kiln::cli
