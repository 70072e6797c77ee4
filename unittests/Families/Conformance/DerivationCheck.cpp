#include "Families/Conformance/DerivationCheck.h"

#include "Support/Format.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <cmath>

namespace kiln::conformance {

/// Whether two numbers differ by rounding alone.
static bool isSame(double a, double b) {
  return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b));
}

/// Checks that a term comes from the step that it names: its result, or its
/// term.
static bool isFrom(const StepTerm &term, const DerivationStep &step) {
  if (isSame(term.value, step.result))
    return true;
  return llvm::any_of(step.terms, [&](const StepTerm &other) {
    return other.name == term.name && isSame(other.value, term.value);
  });
}

/// Checks that S_min, the verdict and the exposed time use one latency.
static bool agreesWithItself(const DerivationStep &wall) {
  auto needed = wall.values.getInteger("stages_needed");
  auto stages = wall.values.getInteger("stages");
  bool hides = wall.result == 0;
  bool saysSo = llvm::StringRef(wall.verdict).contains("hidden");
  return needed && stages && (*stages >= *needed) == hides && saysSo == hides;
}

std::string faultOf(const Derivation &derivation, const Estimate &estimate) {
  if (derivation.size() == 0)
    return "nothing is derived";
  int number = 0;
  for (const DerivationStep &step : derivation) {
    ++number;
    auto fault = [&](llvm::StringRef what) {
      return fmt::format("step {} '{}': {}", number, step.title, what);
    };
    if (step.title.empty())
      return fault("no title");
    if (!isSame(evaluate(step), step.result) || !std::isfinite(step.result))
      return fault("the result is not that of its terms");
    for (const StepTerm &term : step.terms)
      if (term.step < 0 || term.step >= number ||
          (term.step > 0 && !isFrom(term, derivation[term.step])))
        return fault("'" + term.name + "' is not of the step it names");
    if (step.rule != StepRule::Fact && calculationText(step).empty())
      return fault("its calculation is not told");
    if (!step.blames.empty() && step.blames != estimate.bound)
      return fault(
          ("blames " + step.blames + ", bound " + estimate.bound).str());
    if (step.clears == estimate.bound)
      return fault(("clears the bound " + estimate.bound).str());
    if (llvm::StringRef(step.title).starts_with("latency wall") &&
        !agreesWithItself(step))
      return fault("S_min, verdict and exposed time disagree");
  }
  if (derivation[number].blames != estimate.bound)
    return "the last step does not name the bound";
  const DerivationStep &last = derivation[number];
  double totalNs = last.unit == "ms" ? 1e6 * last.result : last.result;
  if (!isSame(totalNs, estimate.totalNs))
    return fmt::format("the steps make {} ns of an estimate of {} ns", totalNs,
                       estimate.totalNs);
  double sum = 0;
  for (const EstimateTerm &term : estimate.terms)
    sum += term.isAddend ? term.value : 0;
  if (!isSame(sum, estimate.totalNs))
    return fmt::format("the addends make {} ns of an estimate of {} ns", sum,
                       estimate.totalNs);
  return "";
}

} // namespace kiln::conformance
