//===- Derivation.h - an estimate, step by step ---------------------------===//
//
// The content of `kiln explain`. A derivation is a calculation and not only
// text: a step has terms, a rule and a result, and names the earlier steps that
// its terms come from. The last step's result is the estimate's total, and the
// printed text is made from the same numbers, so a test can compute all of it
// again, and no sentence can differ from the calculation.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <llvm/ADT/StringRef.h>
#include <llvm/Support/JSON.h>

#include <string>
#include <vector>

namespace kiln {

/// The rule by which the result of a step follows from its terms.
enum class StepRule {
  Fact,     ///< no rule: a limit, a count, a share
  Sum,      ///< all terms, each times its count
  Max,      ///< the largest term
  Excess,   ///< the first minus the second, at least 0
  Quotient, ///< the first over the product of the others
  Norm,     ///< (sum of term ^ exponent) ^ (1 / exponent)
};
llvm::StringRef nameOf(StepRule rule);

/// A number in a step.
struct StepTerm {
  std::string name;
  double value = 0;
  llvm::StringRef unit = "ns"; ///< a literal
  double count = 1;            ///< its factor in a sum
  /// The number of the earlier step that it comes from: that step's result, or
  /// its term of the same name. 0: a given number.
  int step = 0;
};

/// One step of a derivation.
struct DerivationStep {
  std::string title = {};   ///< "register wall"
  std::string formula = {}; ///< "128 * 256 / 256 threads = 128 accumulators"
  std::string verdict = {}; ///< the conclusion
  llvm::json::Object values = {};
  StepRule rule = StepRule::Fact;
  std::vector<StepTerm> terms = {};
  llvm::StringRef unit = "ns"; ///< of the result; a literal
  double exponent = 1;         ///< of StepRule::Norm
  /// Bounds, by their names in estimates, that the verdict names as the limit
  /// of the whole kernel, and bounds that it excludes.
  llvm::StringRef blames = {}, clears = {};
  double result = 0; ///< evaluate(); filled by Derivation::add
};

/// The result of \p step by its rule; 0 for a fact.
double evaluate(const DerivationStep &step);

/// The step's calculation: "max(tensor 261.5 ns, L2 97.0 ns) = 261.5 ns". Terms
/// of earlier steps have their number: "(5)". Empty for a fact.
std::string calculationText(const DerivationStep &step);

/// A number with its unit, nanoseconds from 1000 on as microseconds.
std::string quantityText(double value, llvm::StringRef unit);

/// The steps of one config's estimate, for one problem on one device. Steps
/// count from 1.
class Derivation {
public:
  /// Appends \p step with its result and returns its number.
  int add(DerivationStep step);
  /// A step that is a calculation, and needs no words.
  int add(std::string title, StepRule rule, std::vector<StepTerm> terms,
          llvm::StringRef unit = "ns");

  /// The result of step \p number as a term of a later one, called \p name or,
  /// by default, like the step.
  StepTerm resultOf(int number, double count = 1,
                    llvm::StringRef name = {}) const;
  /// The term of step \p number called \p name, which it must have.
  StepTerm termOf(int number, llvm::StringRef name) const;

  size_t size() const { return steps.size(); }
  const DerivationStep &operator[](int number) const;
  auto begin() const { return steps.begin(); }
  auto end() const { return steps.end(); }

  /// {"steps": [{number, title, formula, verdict, values, rule, terms, result,
  /// unit}]}
  llvm::json::Object toJson() const;

private:
  std::vector<DerivationStep> steps;
};

} // namespace kiln
