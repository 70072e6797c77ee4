//===- FixedSplit.h - results that do not depend on the batch -------------===//
//
// The bits of a row follow from the order in which its keys are added up. With
// a fixed split a row has the same bits in every batch, so neither the template
// nor the order of its keys may follow from the batch:
//   decode  has the problems with few rows of queries that it serves, and more
//           rows where no other template does, with one config;
//   sm90    has the rest of the problems that it serves, without splits, with
//           one shape of tile and one number of stages: these decide which
//           blocks move a row's origin, since it depends on the rows beside it
//           and on where its tile's Q is kept;
//   mma     has the rest of the problems that it serves, likewise;
//   naive   is in every space, and is not chosen where another template is.
// One sequence of a problem decides whether a template serves it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Device/DeviceModel.h"
#include "Families/Attention/AttentionProblem.h"
#include "Kernel/Estimate.h"

namespace kiln {

/// The most bytes of partial results of `decode`, 4 (dv + 1) bytes for each row
/// and split; more are refused. Engines have limits of their own, mostly lower
/// ones.
inline constexpr int64_t kMostFixedPartialBytes = int64_t(1) << 30;

/// One sequence of \p problem, with free splits.
AttentionProblem oneSequenceOf(const AttentionProblem &problem);

/// The refusal of a problem outside of \p allowed, a literal.
Rejection notForFixedSplit(const AttentionProblem &problem,
                           llvm::StringRef allowed);

/// Whether `decode`, or `sm90`, has a problem with a fixed split. Some
/// microseconds.
bool isServedByDecode(const AttentionProblem &problem,
                      const AttentionSignature &signature,
                      const DeviceModel &device);
bool isServedBySm90(const AttentionProblem &problem,
                    const AttentionSignature &signature,
                    const DeviceModel &device);

} // namespace kiln
