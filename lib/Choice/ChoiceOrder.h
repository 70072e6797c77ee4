//===- ChoiceOrder.h - the ways to a plan, in their order -----------------===//
//
// What a mode does to find a plan is a list of steps. Each step offers configs,
// best first (Chooser.h), and the first config that can be loaded is the choice
// (Acquisition.h). Modes differ in their lists:
//   tune      what was measured at this very value; the portfolio of the
//             layer; stored decisions; trials, of the layer for a launch and of
//             the value for who prepares it; without them the estimator's
//             choice. A kernel that exists does not stand in for trials:
//             kernels are shared between problems of one signature, so that the
//             second layer would never be measured.
//   predict   the same without trials. What is loaded, and then what exists,
//             saves a compilation where the estimator puts it next to the best.
//   background  those of tune, but trials are made by a thread of the
//             engine's alone, and not until something serves. A launch in haste
//             takes what is loaded for the signature (Chooser::standIns()); if
//             nothing is, what exists, and compiles the first of the ranking
//             last. Nothing that is merely close to the best stands in for it
//             where a kernel is compiled: what is compiled serves until trials
//             say else, and who launches does not wait for it.
//   strict    nothing is compiled: what exists, best first. The pool of the
//             signature goes before the ranking, of which hardly a config
//             exists where sizes were not known when kernels were compiled.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kiln/kiln.h"

#include <llvm/ADT/ArrayRef.h>

namespace kiln {

enum class ChoiceStep {
  Record,    ///< what trials measured at this value, with today's kernels
  Portfolio, ///< the kernels of the layer, by calibrated estimate
  Decision,  ///< the estimator's stored choices
  Trials,    ///< measures, which the engine does: nothing is offered
  Loaded,    ///< of the ranking, what is loaded and next to the best
  Close,     ///< of the first eight of the ranking, one that exists and is next
             ///< to the best
  Compile,   ///< the first of the ranking, then the generic templates
  Pool,      ///< the kernels of the signature's stored pool, by estimate
  Existing,  ///< the whole ranking
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

Effort effortOf(ChoiceStep step, Haste haste = Haste::None);
/// Whether \p step offers what the cache holds.
bool isStored(ChoiceStep step);
/// Whether \p step offers what the estimator ranks, which takes a millisecond.
bool needsRanking(ChoiceStep step);

} // namespace kiln
