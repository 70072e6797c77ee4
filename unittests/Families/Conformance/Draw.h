//===- Draw.h - problems and configs drawn from their schemas alone -------===//
//
// What the conformance suite tests families with. A schema says which keys
// there are, which of them a problem must have and which values they take: that
// is enough to draw problems, so a family is tested by its line in Families.def
// and writes none of its own. What the family then refuses is drawn again.
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

/// The same numbers everywhere: only its raw output is used.
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

/// A problem as somebody types it: keys and the texts of their values.
struct TypedProblem {
  llvm::StringRef family;
  std::vector<std::pair<std::string, std::string>> values;

  std::string text() const;
  bool has(llvm::StringRef key) const;
  /// The same with \p key=\p value, in place of another value if it has one.
  TypedProblem with(llvm::StringRef key, llvm::StringRef value) const;
  TypedProblem without(llvm::StringRef key) const;
};

/// The canonical text of \p typed, or the message that refuses it.
std::string textOf(const KernelFamily &family, const TypedProblem &typed);

/// How large the extents of drawn problems are.
enum class Sizes {
  Small,   ///< at most 48: operands fit the host's memory many times
  Usual,   ///< at most 8192, awkward ones among them
  Wide,    ///< 1 to a million, a few of each order of magnitude
  Extreme, ///< 0, 1, and up to what fields hold
};

/// A problem that any schema like this may be asked for; its family may refuse
/// it.
TypedProblem drawTyped(const Schema &schema, Sizes sizes, Random &random);

/// A drawn problem and what its family made of it.
struct DrawnProblem {
  TypedProblem typed;
  Problem problem;
};

/// \p count problems that \p family accepts, the same ones each time; fails the
/// test case if it refuses nearly everything.
std::vector<DrawnProblem> drawProblems(const KernelFamily &family, Sizes sizes,
                                       size_t count);
/// The same of problems that are not empty: only these are ever planned.
std::vector<Problem> drawWork(const KernelFamily &family, Sizes sizes,
                              size_t count);

/// For each value of each field that signatures are made of, and for each
/// alignment, up to \p count problems of Sizes::Wide that have it and are not
/// empty. Of a value that is refused nearly always there are fewer.
std::vector<DrawnProblem> drawEachValue(const KernelFamily &family,
                                        size_t count, uint32_t seed = 11);

/// The cases of benchmarks/suites that are \p family's, each problem once.
std::vector<Problem> suiteProblems(const KernelFamily &family);

/// A config of any values that would parse, absurd ones included.
Values drawConfig(const Schema &schema, Random &random);
/// \p config with one or two such values in place of its own.
Values disturb(const Values &config, Random &random);

/// What is wrong with the error \p message of \p family as one clear line;
/// empty for nothing.
std::string faultOfLine(llvm::StringRef message, llvm::StringRef family);

} // namespace kiln::conformance
