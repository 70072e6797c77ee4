//===- Figure.cpp ---------------------------------------------------------===//
#include "Model/Figure.h"

#include "Support/EnumName.h"

#include <cassert>
#include <utility>

namespace kiln {

llvm::StringRef nameOf(FigureRule rule) {
  using enum FigureRule;
  static constexpr EnumName<FigureRule> kNames[] = {
      {Value, "value"},     {Sum, "sum"},           {Difference, "difference"},
      {Product, "product"}, {Quotient, "quotient"}, {Max, "max"},
      {Min, "min"},         {Norm, "norm"},         {Ceiling, "ceiling"}};
  return nameIn(kNames, rule, "unknown");
}

llvm::StringRef nameOf(FigureSource source) {
  using enum FigureSource;
  static constexpr EnumName<FigureSource> kNames[] = {{Literal, "literal"},
                                                      {Work, "work"},
                                                      {Device, "device"},
                                                      {Fitted, "fitted"}};
  return nameIn(kNames, source, "unknown");
}

double norm(double exponent, std::initializer_list<double> parts) {
  // pow() takes most of an estimate: exponents of the models need less of it.
  double sum = 0;
  if (exponent == 2) {
    for (double part : parts)
      sum += part * part;
    return std::sqrt(sum);
  }
  for (double part : parts)
    sum += exponent == 5 ? part * part * (part * part) * part
                         : std::pow(part, exponent);
  return std::pow(sum, 1 / exponent);
}

double evaluate(const Figure::Node &node, llvm::ArrayRef<double> parts) {
  using enum FigureRule;
  if (node.rule == Value)
    return node.value;
  assert(!parts.empty() && "a rule without parts");
  double result = parts.front();
  switch (node.rule) {
  case Value:
    break;
  case Difference:
    return parts[0] - parts[1];
  case Quotient:
    return parts[0] / parts[1];
  case Ceiling:
    return std::ceil(result);
  case Norm:
    result = std::pow(result, node.exponent);
    for (double part : parts.drop_front())
      result += std::pow(part, node.exponent);
    return std::pow(result, 1 / node.exponent);
  case Sum:
    for (double part : parts.drop_front())
      result += part;
    break;
  case Product:
    for (double part : parts.drop_front())
      result *= part;
    break;
  case Max:
    return *std::max_element(parts.begin(), parts.end());
  case Min:
    return *std::min_element(parts.begin(), parts.end());
  }
  return result;
}

bool isSame(const Figure &a, const Figure &b) {
  const Figure::Node &x = a.formula(), &y = b.formula();
  if (&x == &y)
    return true;
  return x.value == y.value && x.rule == y.rule && x.name == y.name &&
         x.unit == y.unit && x.source == y.source && x.exponent == y.exponent &&
         x.parts.size() == y.parts.size() &&
         std::equal(x.parts.begin(), x.parts.end(), y.parts.begin(), isSame);
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

Figure::Figure(double value) {
  node = std::make_shared<Node>(Node{.value = value});
}

double Figure::value() const { return node->value; }

static Figure combine(FigureRule rule, llvm::ArrayRef<Figure> parts,
                      double exponent = 1) {
  Figure::Node node{.rule = rule, .exponent = exponent};
  node.parts.assign(parts.begin(), parts.end());
  llvm::SmallVector<double, 8> values;
  for (const Figure &part : parts)
    values.push_back(part.value());
  node.value = evaluate(node, values);
  return Figure(std::make_shared<Figure::Node>(std::move(node)));
}

/// Combines two figures by a rule of any number of parts; a figure that follows
/// from that rule and has no name of its own gives its parts instead.
static Figure chain(FigureRule rule, const Figure &a, const Figure &b) {
  llvm::SmallVector<Figure, 4> parts;
  for (const Figure &figure : {a, b}) {
    const Figure::Node &node = figure.formula();
    if (node.rule == rule && node.name.empty())
      parts.append(node.parts.begin(), node.parts.end());
    else
      parts.push_back(figure);
  }
  return combine(rule, parts);
}

/// Whether \p figure is the literal \p value, which a rule leaves as it is.
static bool isLiteral(const Figure &figure, double value) {
  const Figure::Node &node = figure.formula();
  return node.rule == FigureRule::Value && node.name.empty() &&
         node.value == value;
}

Figure operator+(const Figure &a, const Figure &b) {
  if (isLiteral(a, 0))
    return b;
  return isLiteral(b, 0) ? a : chain(FigureRule::Sum, a, b);
}
Figure operator-(const Figure &a, const Figure &b) {
  return combine(FigureRule::Difference, {a, b});
}
Figure operator*(const Figure &a, const Figure &b) {
  if (isLiteral(a, 1))
    return b;
  return isLiteral(b, 1) ? a : chain(FigureRule::Product, a, b);
}
Figure operator/(const Figure &a, const Figure &b) {
  return isLiteral(b, 1) ? a : combine(FigureRule::Quotient, {a, b});
}

/// \p parts without literals of 0.
static llvm::SmallVector<Figure, 8>
presentOf(std::initializer_list<Figure> parts) {
  llvm::SmallVector<Figure, 8> present;
  for (const Figure &part : parts)
    if (!isLiteral(part, 0))
      present.push_back(part);
  return present;
}

Figure largest(std::initializer_list<Figure> parts) {
  // Beside times, 0 is an absent one.
  const auto present = presentOf(parts);
  const bool areTimes =
      std::all_of(present.begin(), present.end(),
                  [](const Figure &part) { return part.value() >= 0; });
  if (present.empty() || !areTimes)
    return combine(FigureRule::Max, parts);
  return combine(FigureRule::Max, present);
}
Figure least(std::initializer_list<Figure> parts) {
  return combine(FigureRule::Min, parts);
}
Figure ceiling(const Figure &number) {
  return combine(FigureRule::Ceiling, {number});
}

Figure excess(const Figure &a, const Figure &b) {
  return combine(FigureRule::Max, {Figure(0), a - b});
}

Figure norm(double exponent, std::initializer_list<Figure> parts) {
  return combine(FigureRule::Norm, presentOf(parts), exponent);
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

Figure named(const Figure &number, llvm::StringLiteral name,
             llvm::StringLiteral unit) {
  // A figure that has a name keeps it, as the only part of this one.
  Figure::Node node = number.formula().name.empty()
                          ? number.formula()
                          : combine(FigureRule::Sum, {number}).formula();
  node.name = name;
  node.unit = unit;
  node.isResult = true;
  return Figure(std::make_shared<Figure::Node>(std::move(node)));
}

Figure makeValue(double value, FigureSource source, llvm::StringRef name,
                 llvm::StringRef unit) {
  return Figure(std::make_shared<Figure::Node>(Figure::Node{
      .source = source, .value = value, .name = name, .unit = unit}));
}

template <class Member>
static Figure deviceFigure(const DeviceModel &device, Member member) {
  for (const DeviceField &field : deviceFields())
    if (const Member *known = std::get_if<Member>(&field.member);
        known && *known == member)
      return makeValue(static_cast<double>(device.*member),
                       FigureSource::Device, field.key, field.unit);
  assert(false && "every value of a device is a field");
  return {};
}

Figure figureOf(const DeviceModel &device, double DeviceModel::*member) {
  return deviceFigure(device, member);
}
Figure figureOf(const DeviceModel &device, int64_t DeviceModel::*member) {
  return deviceFigure(device, member);
}

} // namespace kiln
