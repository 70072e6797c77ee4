//===- Derivation.cpp -----------------------------------------------------===//
#include "Kernel/Derivation.h"

#include "Support/EnumName.h"
#include "Support/Format.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <cassert>
#include <cmath>

namespace kiln {

llvm::StringRef nameOf(StepRule rule) {
  using enum StepRule;
  static constexpr EnumName<StepRule> kNames[] = {
      {Fact, "fact"},     {Sum, "sum"},           {Max, "max"},
      {Excess, "excess"}, {Quotient, "quotient"}, {Norm, "norm"}};
  return nameIn(kNames, rule, "unknown");
}

double evaluate(const DerivationStep &step) {
  if (step.terms.empty())
    return 0;
  double first = step.terms.front().value, result = 0;
  switch (step.rule) {
  case StepRule::Fact:
    return 0;
  case StepRule::Sum:
    for (const StepTerm &term : step.terms)
      result += term.count * term.value;
    return result;
  case StepRule::Max:
    result = first;
    for (const StepTerm &term : step.terms)
      result = std::max(result, term.value);
    return result;
  case StepRule::Excess:
    assert(step.terms.size() == 2 && "one term beyond another");
    return std::max(0.0, first - step.terms.back().value);
  case StepRule::Quotient:
    result = first;
    for (const StepTerm &term : llvm::drop_begin(step.terms))
      result /= term.value;
    return result;
  case StepRule::Norm:
    for (const StepTerm &term : step.terms)
      result += std::pow(term.value, step.exponent);
    return std::pow(result, 1 / step.exponent);
  }
  return 0;
}

/// Four significant digits, without an exponent.
static std::string figureText(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e7)
    return fmt::format("{:.0f}", value);
  double magnitude = std::floor(std::log10(std::max(std::abs(value), 1e-6)));
  int digits = std::clamp(3 - static_cast<int>(magnitude), 0, 6);
  return fmt::format("{:.{}f}", value, digits);
}

std::string quantityText(double value, llvm::StringRef unit) {
  constexpr double kNsPerUs = 1000;
  if (unit == "ns" && std::abs(value) >= kNsPerUs)
    return figureText(value / kNsPerUs) + " us";
  if (unit.empty())
    return figureText(value);
  return fmt::format("{} {}", figureText(value), unit.str());
}

static std::string termText(const StepTerm &term) {
  std::string text;
  if (term.count != 1)
    text = figureText(term.count) + " x ";
  text += term.name + " " + quantityText(term.value, term.unit);
  if (term.step != 0)
    text += fmt::format(" ({})", term.step);
  return text;
}

std::string calculationText(const DerivationStep &step) {
  if (step.rule == StepRule::Fact)
    return "";
  llvm::StringRef separator = ", ";
  std::string begin, end;
  switch (step.rule) {
  case StepRule::Sum:
    separator = " + ";
    break;
  case StepRule::Quotient:
    separator = " / ";
    break;
  case StepRule::Excess:
    separator = " - ";
    begin = "max(0, ";
    end = ")";
    break;
  case StepRule::Norm:
    begin = fmt::format("{}-norm of (", figureText(step.exponent));
    end = ")";
    break;
  default:
    begin = "max(";
    end = ")";
  }
  std::string text = begin;
  for (const StepTerm &term : step.terms)
    text +=
        (&term == &step.terms.front() ? "" : separator.str()) + termText(term);
  return text + end + " = " + quantityText(step.result, step.unit);
}

//===----------------------------------------------------------------------===//
// Derivation
//===----------------------------------------------------------------------===//

int Derivation::add(DerivationStep step) {
  step.result = evaluate(step);
  steps.push_back(std::move(step));
  return static_cast<int>(steps.size());
}

int Derivation::add(std::string title, StepRule rule,
                    std::vector<StepTerm> terms, llvm::StringRef unit) {
  return add({.title = std::move(title),
              .rule = rule,
              .terms = std::move(terms),
              .unit = unit});
}

const DerivationStep &Derivation::operator[](int number) const {
  assert(number >= 1 && size_t(number) <= steps.size() && "no such step");
  return steps[static_cast<size_t>(number) - 1];
}

StepTerm Derivation::resultOf(int number, double count,
                              llvm::StringRef name) const {
  const DerivationStep &step = (*this)[number];
  return {name.empty() ? step.title : name.str(), step.result, step.unit, count,
          number};
}

StepTerm Derivation::termOf(int number, llvm::StringRef name) const {
  const DerivationStep &step = (*this)[number];
  auto term = llvm::find_if(
      step.terms, [&](const StepTerm &term) { return term.name == name; });
  assert(term != step.terms.end() && "no such term");
  return {term->name, term->value, term->unit, 1, number};
}

llvm::json::Object Derivation::toJson() const {
  llvm::json::Array list;
  for (const DerivationStep &step : steps) {
    llvm::json::Array terms;
    for (const StepTerm &term : step.terms) {
      llvm::json::Object object{
          {"name", term.name}, {"value", term.value}, {"unit", term.unit}};
      if (term.count != 1)
        object["count"] = term.count;
      if (term.step != 0)
        object["step"] = term.step;
      terms.push_back(std::move(object));
    }
    llvm::json::Object object{{"number", static_cast<int64_t>(list.size() + 1)},
                              {"title", step.title},
                              {"formula", step.formula},
                              {"verdict", step.verdict},
                              {"values", llvm::json::Object(step.values)},
                              {"rule", nameOf(step.rule)}};
    if (!terms.empty())
      object["terms"] = std::move(terms);
    if (step.rule != StepRule::Fact) {
      object["result"] = step.result;
      object["unit"] = step.unit;
    }
    list.push_back(std::move(object));
  }
  return llvm::json::Object{{"steps", std::move(list)}};
}

} // namespace kiln
