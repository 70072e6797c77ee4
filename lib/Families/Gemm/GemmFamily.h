//===- GemmFamily.h - dense and batched matrix products -------------------===//
#pragma once

#include "Kernel/Family.h"

#include <memory>

namespace kiln {

/// D = pointwise(alpha * op(A) op(B) + beta * C) for bf16, fp16 and fp32 data
/// with fp32 accumulation.
std::unique_ptr<KernelFamily> makeGemmFamily();

} // namespace kiln
