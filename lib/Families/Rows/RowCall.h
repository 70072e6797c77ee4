//===- RowCall.h - reductions, softmax, norms, quantisation as calls ------===//
#pragma once

#include "Call/CallReader.h"
#include "Families/Rows/RowFields.h"

namespace kiln {

const CallReader &rowCall(RowKind kind);

} // namespace kiln
