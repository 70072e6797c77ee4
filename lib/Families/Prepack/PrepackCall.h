//===- PrepackCall.h - kiln_prepack_args as a call ------------------------===//
#pragma once

#include "Call/CallReader.h"

namespace kiln {

extern const CallReader kPrepackCall;

} // namespace kiln
