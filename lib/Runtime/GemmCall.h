//===- GemmCall.h - kiln_gemm_args as values and arguments ----------------===//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Gemm/GemmProblem.h"
#include "Runtime/FamilyCall.h"

#include <llvm/ADT/SmallVector.h>

#include <cstdint>

namespace kiln {

/// See CallReader.
bool readGemmCall(const kiln_gemm_args &args, CallUse use,
                  FamilyCall &call) noexcept;
llvm::Error checkGemm(const kiln_gemm_args &args, CallUse use);

/// kiln_arguments slot of each operand of GemmOperand, for a pointwise chain
/// as a record holds it.
llvm::SmallVector<uint32_t, 8> gemmSlots(int64_t chain);

} // namespace kiln
