//===- MergeCall.h - kiln_attention_merge_args as a call ------------------===//
#pragma once

#include "Call/CallReader.h"

namespace kiln {

extern const CallReader kMergeCall;

} // namespace kiln
