//===- AttentionFamily.h - softmax(Q K^T) V -------------------------------===//
#pragma once

#include "Families/Attention/AttentionProblem.h"
#include "Kernel/Family.h"

#include <memory>

namespace kiln {

/// O = softmax(scale * Q K^T + mask) V. Templates: sm90 (prefill by wgmma),
/// sm90mla (MLA by wgmma), decode (few rows of queries, by mma.sync), mma
/// (sm_80 and later), naive.
std::unique_ptr<KernelFamily> makeAttentionFamily();

/// For the family's own constructor.
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
