//===- elementwise/ReferenceElementwise.cuh - the reference ---------------===//
//
// The chain by its definition: one thread for each element, in fp64, not
// rounded to y's type. Beside it is the scale of the error that fp32 may make,
// |x| carried through the chain.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Convert.cuh"
#include "common/Pointwise.cuh"
#include "elementwise/ElementwiseParams.h"
#include "elementwise/ReferenceElementwiseConfig.h"

namespace kiln {

/// The operands of element (row, column) for link kLink and later links.
template <ElementwiseSignature kSignature, int kLink = 0>
void readOperands(LinkOperands<double> &values,
                  const ElementwiseParams &operands, long long row,
                  long long column) {
  if constexpr (kLink < kSignature.chain.size()) {
    constexpr LinkShape kShape = shapeOf(kSignature.chain.ops[kLink]);
    using Element = Storage<kSignature.in>;
    auto *data = static_cast<const Element *>(operands.operands[kLink]);
    long long at = kShape == LinkShape::Matrix
                       ? row * operands.ldOperand + column
                   : kShape == LinkShape::Row ? column
                                              : row;
    if constexpr (kShape == LinkShape::Scalar)
      values.link[kLink] =
          operands.scalePtr ? *operands.scalePtr : operands.scale;
    else if constexpr (kShape != LinkShape::None)
      values.link[kLink] = toFloat<kSignature.in>(data[at]);
    readOperands<kSignature, kLink + 1>(values, operands, row, column);
  }
}

/// Writes reference and bound of the rows [rowBegin, rowEnd); any
/// one-dimensional grid.
template <ElementwiseSignature kSignature, ReferenceElementwiseConfig kConfig>
void referenceElementwise(const ReferenceElementwiseParams &params) {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");
  constexpr PointwiseChain kChain = kSignature.chain;
  const ElementwiseParams &operands = params.operands;
  auto *x = static_cast<const Storage<kSignature.in> *>(operands.x);
  long long count = (params.rowEnd - params.rowBegin) * operands.cols;
  long long first =
      static_cast<long long>(blockIdx.x) * kConfig.threads() + threadIdx.x;
  long long step = static_cast<long long>(gridDim.x) * kConfig.threads();
  for (long long i = first; i < count; i += step) {
    long long within = i / operands.cols, column = i - within * operands.cols;
    long long row = params.rowBegin + within;
    double value = toFloat<kSignature.in>(x[row * operands.ldx + column]);
    LinkOperands<double> values;
    readOperands<kSignature>(values, operands, row, column);
    params.reference[i] = applyChain<kChain>(value, values);
    params.bound[i] = chainErrorScale<kChain>(fabs(value), values);
  }
}

} // namespace kiln
