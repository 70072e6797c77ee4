//===- TransposeCall.h - kiln_transpose_args as a call --------------------===//
#pragma once

#include "Call/CallReader.h"

namespace kiln {

// See CallReader.
bool readTransposeCall(const kiln_transpose_args &args, CallAddresses addresses,
                       FamilyCall &call) noexcept;
llvm::Error checkTranspose(const kiln_transpose_args &args,
                           CallAddresses addresses);

inline constexpr CallReader kTransposeCall =
    makeCallReader<kiln_transpose_args, readTransposeCall, checkTranspose>(
        KILN_FAMILY_TRANSPOSE);

} // namespace kiln
