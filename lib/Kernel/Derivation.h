//===- Derivation.h - an estimate, step by step, for people and tests -----===//
//
// What `kiln explain` tells. A derivation is a calculation and not only text: a
// step has terms, a rule and a result, and names the earlier steps that its
// terms come from. The last step's result is the estimate's total, and what is
// printed is made from the same numbers, so that a test can compute all of it
// once more, and no sentence can say another number than the calculation has.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <llvm/ADT/StringRef.h>
#include <llvm/Support/JSON.h>

#include <string>
#include <vector>

namespace kiln {

/// How the result of a step follows from its terms.
enum class StepRule {
  Fact,     ///< it has none: a limit, a count, a share
  Sum,      ///< all terms, each as often as it counts
  Max,      ///< the largest term
  Excess,   ///< what the first has beyond the second, at least 0
  Quotient, ///< the first over the product of the others
  Norm,     ///< (sum of term ^ exponent) ^ (1 / exponent)
};
llvm::StringRef nameOf(StepRule rule);

/// A number that a step is made of.
struct StepTerm {
  std::string name;
  double value = 0;
  llvm::StringRef unit = "ns"; ///< a literal
  double count = 1;            ///< how often a sum has it
  /// Number of the earlier step that it comes from: that step's result, or its
  /// term of the same name. 0: a given.
  int step = 0;
};

/// One step of a derivation.
struct DerivationStep {
  std::string title = {};   ///< "register wall"
  std::string formula = {}; ///< "128 * 256 / 256 threads = 128 accumulators"
  std::string verdict = {}; ///< what follows
  llvm::json::Object values = {};
  StepRule rule = StepRule::Fact;
  std::vector<StepTerm> terms = {};
  llvm::StringRef unit = "ns"; ///< of the result; a literal
  double exponent = 1;         ///< of StepRule::Norm
  /// Bounds by the names that estimates give them, as far as the verdict speaks
  /// of the whole kernel: what it says limits it, and what it says does not.
  llvm::StringRef blames = {}, clears = {};
  double result = 0; ///< evaluate(); filled by Derivation::add
};

/// The result of \p step by its rule; 0 for a fact.
double evaluate(const DerivationStep &step);

/// The step's calculation: "max(tensor 261.5 ns, L2 97.0 ns) = 261.5 ns".
/// Terms of earlier steps carry their number: "(5)". Empty for a fact.
std::string calculationText(const DerivationStep &step);

/// A number with its unit, nanoseconds from 1000 on as microseconds.
std::string quantityText(double value, llvm::StringRef unit);

/// How one config's estimate comes about, for one problem on one device. Steps
/// count from 1.
class Derivation {
public:
  /// Appends \p step with its result and answers its number.
  int add(DerivationStep step);

  /// The result of step \p number as a term of a later one, called \p name or
  /// as the step is.
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
