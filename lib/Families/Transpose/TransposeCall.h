//===- TransposeCall.h - kiln_transpose_args as a call --------------------===//
#pragma once

#include "Call/CallReader.h"

namespace kiln {

extern const CallReader kTransposeCall;

} // namespace kiln
