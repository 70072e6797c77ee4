//===- Figure.h - numbers that know how they came about -------------------===//
//
// A model of a kernel's time is written once, as ordinary arithmetic over a
// type of numbers. Over `double` it is an estimate: fast, and nothing is kept.
// Over `Figure` the same lines are a derivation: each result keeps the formula
// that it comes from, down to values of the device, the problem, the config and
// constants that were fitted. So a formula that is printed is the one that was
// evaluated, and no factor can be missing from it.
//
//   template <class N> N wgmmaNs(const DeviceModel &device, double clocks) {
//     N clock = named(fitted<N>(kHeld, "held share") *
//                         deviceValue<N>(device, &DeviceModel::smClockMHz) /
//                         1000, "clock", "GHz");
//     return named(given<N>(clocks, "wgmma", "clk") / clock, "wgmma", "ns");
//   }
//
// Control flow is not kept: a comparison looks at values.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Device/DeviceModel.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringRef.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <type_traits>

namespace kiln {

/// How a figure follows from its parts.
enum class FigureRule : int32_t {
  Value,      ///< it has no parts
  Sum,        ///< of all parts
  Difference, ///< the first minus the second
  Product,    ///< of all parts
  Quotient,   ///< the first over the second
  Max,        ///< the largest part
  Min,        ///< the least part
  Norm,       ///< (sum of part ^ exponent) ^ (1 / exponent)
  Ceiling,    ///< the part, rounded up
};
llvm::StringRef nameOf(FigureRule rule);

/// Where the value of a figure without parts comes from.
enum class FigureSource : int32_t {
  Literal, ///< a number of the formula: 2 flop for a multiply-add
  Work,    ///< follows from problem and config
  Device,  ///< a value of the DeviceModel, named by its key
  Fitted,  ///< a constant that was fitted to measured times
};
llvm::StringRef nameOf(FigureSource source);

/// A number with its formula. A value: copies share what they come from.
class Figure {
public:
  struct Node;

  /// A literal of a formula, which has no name.
  Figure(double value = 0);
  explicit Figure(std::shared_ptr<const Node> node) : node(std::move(node)) {}

  double value() const;
  const Node &formula() const { return *node; }

private:
  std::shared_ptr<const Node> node;
};

/// A figure's formula: a rule over parts, or a value.
struct Figure::Node {
  FigureRule rule = FigureRule::Value;
  FigureSource source = FigureSource::Literal; ///< of a value
  double value = 0;
  double exponent = 1; ///< of FigureRule::Norm
  /// Literals; empty: it has none.
  llvm::StringRef name = {}, unit = {};
  /// Whether it is a result of its own, which derivations tell in a line and
  /// other formulas refer to.
  bool isResult = false;
  llvm::SmallVector<Figure, 2> parts = {};
};

/// Whether two figures have the same formula of the same values.
bool isSame(const Figure &a, const Figure &b);

/// The value of \p node by its rule, given those of its parts.
double evaluate(const Figure::Node &node, llvm::ArrayRef<double> parts);

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

/// The numbers that a model may be written over.
template <class N>
concept Number = std::same_as<N, double> || std::same_as<N, Figure>;

Figure operator+(const Figure &a, const Figure &b);
Figure operator-(const Figure &a, const Figure &b);
Figure operator*(const Figure &a, const Figure &b);
Figure operator/(const Figure &a, const Figure &b);
inline Figure &operator+=(Figure &a, const Figure &b) { return a = a + b; }
inline Figure &operator*=(Figure &a, const Figure &b) { return a = a * b; }
inline auto operator<=>(const Figure &a, const Figure &b) {
  return a.value() <=> b.value();
}
inline bool operator==(const Figure &a, const Figure &b) {
  return a.value() == b.value();
}

inline double valueOf(double number) { return number; }
inline double valueOf(const Figure &number) { return number.value(); }

inline double largest(std::initializer_list<double> parts) {
  return std::max(parts);
}
inline double least(std::initializer_list<double> parts) {
  return std::min(parts);
}
inline double ceiling(double number) { return std::ceil(number); }
Figure largest(std::initializer_list<Figure> parts);
Figure least(std::initializer_list<Figure> parts);
Figure ceiling(const Figure &number);

/// \p a beyond \p b, at least 0.
inline double excess(double a, double b) { return std::max(0.0, a - b); }
Figure excess(const Figure &a, const Figure &b);

/// Times that run side by side, of which none is reached while another is
/// close. Parts of 0 add nothing.
double norm(double exponent, std::initializer_list<double> parts);
Figure norm(double exponent, std::initializer_list<Figure> parts);

/// norm() for exponents that square roots reach: pow() would take most of an
/// estimate.
template <int kExponent> double rootNorm(std::initializer_list<double> parts) {
  static_assert(kExponent == 4 || kExponent == 8);
  double sum = 0;
  for (double part : parts) {
    const double square = part * part, fourth = square * square;
    sum += kExponent == 4 ? fourth : fourth * fourth;
  }
  const double root = std::sqrt(std::sqrt(sum));
  return kExponent == 4 ? root : std::sqrt(root);
}
template <int kExponent> Figure rootNorm(std::initializer_list<Figure> parts) {
  return norm(kExponent, parts);
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

/// \p number as a result called \p name, a literal like \p unit.
inline double named(double number, llvm::StringLiteral, llvm::StringLiteral) {
  return number;
}
Figure named(const Figure &number, llvm::StringLiteral name,
             llvm::StringLiteral unit);

/// A value without parts.
Figure makeValue(double value, FigureSource source, llvm::StringRef name,
                 llvm::StringRef unit);

/// A value that follows from problem and config.
template <Number N>
N given(double value, llvm::StringLiteral name, llvm::StringLiteral unit = "") {
  if constexpr (std::same_as<N, double>)
    return value;
  else
    return makeValue(value, FigureSource::Work, name, unit);
}

/// A constant that was fitted to measured times.
template <Number N>
N fitted(double value, llvm::StringLiteral name,
         llvm::StringLiteral unit = "") {
  if constexpr (std::same_as<N, double>)
    return value;
  else
    return makeValue(value, FigureSource::Fitted, name, unit);
}

/// The value of \p device that \p member names, called by its key.
Figure figureOf(const DeviceModel &device, double DeviceModel::*member);
Figure figureOf(const DeviceModel &device, int64_t DeviceModel::*member);
template <Number N, class Member>
N deviceValue(const DeviceModel &device, Member DeviceModel::*member) {
  if constexpr (std::same_as<N, double>)
    return static_cast<double>(device.*member);
  else
    return figureOf(device, member);
}

} // namespace kiln
