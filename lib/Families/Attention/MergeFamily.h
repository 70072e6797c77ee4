//===- MergeFamily.h - two attentions become one --------------------------===//
#pragma once

#include "Families/Attention/MergeProblem.h"
#include "Kernel/Family.h"

#include <memory>

namespace kiln {

/// Reads kiln_attention_merge_args.
extern const CallReader kMergeCall;

/// For the family's own constructor.
std::unique_ptr<Template> makeFlatMergeTemplate();

/// The family's reference: double precision, with an error bound. Immutable.
std::unique_ptr<Reference> makeMergeReference(const MergeSignature &signature,
                                              const DeviceModel &device);

} // namespace kiln
