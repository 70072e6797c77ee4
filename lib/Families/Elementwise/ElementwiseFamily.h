//===- ElementwiseFamily.h - pointwise chains over a matrix ---------------===//
#pragma once

#include "Kernel/Family.h"

#include <memory>

namespace kiln {

/// y = chain(x) over rows x cols for fp32, fp16, bf16 and fp8 e4m3 data with
/// fp32 arithmetic; template flat.
std::unique_ptr<KernelFamily> makeElementwiseFamily();

} // namespace kiln
