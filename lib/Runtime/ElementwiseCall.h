//===- ElementwiseCall.h - kiln_elementwise_args as a call ----------------===//
#pragma once

#include "Runtime/FamilyCall.h"

namespace kiln {

// See CallReader.
bool readElementwiseCall(const kiln_elementwise_args &args,
                         CallAddresses addresses, FamilyCall &call) noexcept;
llvm::Error checkElementwise(const kiln_elementwise_args &args,
                             CallAddresses addresses);

} // namespace kiln
