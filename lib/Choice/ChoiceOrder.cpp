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
  switch (mode) {
  case KILN_MODE_TUNE:
    return kTune;
  case KILN_MODE_PREDICT:
    return kPredict;
  case KILN_MODE_BACKGROUND:
    return haste == Haste::Launch ? llvm::ArrayRef<ChoiceStep>(kHaste)
                                  : kBackground;
  case KILN_MODE_STRICT:
    return kStrict;
  }
  llvm_unreachable("EngineConfig accepts no other mode");
}

bool hasStep(kiln_mode mode, ChoiceStep step) {
  return llvm::is_contained(choiceOrder(mode), step);
}

bool triesFirst(kiln_mode mode) { return mode == KILN_MODE_TUNE; }

bool asksSpace(kiln_mode mode) {
  return mode == KILN_MODE_TUNE || mode == KILN_MODE_PREDICT;
}

Effort effortOf(ChoiceStep step) {
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
