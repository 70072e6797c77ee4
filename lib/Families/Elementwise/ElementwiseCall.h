//===- ElementwiseCall.h - kiln_elementwise_args as a call ----------------===//
#pragma once

#include "Call/CallReader.h"

namespace kiln {

// See CallReader.
bool readElementwiseCall(const kiln_elementwise_args &args,
                         CallAddresses addresses, FamilyCall &call) noexcept;
llvm::Error checkElementwise(const kiln_elementwise_args &args,
                             CallAddresses addresses);

inline constexpr CallReader kElementwiseCall =
    makeCallReader<kiln_elementwise_args, readElementwiseCall,
                   checkElementwise>(KILN_FAMILY_ELEMENTWISE);

} // namespace kiln
