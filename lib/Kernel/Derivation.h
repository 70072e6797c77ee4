//===- Derivation.h - an estimate, step by step ---------------------------===//
//
// The content of `kiln explain`: the figures of a model (Model/Figure.h) in the
// order of an argument. A step has the formula that the model evaluated, a note
// why, and a verdict. The text of a formula is made from the figure itself, so
// it can be computed again, and a test does. The last step is the estimate's
// total.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Model/Figure.h"

#include <llvm/ADT/StringRef.h>
#include <llvm/Support/JSON.h>

#include <string>
#include <utility>
#include <vector>

namespace kiln {

/// A number with its unit, nanoseconds from 1000 on as microseconds.
std::string quantityText(double value, llvm::StringRef unit);

/// The words around a step's formula.
struct StepWords {
  std::string note = {};    ///< the reason that the formula does not give
  std::string verdict = {}; ///< the conclusion
  /// Bounds, by their names in estimates, that the verdict names as the limit
  /// of the whole kernel, and bounds that it excludes.
  llvm::StringRef blames = {}, clears = {};
};

/// One step of a derivation: a figure and its words.
struct DerivationStep {
  std::string section; ///< of the report; a part of a wave's
  Figure figure;
  StepWords words;

  llvm::StringRef name() const { return figure.formula().name; }
  llvm::StringRef unit() const { return figure.formula().unit; }
  double value() const { return figure.value(); }
};

/// A piece of a formula's text. At most one of its sources is set.
struct FormulaPiece {
  std::string text;
  int step = 0; ///< whose result it is
  /// The value without parts that it is. Lives as long as the formula.
  const Figure::Node *value = nullptr;
};

/// One addend of an estimate's total.
struct Addend {
  llvm::StringRef name;
  double ns;
};

/// The steps of one config's estimate, for one problem on one device. Steps
/// count from 1.
class Derivation {
public:
  /// Begins a section of the report.
  void begin(std::string section) { current = std::move(section); }

  /// Appends the results that \p result comes from and that have no step yet,
  /// then \p result, which is a named result. Returns its number. A result that
  /// has a step gets \p words instead of its own, unless they are empty.
  int add(const Figure &result, StepWords words = {});

  /// Gives the step called \p name, which there is, \p words.
  void amend(llvm::StringRef name, StepWords words);

  /// Appends the total of the estimate, in ns, which \p bound limits. Every
  /// addend of it has a name.
  void setTotal(const Figure &total, llvm::StringRef bound,
                StepWords words = {});

  /// The clock that the model grants the kernel's arithmetic, in GHz.
  Figure heldClock = 0;

  /// The addends of the total, which add up to it; and the one called \p name,
  /// 0 if it is missing.
  std::vector<Addend> addends() const;
  double addendOf(llvm::StringRef name) const;

  /// The addends of \p other less these, in the order of these; then what is
  /// only there.
  std::vector<Addend> changesTo(const Derivation &other) const;
  /// The first step called \p name, or null.
  const DerivationStep *find(llvm::StringRef name) const;

  /// The formula of step \p number: "wgmma = 1038 clk / clock 1.679 GHz [3] =
  /// 618.4 ns". Words and numbers are apart by blanks; results of other steps
  /// have their number in brackets.
  std::string formulaText(int number) const;
  /// The same in pieces, and those of a part of a formula.
  std::vector<FormulaPiece> formulaPieces(int number) const;
  std::vector<FormulaPiece> piecesOf(const Figure &part) const;
  /// The number of the step of \p result, or 0.
  int numberOf(const Figure &result) const;

  size_t size() const { return steps.size(); }
  const DerivationStep &operator[](int number) const;
  auto begin() const { return steps.begin(); }
  auto end() const { return steps.end(); }

  /// The step of the total, which there must be.
  const DerivationStep &total() const { return (*this)[totalNumber]; }

  /// {"steps": [{number, section, name, formula, expression, note, verdict,
  /// value, unit}]}. An expression is {step}, {value, unit, name, source} or
  /// {rule, of: [...]}, norms with their exponent.
  llvm::json::Object toJson() const;

private:
  void appendTo(std::vector<FormulaPiece> &pieces, const Figure &figure,
                int precedence) const;
  llvm::json::Value expressionOf(const Figure &figure, bool isRoot) const;

  int totalNumber = 0;
  std::string current;
  std::vector<DerivationStep> steps;
};

} // namespace kiln
