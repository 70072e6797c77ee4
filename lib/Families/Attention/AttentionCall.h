//===- AttentionCall.h - kiln_attention_args as a call --------------------===//
#pragma once

#include "Call/CallReader.h"

namespace kiln {

extern const CallReader kAttentionCall;

} // namespace kiln
