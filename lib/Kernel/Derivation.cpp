//===- Derivation.cpp -----------------------------------------------------===//
#include "Kernel/Derivation.h"

#include "Support/Format.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <cassert>
#include <cmath>

namespace kiln {

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// Five significant digits, without an exponent.
static std::string figureText(double value) {
  constexpr double kExact = 1e15;
  if (value == std::floor(value) && std::abs(value) < kExact)
    return fmt::format("{:.0f}", value);
  double magnitude = std::floor(std::log10(std::max(std::abs(value), 1e-9)));
  int digits = std::clamp(4 - static_cast<int>(magnitude), 0, 12);
  return fmt::format("{:.{}f}", value, digits);
}

std::string quantityText(double value, llvm::StringRef unit) {
  constexpr double kNsPerUs = 1000;
  if (unit == "ns" && std::abs(value) >= kNsPerUs)
    return figureText(value / kNsPerUs) + " us";
  if (unit.empty())
    return figureText(value);
  return fmt::format("{} {}", figureText(value), unit);
}

namespace {
/// How strongly a rule holds its parts together.
enum Precedence { kSum = 0, kProduct = 1, kOperand = 2 };

/// The text of a rule: the words before, between and behind its parts.
struct RuleText {
  std::string before;
  llvm::StringRef between, behind;
  int precedence, ofParts;
};
} // namespace

static RuleText ruleText(const Figure::Node &node) {
  using enum FigureRule;
  switch (node.rule) {
  case Value:
    break;
  case Sum:
    return {"", " + ", "", kSum, kSum};
  case Difference:
    return {"", " - ", "", kSum, kProduct};
  case Product:
    return {"", " x ", "", kProduct, kProduct};
  case Quotient:
    return {"", " / ", "", kProduct, kOperand};
  case Max:
    return {"max( ", " , ", " )", kOperand, kSum};
  case Min:
    return {"min( ", " , ", " )", kOperand, kSum};
  case Norm:
    return {fmt::format("norm( {} ; ", figureText(node.exponent)), " , ", " )",
            kOperand, kSum};
  case Ceiling:
    return {"ceil( ", "", " )", kOperand, kSum};
  }
  return {};
}

static std::string namedText(const Figure::Node &node) {
  std::string text = quantityText(node.value, node.unit);
  return node.name.empty() ? text : fmt::format("{} {}", node.name, text);
}

void Derivation::appendTo(std::vector<FormulaPiece> &pieces,
                          const Figure &figure, int precedence) const {
  const Figure::Node &node = figure.formula();
  if (const int number = numberOf(figure)) {
    pieces.push_back({fmt::format("{} [{}]", namedText(node), number), number});
    return;
  }
  if (node.rule == FigureRule::Value) {
    pieces.push_back({namedText(node), 0, &node});
    return;
  }
  const RuleText rule = ruleText(node);
  const bool hasBrackets = rule.precedence < precedence;
  pieces.push_back({(hasBrackets ? "( " : "") + rule.before});
  for (const Figure &part : node.parts) {
    const bool isFirst = &part == node.parts.begin();
    if (!isFirst)
      pieces.push_back({rule.between.str()});
    // The first part of a quotient or a difference needs no brackets.
    appendTo(pieces, part,
             isFirst ? std::min(rule.ofParts, rule.precedence) : rule.ofParts);
  }
  pieces.push_back({rule.behind.str() + (hasBrackets ? " )" : "")});
}

std::vector<FormulaPiece> Derivation::piecesOf(const Figure &part) const {
  std::vector<FormulaPiece> pieces;
  appendTo(pieces, part, kSum);
  llvm::erase_if(pieces, [](const auto &piece) { return piece.text.empty(); });
  return pieces;
}

std::vector<FormulaPiece> Derivation::formulaPieces(int number) const {
  const Figure::Node &node = (*this)[number].figure.formula();
  const std::string result = quantityText(node.value, node.unit);
  std::vector<FormulaPiece> pieces{{node.name.str() + " = "}};
  if (node.rule == FigureRule::Value) {
    pieces.push_back({result, 0, &node});
    return pieces;
  }
  Figure::Node own = node; // without its number
  own.isResult = false;
  llvm::append_range(pieces,
                     piecesOf(Figure(std::make_shared<Figure::Node>(own))));
  pieces.push_back({" = " + result});
  return pieces;
}

std::string Derivation::formulaText(int number) const {
  std::string text;
  for (const FormulaPiece &piece : formulaPieces(number))
    text += piece.text;
  return text;
}

//===----------------------------------------------------------------------===//
// Derivation
//===----------------------------------------------------------------------===//

int Derivation::numberOf(const Figure &result) const {
  if (!result.formula().isResult)
    return 0;
  auto step = llvm::find_if(steps, [&](const DerivationStep &step) {
    return isSame(step.figure, result);
  });
  return step == steps.end() ? 0 : static_cast<int>(step - steps.begin()) + 1;
}

int Derivation::add(const Figure &result, StepWords words) {
  if (const int number = numberOf(result)) {
    if (!words.note.empty() || !words.verdict.empty())
      steps[static_cast<size_t>(number) - 1].words = std::move(words);
    return number;
  }
  const Figure::Node &node = result.formula();
  auto addParts = [&](auto &self, const Figure::Node &of) -> void {
    for (const Figure &part : of.parts)
      if (part.formula().isResult) {
        if (numberOf(part) == 0)
          add(part);
      } else {
        self(self, part.formula());
      }
  };
  addParts(addParts, node);
  if (!node.isResult)
    return 0;
  steps.push_back({current, result, std::move(words)});
  return static_cast<int>(steps.size());
}

void Derivation::amend(llvm::StringRef name, StepWords words) {
  for (DerivationStep &step : steps)
    if (step.name() == name) {
      step.words = std::move(words);
      return;
    }
  assert(false && "no such step");
}

void Derivation::setTotal(const Figure &total, llvm::StringRef bound,
                          StepWords words) {
  words.blames = bound;
  if (words.verdict.empty())
    words.verdict = fmt::format("bound by {}", bound);
  totalNumber = add(total, std::move(words));
}

std::vector<Addend> Derivation::addends() const {
  std::vector<Addend> addends;
  if (totalNumber == 0)
    return addends;
  const Figure::Node &total = (*this)[totalNumber].figure.formula();
  for (const Figure &part : total.parts) {
    // "3 x between tiles" is called by the factor that has a name.
    const Figure::Node *called = &part.formula();
    for (const Figure &factor : part.formula().parts)
      if (called->name.empty() && factor.formula().unit == "ns")
        called = &factor.formula();
    assert(!called->name.empty() && "an addend without a name");
    addends.push_back({called->name, part.value()});
  }
  return addends;
}

double Derivation::addendOf(llvm::StringRef name) const {
  for (const Addend &addend : addends())
    if (addend.name == name)
      return addend.ns;
  return 0;
}

std::vector<Addend> Derivation::changesTo(const Derivation &other) const {
  std::vector<Addend> changes;
  for (const auto &[name, ns] : addends())
    changes.push_back({name, other.addendOf(name) - ns});
  for (const Addend &addend : other.addends())
    if (llvm::none_of(changes, [&](const Addend &change) {
          return change.name == addend.name;
        }))
      changes.push_back(addend);
  return changes;
}

const DerivationStep *Derivation::find(llvm::StringRef name) const {
  auto step = llvm::find_if(
      steps, [&](const DerivationStep &step) { return step.name() == name; });
  return step == steps.end() ? nullptr : &*step;
}

const DerivationStep &Derivation::operator[](int number) const {
  assert(number >= 1 && size_t(number) <= steps.size() && "no such step");
  return steps[static_cast<size_t>(number) - 1];
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

llvm::json::Value Derivation::expressionOf(const Figure &figure,
                                           bool isRoot) const {
  const Figure::Node &node = figure.formula();
  if (const int number = isRoot ? 0 : numberOf(figure))
    return llvm::json::Object{{"step", number}};
  if (node.rule == FigureRule::Value) {
    llvm::json::Object object{{"value", node.value}};
    if (!node.name.empty())
      object["name"] = node.name;
    if (!node.unit.empty())
      object["unit"] = node.unit;
    object["source"] = nameOf(node.source);
    return object;
  }
  llvm::json::Array parts;
  for (const Figure &part : node.parts)
    parts.push_back(expressionOf(part, false));
  llvm::json::Object object{{"rule", nameOf(node.rule)},
                            {"of", std::move(parts)}};
  if (node.rule == FigureRule::Norm)
    object["exponent"] = node.exponent;
  return object;
}

llvm::json::Object Derivation::toJson() const {
  llvm::json::Array list;
  int number = 0;
  for (const DerivationStep &step : steps) {
    ++number;
    list.push_back(
        llvm::json::Object{{"number", number},
                           {"section", step.section},
                           {"name", step.name()},
                           {"formula", formulaText(number)},
                           {"expression", expressionOf(step.figure, true)},
                           {"note", step.words.note},
                           {"verdict", step.words.verdict},
                           {"value", step.value()},
                           {"unit", step.unit()}});
  }
  return llvm::json::Object{{"steps", std::move(list)}};
}

} // namespace kiln
