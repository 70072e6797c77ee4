//===- AttentionFamily.h - the parts that make the family attention -------===//
#pragma once

#include "Families/Attention/AttentionProblem.h"
#include "Kernel/Family.h"

#include <memory>

namespace kiln {

/// Reads kiln_attention_args.
extern const CallReader kAttentionCall;

/// For the family's own constructor: prefill by wgmma, MLA by wgmma, few rows
/// of queries by mma.sync, sm_80 and later, any GPU.
std::unique_ptr<Template> makeSm90AttentionTemplate();
std::unique_ptr<Template> makeSm90MlaTemplate();
std::unique_ptr<Template> makeDecodeAttentionTemplate();
std::unique_ptr<Template> makeMmaAttentionTemplate();
std::unique_ptr<Template> makeNaiveAttentionTemplate();

/// The operands of a trial, and the tolerances of its results.
OperandTable attentionOperands(const AttentionProblem &problem);

/// The family's reference: double precision, with an error bound, for O and for
/// the LSE. Immutable.
std::unique_ptr<Reference> makeAttentionReference(const Problem &problem,
                                                  const DeviceModel &device);

} // namespace kiln
