//===- Chain.h - pointwise chains in values and in texts ------------------===//
#pragma once

#include "Kernel/Values.h"
#include "common/Types.h"

#include <cstdint>
#include <string>

namespace kiln {

/// Names of links in texts.
inline constexpr FieldName kLinkNames[] = {
    {int64_t(PointwiseOp::Residual), "add"},
    {int64_t(PointwiseOp::Mul), "mul"},
    {int64_t(PointwiseOp::Bias), "bias"},
    {int64_t(PointwiseOp::Scale), "scale"},
    {int64_t(PointwiseOp::Relu), "relu"},
    {int64_t(PointwiseOp::GeluErf), "gelu_erf"},
    {int64_t(PointwiseOp::GeluTanh), "gelu_tanh"},
    {int64_t(PointwiseOp::Silu), "silu"},
    {int64_t(PointwiseOp::RowBias), "row_bias"},
    {int64_t(PointwiseOp::ColumnScale), "col_scale"},
    {int64_t(PointwiseOp::RowScale), "row_scale"}};

/// Instructions of one element for a link, ordinary and special.
struct LinkCost {
  double simd = 0, special = 0;
};
/// Counted in the SASS of elementwise kernels: erff is a polynomial of about 20
/// steps. With \p pairs two elements share a reciprocal, at some
/// multiplications.
LinkCost costOf(PointwiseOp op, bool pairs);

/// Packs a chain into an int64 value and back: a byte for each operation.
int64_t encodeChain(const PointwiseChain &chain);
PointwiseChain decodeChain(int64_t value);

/// The chain as an initialiser: "{{kiln::PointwiseOp::Bias,
/// kiln::PointwiseOp::Silu}}".
std::string initializerText(const PointwiseChain &chain);

} // namespace kiln
