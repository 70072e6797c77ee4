//===- ChoiceOrder.cpp - the steps of each mode, in order -----------------===//
#include "Choice/ChoiceOrder.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/Support/ErrorHandling.h>

namespace kiln {

llvm::ArrayRef<ChoiceStep> choiceOrder(kiln_mode mode, Haste haste) {
  using enum ChoiceStep;
  static constexpr ChoiceStep kTune[] = {Stored, Trials,  Close,
                                         Pool,   Compile, Existing};
  static constexpr ChoiceStep kPredict[] = {Stored, Loaded,  Close,
                                            Pool,   Compile, Existing};
  static constexpr ChoiceStep kBackground[] = {Stored, Trials, Compile,
                                               Existing};
  static constexpr ChoiceStep kHaste[] = {Stored, Existing, Compile};
  static constexpr ChoiceStep kStrict[] = {Stored, Pool, Existing};
  static constexpr ChoiceStep kFrozen[] = {Stored, Pool, Compile};
  switch (mode) {
  case KILN_MODE_TUNE:
    return kTune;
  case KILN_MODE_PREDICT:
    return kPredict;
  case KILN_MODE_BACKGROUND:
    return haste == Haste::Launch ? llvm::ArrayRef<ChoiceStep>(kHaste)
                                  : kBackground;
  case KILN_MODE_STRICT:
  case kFrozenStrict:
    return kStrict;
  case kFrozenPredict:
    return kFrozen;
  }
  llvm_unreachable("EngineConfig accepts no other mode");
}

std::optional<kiln_mode> frozenForm(kiln_mode mode) {
  switch (mode) {
  case KILN_MODE_PREDICT:
    return kFrozenPredict;
  case KILN_MODE_STRICT:
    return kFrozenStrict;
  default:
    return std::nullopt;
  }
}

bool isFrozen(kiln_mode mode) {
  return mode == kFrozenPredict || mode == kFrozenStrict;
}

bool hasStep(kiln_mode mode, ChoiceStep step) {
  return llvm::is_contained(choiceOrder(mode), step);
}

bool triesFirst(kiln_mode mode) { return mode == KILN_MODE_TUNE; }

bool asksSpace(kiln_mode mode) {
  return mode == KILN_MODE_TUNE || mode == KILN_MODE_PREDICT;
}

Effort effortOf(ChoiceStep step, kiln_mode mode) {
  if (isFrozen(mode))
    return Effort::Compiled; // the mode without a compiler allows less
  switch (step) {
  case ChoiceStep::Trials:
  case ChoiceStep::Compile:
    return Effort::Compiled;
  case ChoiceStep::Loaded:
    return Effort::Loaded;
  case ChoiceStep::Stored:
  case ChoiceStep::Close:
  case ChoiceStep::Pool:
  case ChoiceStep::Existing:
    return Effort::Existing;
  }
  llvm_unreachable("unknown step");
}

bool needsRanking(ChoiceStep step, kiln_mode mode) {
  return step == ChoiceStep::Loaded || step == ChoiceStep::Close ||
         (step == ChoiceStep::Pool && hasStep(mode, ChoiceStep::Compile)) ||
         step == ChoiceStep::Compile || step == ChoiceStep::Existing;
}

} // namespace kiln
