//===- FixedSplit.h - results that do not depend on the batch -------------===//
//
// The bits of a row follow from the order in which its keys are added up. With
// a fixed split a row has the same bits in every batch, so neither the template
// nor the order of its keys may follow from the batch:
//   decode  has the problems with few rows of queries that it serves, and more
//           rows where no other does, with one config;
//   sm90    has the rest of those that it serves, without splits, with one
//           shape of tile and one number of stages: which blocks move a row's
//           origin follows from the rows beside it, and from where its tile's
//           Q is kept;
//   mma     has the rest of those that it serves, likewise;
//   naive   is in every space, and is not chosen where another is.
// Whether a template serves a problem is asked of one sequence of it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Device/DeviceModel.h"
#include "Families/Attention/AttentionProblem.h"
#include "Kernel/Estimate.h"

namespace kiln {

/// Partial results of `decode` beyond that are refused, 4 (dv + 1) bytes for
/// each row and split. Engines have limits of their own, mostly lower ones.
inline constexpr int64_t kMostFixedPartialBytes = int64_t(1) << 30;

/// One sequence of \p problem, whose keys may be shared out at will.
AttentionProblem oneSequenceOf(const AttentionProblem &problem);

/// The refusal of a problem that \p allowed, a literal, does not take in.
Rejection notForFixedSplit(const AttentionProblem &problem,
                           llvm::StringRef allowed);

/// Whether a problem with a fixed split is one of `decode`, and of `sm90`. Some
/// microseconds.
bool isServedByDecode(const AttentionProblem &problem,
                      const AttentionSignature &signature,
                      const DeviceModel &device);
bool isServedBySm90(const AttentionProblem &problem,
                    const AttentionSignature &signature,
                    const DeviceModel &device);

} // namespace kiln
