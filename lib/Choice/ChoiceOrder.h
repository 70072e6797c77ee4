//===- ChoiceOrder.h - the ways to a plan, in their order -----------------===//
//
// What a mode does to find a plan is a list of steps. Each step offers configs,
// best first (Chooser.h), and the first config that can be loaded is the choice
// (Acquisition.h). The lists are in ChoiceOrder.cpp. docs/design.md, "The order
// of choice", shows them as a table, which is made from them and from the
// comments of ChoiceStep, and says why they are so.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kiln/kiln.h"

#include <llvm/ADT/ArrayRef.h>

namespace kiln {

/// The offers of each, as the table has them.
enum class ChoiceStep {
  /// the winner of trials at this very value; then the space in the order that
  /// the layer's trials suggest, where the best is compiled if none within 2 %
  /// exists (in strict and background, the kernels of its portfolio); then the
  /// estimator's stored choices. While trials are due, choices that these may
  /// change are left out
  Stored,
  /// measures within the budget: a launch its layer, `kiln_prepare` the value
  Trials,
  /// a loaded kernel within 2 % of the best estimate
  Loaded,
  /// of the first 8 of the ranking, one within 2 % of the best whose kernels
  /// exist
  Close,
  /// the kernels of the signature's stored pool, by estimate; where kernels are
  /// compiled, those within 2 % of the best of the ranking
  Pool,
  /// the first of the ranking, then the next, then generic templates: after 4
  /// attempts, after 12 where they are 8 times slower
  Compile,
  /// the whole ranking, where kernels exist
  Existing,
};

/// How far a step may go for what it offers.
enum class Effort {
  Loaded,   ///< takes plans that are loaded
  Resident, ///< makes plans of kernels that are loaded
  Existing, ///< takes kernels in memory or on disk as well
  Compiled, ///< compiles what is missing
};

/// Whether somebody waits for a choice to launch it, and for nothing else. It
/// matters in the mode background alone.
enum class Haste { None, Launch };

/// The steps of \p mode, in their order.
llvm::ArrayRef<ChoiceStep> choiceOrder(kiln_mode mode,
                                       Haste haste = Haste::None);
bool hasStep(kiln_mode mode, ChoiceStep step);
/// Whether trials come before anything serves for good: callers wait for them.
bool triesFirst(kiln_mode mode);
/// Whether a call may wait for a kernel that is better than all of a portfolio.
bool asksSpace(kiln_mode mode);

Effort effortOf(ChoiceStep step);
/// Whether \p step offers what the estimator ranks, which takes a millisecond.
bool needsRanking(ChoiceStep step, kiln_mode mode);

} // namespace kiln
