//===- GemmCall.h - kiln_gemm_args as a call ------------------------------===//
#pragma once

#include "Call/CallReader.h"

namespace kiln {

extern const CallReader kGemmCall;

} // namespace kiln
