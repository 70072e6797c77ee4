//===- PoolDraws.h - the problems that a pool is judged on ----------------===//
//
// A kernel depends on its signature and config and on no size. So a pool of a
// signature can serve problems of all sizes, and be made before any is known. A
// family defines the sizes by a list of fields, each with the distribution that
// it is drawn from.
//
// A draw is the same in all processes, compilers and standard libraries:
// distributions are integer arithmetic on the bits of std::mt19937_64. The
// logarithm of a log-uniform value is linear between powers of two, so that it
// and its inverse are exact.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Problem.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace kiln {

class KernelFamily;

/// The distribution of one field: log-uniform between two bounds.
struct DrawnField {
  int field = -1;            ///< its index in the problem's schema
  int64_t low = 1, high = 1; ///< both included
  /// Values are multiples of it. In a quarter of the draws of an extent they
  /// are any values, if the signature stays the same.
  int64_t step = 1;
  /// The percentage of draws that set it; otherwise the field keeps the
  /// problem's value, or has that of factorOf or addendTo.
  unsigned percent = 100;
  /// The fields, drawn before, by whose value it is multiplied, or to whose
  /// value it is added; -1: none.
  int factorOf = -1, addendTo = -1;
};

/// The problems on which the pools of a family are judged.
struct PoolDraws {
  /// Fields that are fixed for a layer, in the order in which they are drawn.
  llvm::SmallVector<DrawnField, 8> layer;
  /// Fields that vary between calls: the first one over a grid, the others at
  /// random.
  llvm::SmallVector<DrawnField, 8> extents;
  /// Problems that move more bytes are not drawn.
  double mostBytes = double(int64_t(1) << 33);

  bool empty() const { return extents.empty(); }
};

/// The problems of one signature, from which draws are made. A value; points to
/// the family only.
class PoolSubject {
public:
  /// Reads \p text, "gemm dtype=bf16 layout=NT": a problem's text without the
  /// fields that are drawn. The pool's signature has the greatest alignment.
  /// Errors: InvalidArgument (a drawn field is stated, or the text is wrong),
  /// Unsupported (the family has no pools).
  static llvm::Expected<PoolSubject> parse(const KernelFamily &family,
                                           llvm::StringRef text);
  /// The subject for the signature of \p described, whose drawn fields are
  /// ignored. Errors: those of KernelFamily::canonicalise; Unsupported.
  static llvm::Expected<PoolSubject> of(const KernelFamily &family,
                                        Values described);

  /// One subject for each signature that the same fields have, depending on the
  /// alignment of drawn fields; this one first. Takes some milliseconds.
  std::vector<PoolSubject> allAlignments() const;

  const KernelFamily &family() const { return *owner; }
  const Values &signature() const { return itsSignature; }
  /// "gemm dtype=bf16 layout=NT": the family's name and the fields that are not
  /// drawn.
  std::string text() const;

  using Random = std::mt19937_64;
  /// Draws a layer: values whose dynamic extents are not set. nullopt if none
  /// of some thousand draws has the signature.
  std::optional<Values> drawLayer(Random &random) const;
  /// The problem of \p layer at place \p place of \p places of the grid of its
  /// first extent, with the other extents drawn. nullopt if it is too large, or
  /// has another signature.
  std::optional<Problem> drawAt(const Values &layer, size_t place,
                                size_t places, Random &random) const;

private:
  PoolSubject() = default;
  void drawField(const DrawnField &drawn, int64_t value, bool isAny,
                 Random &random, Values &values) const;
  std::optional<Problem> complete(Values values) const;
  Values drawAnyLayer(Random &random) const;

  const KernelFamily *owner = nullptr;
  PoolDraws draws;
  Values described; ///< drawn fields are unset
  Values itsSignature;
};

/// The value at place \p place of \p places from \p low to \p high, with equal
/// distances of logarithms; low + 0.5 is rounded up.
int64_t gridValue(int64_t low, int64_t high, size_t place, size_t places);

} // namespace kiln
