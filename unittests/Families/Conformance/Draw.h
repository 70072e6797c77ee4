//===- Draw.h - problems and configs drawn from their schemas alone -------===//
//
// The problems and configs with which the conformance suite tests families. A
// schema lists the keys, the required ones, and their values. That is enough to
// draw problems, so a family is tested by its line in Families.def and writes
// no problems of its own. A problem that the family refuses is drawn again.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/FamilyTesting.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/StringRef.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

namespace kiln::conformance {

/// A generator that gives the same numbers everywhere: only its raw output is
/// used.
using Random = std::mt19937;

template <class T> T pick(Random &random, llvm::ArrayRef<T> choices) {
  return choices[random() % choices.size()];
}
inline bool oneIn(Random &random, unsigned period) {
  return random() % period == 0;
}

using testing::device;
using testing::h200;
using testing::registry;

/// A problem as typed by a user: keys and the texts of their values.
struct TypedProblem {
  llvm::StringRef family;
  std::vector<std::pair<std::string, std::string>> values;

  std::string text() const;
  bool has(llvm::StringRef key) const;
  /// A copy with \p key=\p value, which replaces an earlier value.
  TypedProblem with(llvm::StringRef key, llvm::StringRef value) const;
  TypedProblem without(llvm::StringRef key) const;
};

/// The canonical text of \p typed, or the message of its refusal.
std::string textOf(const KernelFamily &family, const TypedProblem &typed);

/// The size of the extents of drawn problems.
enum class Sizes {
  Small,   ///< at most 48: operands fit the host's memory many times
  Usual,   ///< at most 8192, some of them awkward
  Wide,    ///< 1 to a million, a few of each order of magnitude
  Extreme, ///< 0, 1, and up to the maxima of fields
};

/// A problem that any schema like this allows; its family may refuse it.
TypedProblem drawTyped(const Schema &schema, Sizes sizes, Random &random);

/// A drawn problem in its typed and its canonical form.
struct DrawnProblem {
  TypedProblem typed;
  Problem problem;
};

/// \p count problems that \p family accepts, the same ones each time; fails the
/// test case if it refuses nearly all.
std::vector<DrawnProblem> drawProblems(const KernelFamily &family, Sizes sizes,
                                       size_t count);
/// As drawProblems(), without empty problems: only others are ever planned.
std::vector<Problem> drawWork(const KernelFamily &family, Sizes sizes,
                              size_t count);

/// For each value of each signature field, and for each alignment, up to
/// \p count problems of Sizes::Wide with that value that are not empty. Values
/// that are nearly always refused have fewer problems.
std::vector<DrawnProblem> drawEachValue(const KernelFamily &family,
                                        size_t count, uint32_t seed = 11);

/// The cases of \p family in benchmarks/suites, each problem once.
std::vector<Problem> suiteProblems(const KernelFamily &family);

/// A config of any values that parse, including absurd ones.
Values drawConfig(const Schema &schema, Random &random);
/// \p config with one or two such values in place of its own.
Values disturb(const Values &config, Random &random);

/// The fault of the error \p message of \p family as one clear line; empty for
/// no fault.
std::string faultOfLine(llvm::StringRef message, llvm::StringRef family);

} // namespace kiln::conformance
