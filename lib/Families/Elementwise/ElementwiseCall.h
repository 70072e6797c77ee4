//===- ElementwiseCall.h - kiln_elementwise_args as a call ----------------===//
#pragma once

#include "Call/CallReader.h"

namespace kiln {

extern const CallReader kElementwiseCall;

} // namespace kiln
