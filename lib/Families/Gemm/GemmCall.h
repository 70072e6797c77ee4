//===- GemmCall.h - kiln_gemm_args as values and arguments ----------------===//
//===----------------------------------------------------------------------===//
#pragma once

#include "Call/CallReader.h"
#include "Families/Gemm/GemmProblem.h"

namespace kiln {

/// See CallReader.
bool readGemmCall(const kiln_gemm_args &args, CallUse use,
                  FamilyCall &call) noexcept;
llvm::Error checkGemm(const kiln_gemm_args &args, CallUse use);

inline constexpr CallReader kGemmCall =
    makeCallReader<kiln_gemm_args, readGemmCall, checkGemm>(KILN_FAMILY_GEMM);

} // namespace kiln
