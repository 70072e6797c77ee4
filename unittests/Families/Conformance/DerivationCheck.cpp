#include "Families/Conformance/DerivationCheck.h"

#include "Support/Format.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallVector.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

namespace kiln::conformance {

/// Whether two numbers differ by rounding alone.
static bool isSame(double a, double b) {
  return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b));
}

//===----------------------------------------------------------------------===//
// Printed formulas
//===----------------------------------------------------------------------===//

namespace {
/// Reads words and numbers that are apart by blanks:
///   sum     = product { (+|-) product }
///   product = operand { (x|/) operand }
///   operand = ( sum ) | max( sum { , sum } ) | min( .. ) | ceil( sum )
///           | norm( number ; sum { , sum } ) | { word } number [unit] [ref]
class FormulaReader {
public:
  explicit FormulaReader(llvm::StringRef text) {
    text.split(tokens, ' ', -1, /*KeepEmpty=*/false);
  }

  /// How far rounded operands may put the value off, in addition to a share of
  /// it, where large numbers are subtracted or whole ones are just exceeded.
  double slack() const { return roundedAway; }

  std::optional<double> read() {
    const double value = sum();
    return isBroken || at != tokens.size() ? std::nullopt
                                           : std::optional(value);
  }

private:
  llvm::StringRef peek() const {
    return at < tokens.size() ? tokens[at] : llvm::StringRef();
  }
  bool take(llvm::StringRef token) {
    if (peek() != token)
      return false;
    ++at;
    return true;
  }
  void expect(llvm::StringRef token) { isBroken |= !take(token); }

  double sum() {
    double value = product();
    for (;;)
      if (take("+"))
        value += product();
      else if (take("-")) {
        constexpr double kDigits = 1e-4;
        roundedAway = std::max(roundedAway, kDigits * std::abs(value));
        value -= product();
      } else
        return value;
  }

  double product() {
    double value = operand();
    for (;;)
      if (take("x"))
        value *= operand();
      else if (take("/"))
        value /= operand();
      else
        return value;
  }

  std::vector<double> list() {
    std::vector<double> values{sum()};
    while (take(","))
      values.push_back(sum());
    expect(")");
    return values;
  }

  double operand() {
    if (take("(")) {
      const double value = sum();
      expect(")");
      return value;
    }
    if (take("max("))
      return *llvm::max_element(list());
    if (take("min("))
      return *llvm::min_element(list());
    if (take("ceil(")) {
      const double value = list().front();
      constexpr double kRounded = 1e-3;
      if (std::abs(value - std::round(value)) < kRounded * std::max(value, 1.0))
        roundedAway = std::max(roundedAway, 1.0);
      return std::ceil(value);
    }
    if (take("norm("))
      return norm();
    return quantity();
  }

  double norm() {
    double exponent = 0, result = 0;
    isBroken |= peek().getAsDouble(exponent);
    ++at;
    expect(";");
    for (double value : list())
      result += std::pow(value, exponent);
    return std::pow(result, 1 / exponent);
  }

  double quantity() {
    static constexpr llvm::StringLiteral kOperators[] = {
        "+", "-", "x", "/", "(", ")", ",", ";", "max(", "min(", "ceil("};
    double value = 0;
    while (at < tokens.size() && peek().getAsDouble(value)) {
      isBroken |= llvm::is_contained(kOperators, peek());
      ++at;
      if (isBroken)
        return 0;
    }
    if (at == tokens.size()) {
      isBroken = true;
      return 0;
    }
    ++at;
    if (at < tokens.size() && !llvm::is_contained(kOperators, peek()) &&
        !peek().starts_with("["))
      value *= tokens[at++] == "us" ? 1000 : 1;
    if (peek().starts_with("["))
      ++at;
    return value;
  }

  llvm::SmallVector<llvm::StringRef, 32> tokens;
  size_t at = 0;
  bool isBroken = false;
  double roundedAway = 0;
};
} // namespace

