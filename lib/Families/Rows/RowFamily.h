//===- RowFamily.h - norms, softmax, quantisation and reductions ----------===//
//
// Arithmetic is fp32 on fp32, fp16 and bf16 data. Templates: resident, reload
// and, for reductions, split.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Family.h"

#include <memory>

namespace kiln {

/// y = x / sqrt(mean(x^2) + eps) * weight + bias of each row, for x or for x +
/// residual, which is stored as well (residual add); y may be quantised with
/// per-token scales.
std::unique_ptr<KernelFamily> makeRmsNormFamily();
/// As rmsnorm, with y = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias.
std::unique_ptr<KernelFamily> makeLayerNormFamily();
/// y = softmax(scale * x + mask) of each row.
std::unique_ptr<KernelFamily> makeSoftmaxFamily();
/// y = round(x / scale) to e4m3 or int8 with per-token scales: scale = max|x| /
/// (the greatest value of y's type) of each row, stored in fp32.
std::unique_ptr<KernelFamily> makeQuantizeFamily();
/// y = sum, greatest value, mean or sum of squares of each row, or of all.
std::unique_ptr<KernelFamily> makeReduceFamily();

} // namespace kiln
