//===- ChoiceOrder.cpp - the ways to a plan, in their order ---------------===//
#include "Choice/ChoiceOrder.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/Support/ErrorHandling.h>

namespace kiln {

llvm::ArrayRef<ChoiceStep> choiceOrder(kiln_mode mode, Haste haste) {
  using enum ChoiceStep;
  static constexpr ChoiceStep kTune[] = {Record, Portfolio, Decision, Trials,
                                         Close,  Pool,      Compile,  Existing};
  static constexpr ChoiceStep kPredict[] = {
      Record, Portfolio, Decision, Loaded, Close, Pool, Compile, Existing};
  static constexpr ChoiceStep kBackground[] = {Record, Portfolio, Decision,
                                               Trials, Compile,   Existing};
  static constexpr ChoiceStep kHaste[] = {Record, Portfolio, Decision, Existing,
                                          Compile};
  static constexpr ChoiceStep kStrict[] = {Record, Portfolio, Decision, Pool,
                                           Existing};
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

Effort effortOf(ChoiceStep step, Haste haste) {
  switch (step) {
  case ChoiceStep::Record:
  case ChoiceStep::Decision:
    return haste == Haste::Launch ? Effort::Existing : Effort::Compiled;
  case ChoiceStep::Trials:
  case ChoiceStep::Compile:
    return Effort::Compiled;
  case ChoiceStep::Loaded:
    return Effort::Loaded;
  case ChoiceStep::Portfolio:
  case ChoiceStep::Close:
  case ChoiceStep::Pool:
  case ChoiceStep::Existing:
    return Effort::Existing;
  }
  llvm_unreachable("unknown step");
}

bool isStored(ChoiceStep step) {
  return step == ChoiceStep::Record || step == ChoiceStep::Portfolio ||
         step == ChoiceStep::Decision;
}

bool needsRanking(ChoiceStep step, kiln_mode mode) {
  return step == ChoiceStep::Loaded || step == ChoiceStep::Close ||
         (step == ChoiceStep::Pool && hasStep(mode, ChoiceStep::Compile)) ||
         step == ChoiceStep::Compile || step == ChoiceStep::Existing;
}

} // namespace kiln