PrintedFormula readFormula(llvm::StringRef text) {
  const auto [start, result] = text.rsplit(" = ");
  const auto [name, formula] = start.split(" = ");
  PrintedFormula read;
  read.printed = FormulaReader(result).read().value_or(std::nan(""));
  FormulaReader reader(formula.empty() ? result : formula);
  read.computed = reader.read();
  read.slack = reader.slack();
  return read;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

/// The value of \p figure, computed from all that it comes from; \p changed has
/// another value.
static double computed(const Figure &figure,
                       const Figure::Node *changed = nullptr,
                       double value = 0) {
  const Figure::Node &node = figure.formula();
  if (&node == changed)
    return value;
  llvm::SmallVector<double, 8> parts;
  for (const Figure &part : node.parts)
    parts.push_back(computed(part, changed, value));
  return evaluate(node, parts);
}

static std::string faultOfStep(const Derivation &derivation, int number,
                               const Estimate &estimate) {
  const DerivationStep &step = derivation[number];
  const StepWords &words = step.words;
  if (step.name().empty())
    return "no name";
  if (!std::isfinite(step.value()) ||
      !isSame(computed(step.figure), step.value()))
    return "the result is not that of its parts";
  const std::string text = derivation.formulaText(number);
  const PrintedFormula read = readFormula(text);
  if (!read.computed)
    return "cannot be read: " + text;
  constexpr double kPrinted = 1e-3;
  if (std::abs(*read.computed - read.printed) >
      read.slack + kPrinted * std::abs(read.printed))
    return fmt::format("the text computes {}: {}", *read.computed, text);
  if (!words.blames.empty() && words.blames != estimate.bound)
    return fmt::format("blames {}, bound {}", words.blames, estimate.bound);
  if (words.clears == estimate.bound)
    return fmt::format("clears the bound {}", estimate.bound);
  // "Floor" is said of what no config of the problem could be faster than.
  if (step.name().starts_with("floor") &&
      step.value() > estimate.totalNs * (1 + kPrinted))
    return fmt::format("a floor of {} ns above a total of {} ns", step.value(),
                       estimate.totalNs);
  if (step.name().starts_with("share") && step.unit().empty() &&
      step.name() != "share of a further wave" && step.value() > 1 + kPrinted)
    return fmt::format("a share of {}", step.value());
  return "";
}

std::string faultOf(const Derivation &derivation, const Estimate &estimate) {
  if (derivation.size() == 0)
    return "nothing is derived";
  for (int number = 1; number <= static_cast<int>(derivation.size()); ++number)
    if (std::string fault = faultOfStep(derivation, number, estimate);
        !fault.empty())
      return fmt::format("step {} '{}': {}", number, derivation[number].name(),
                         fault);
  const DerivationStep &total = derivation.total();
  if (total.words.blames != estimate.bound)
    return "the total does not name the bound";
  if (!isSame(total.value(), estimate.totalNs))
    return fmt::format("the steps make {} ns of an estimate of {} ns",
                       total.value(), estimate.totalNs);
  double sum = 0;
  for (const Addend &addend : derivation.addends())
    sum += addend.ns;
  if (!isSame(sum, estimate.totalNs))
    return fmt::format("the addends make {} ns of an estimate of {} ns", sum,
                       estimate.totalNs);
  return "";
}

//===----------------------------------------------------------------------===//
// Mutations
//===----------------------------------------------------------------------===//

namespace {
/// A value that a total comes from: the result whose line shows it, and whether
/// a maximum, a minimum, a rounding or a norm between them may hide it, or one
/// between it and the total.
struct Leaf {
  const Figure *result;
  bool hidesInResult, hides;
};
} // namespace

static bool mayHide(FigureRule rule) {
  using enum FigureRule;
  return rule == Max || rule == Min || rule == Ceiling || rule == Norm;
}

/// Whether \p part of \p node is multiplied by 0.
static bool isTimesZero(const Figure::Node &node, const Figure &part) {
  return (node.rule == FigureRule::Product ||
          node.rule == FigureRule::Quotient) &&
         llvm::any_of(node.parts, [&](const Figure &other) {
           return &other != &part && other.value() == 0;
         });
}

static void collect(const Figure &figure, Leaf leaf,
                    std::map<const Figure::Node *, Leaf> &leaves) {
  const Figure::Node &node = figure.formula();
  if (node.rule == FigureRule::Value) {
    if (node.source == FigureSource::Literal)
      return;
    // A value that enters twice may cancel itself.
    if (const auto [known, isNew] = leaves.insert({&node, leaf}); !isNew)
      known->second.hides = known->second.hidesInResult = true;
    return;
  }
  if (node.isResult)
    leaf = {&figure, false, leaf.hides};
  for (const Figure &part : node.parts) {
    const bool isHidden = mayHide(node.rule) || isTimesZero(node, part);
    collect(
        part,
        {leaf.result, leaf.hidesInResult || isHidden, leaf.hides || isHidden},
        leaves);
  }
}

/// Whether a floor holds the total: then the addends below it change nothing.
static bool isHeld(const Derivation &derivation) {
  return llvm::any_of(derivation.addends(), [](const Addend &addend) {
    return addend.name.contains("beyond") && addend.ns > 0;
  });
}

std::string faultOfMutations(const Derivation &derivation) {
  const Figure &total = derivation.total().figure;
  const bool isFloor = isHeld(derivation);
  std::map<const Figure::Node *, Leaf> leaves;
  collect(total, {&total, false, false}, leaves);
  for (const auto &[node, leaf] : leaves) {
    const Figure &result = *leaf.result;
    const double changed = 3 * node->value;
    auto changes = [&, node = node](const Figure &figure) {
      constexpr double kRounding = 1e-14;
      return node->value == 0 ||
             std::abs(computed(figure, node, changed) - figure.value()) >
                 kRounding * std::abs(figure.value());
    };
    if (!leaf.hidesInResult && !changes(result))
      return fmt::format("{} {} does not change {}", node->name, node->value,
                         result.formula().name);
    if (!leaf.hides && !isFloor && !changes(total))
      return fmt::format("{} {} changes nothing", node->name, node->value);
    // The line of its result shows it.
    auto step = llvm::find_if(derivation, [&](const DerivationStep &step) {
      return kiln::isSame(step.figure, result);
    });
    if (step == derivation.end())
      return fmt::format("{} has no line", result.formula().name);
    const std::string text =
        derivation.formulaText(static_cast<int>(step - derivation.begin()) + 1);
    const std::string shown =
        fmt::format("{} {}", node->name, quantityText(node->value, node->unit));
    if (!llvm::StringRef(text).contains(shown))
      return fmt::format("'{}' does not show {}", text, shown);
  }
  return "";
}

} // namespace kiln::conformance
