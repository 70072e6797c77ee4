//===- ChoiceOrder.h - the steps of each mode, in order -------------------===//
//
// A mode finds a plan by a list of steps. Each step offers configs, best first
// (Chooser.h), and the first config that can be loaded is the choice
// (Acquisition.h). The lists are in ChoiceOrder.cpp. docs/design.md, "The order
// of choice", shows them as a table, which is made from them and from the
// comments of ChoiceStep, and gives the reasons.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kiln/kiln.h"

#include <llvm/ADT/ArrayRef.h>

#include <optional>

namespace kiln {

/// The steps; the comments are their offers in the table.
enum class ChoiceStep {
  /// configs measured at this very value; then the space by the evidence of the
  /// layer's trials, of which the best is compiled if no kernel within 2 %
  /// exists (in strict, background and frozen, the kernels of its portfolio);
  /// then the estimator's stored choices. While trials are due, choices that
  /// they may change are left out
  Stored,
  /// measures within the budget: a launch measures its layer, `kiln_prepare`
  /// the value
  Trials,
  /// loaded configs within 2 % of the best estimate
  Loaded,
  /// a config within 2 % of the best whose kernels exist, among the first 8 of
  /// the ranking
  Close,
  /// the kernels of the signature's stored pool, by estimate; in modes that
  /// compile, only those within 2 % of the best of the ranking
  Pool,
  /// the first of the ranking, then the next ones, then generic templates:
  /// after 4 attempts, or after 12 if they are 8 times slower
  Compile,
  /// all configs of the ranking whose kernels exist
  Existing,
};

/// The effort that a step may spend on a config.
enum class Effort {
  Loaded,   ///< takes plans that are loaded
  Resident, ///< makes plans of loaded kernels
  Existing, ///< takes kernels in memory or on disk as well
  Compiled, ///< compiles missing kernels
};

/// The modes of an engine with KILN_DETERMINISM_FROZEN_CHOICE, beside those of
/// kiln.h: a choice follows from the cache, the device model and the problem.
/// So their lists have no trials, and prefer no kernel because it is loaded or,
/// as long as the mode compiles, because it exists.
inline constexpr kiln_mode kFrozenPredict = KILN_MODE_PREDICT + 1;
inline constexpr kiln_mode kFrozenStrict = KILN_MODE_STRICT + 1;

/// The frozen form of \p mode; nullopt if it is made for trials.
std::optional<kiln_mode> frozenForm(kiln_mode mode);
bool isFrozen(kiln_mode mode);

/// Whether a launch waits for the choice and for nothing else. It matters in
/// the mode background alone.
enum class Haste { None, Launch };

/// The steps of \p mode, in their order.
llvm::ArrayRef<ChoiceStep> choiceOrder(kiln_mode mode,
                                       Haste haste = Haste::None);
bool hasStep(kiln_mode mode, ChoiceStep step);
/// Whether callers wait for trials before any plan serves for good.
bool triesFirst(kiln_mode mode);
/// Whether a call may wait for a kernel that is better than all members of a
/// portfolio.
bool asksSpace(kiln_mode mode);

Effort effortOf(ChoiceStep step, kiln_mode mode);
/// Whether \p step offers the estimator's ranking, which takes a millisecond.
bool needsRanking(ChoiceStep step, kiln_mode mode);

} // namespace kiln
