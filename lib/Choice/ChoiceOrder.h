//===- ChoiceOrder.h - the ways to a plan, in their order -----------------===//
//
// What a mode does to find a plan is a list of steps. Each step offers configs,
// best first (Chooser.h), and the first config that can be loaded is the choice
// (Acquisition.h). Modes differ in their lists:
//   tune      measured records, if no trial is due; stored decisions; trials;
//             without them the estimator's choice, until trials are made.
//             A kernel that exists does not stand in for trials: kernels are
//             shared between problems of one signature, so that the second
//             shape would never be measured.
//   predict   the same without trials. What the bucket has loaded, and then
//             what exists, saves a compilation where the estimator puts it
//             close to the best.
//   strict    nothing is compiled: what exists, best first.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kiln/kiln.h"

#include <llvm/ADT/ArrayRef.h>

namespace kiln {

enum class ChoiceStep {
  Record,   ///< what trials measured; in the mode tune, if no trial is due
  Decision, ///< the estimator's stored choices
  Trials,   ///< measures, which the engine does: nothing is offered
  Loaded,   ///< the bucket's shortlist, where close to the best of it
  Known,    ///< the bucket's shortlist
  Close,    ///< of the first eight of the ranking, one that exists and is close
            ///< to the best
  Compile,  ///< the first of the ranking, then the generic templates
  Existing, ///< the whole ranking
};

/// How far a step may go for what it offers.
enum class Effort {
  Loaded,   ///< takes what is loaded
  Existing, ///< takes kernels in memory or on disk as well
  Compiled, ///< compiles what is missing
};

/// The steps of \p mode, in their order.
llvm::ArrayRef<ChoiceStep> choiceOrder(kiln_mode mode);
bool hasStep(kiln_mode mode, ChoiceStep step);

Effort effortOf(ChoiceStep step);
/// Whether \p step offers what the cache holds.
bool isStored(ChoiceStep step);
/// Whether \p step offers what the estimator ranks, which takes a millisecond.
bool needsRanking(ChoiceStep step);

} // namespace kiln
