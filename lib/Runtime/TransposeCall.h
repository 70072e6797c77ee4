//===- TransposeCall.h - kiln_transpose_args as a call --------------------===//
#pragma once

#include "Runtime/FamilyCall.h"

namespace kiln {

// See CallReader.
bool readTransposeCall(const kiln_transpose_args &args, CallAddresses addresses,
                       FamilyCall &call) noexcept;
llvm::Error checkTranspose(const kiln_transpose_args &args,
                           CallAddresses addresses);

} // namespace kiln
