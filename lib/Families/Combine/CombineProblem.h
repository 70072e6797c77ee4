//===- CombineProblem.h - a sum of choices, typed -------------------------===//
//
// The typed form of the values "combine tokens=.. cols=.. topk=.." and of their
// signature; include/kiln/moe.h has the terms.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Values.h"
#include "combine/CombineSignature.h"

namespace kiln {

/// The weights that a problem has. Values are in texts and keys.
enum class CombineWeights : int {
  None = 0,
  Present = 1, ///< rows of weight 0 are not read
  Applied = 2  ///< and the others are multiplied
};

/// Sizes and leading dimensions in elements. Derived defaults are resolved.
struct CombineProblem {
  int64_t tokens = 0, cols = 0, topK = 1;
  DType dtype = DType::BF16;
  CombineWeights weights = CombineWeights::None;
  bool shared = false, residual = false, norm = false;
  double epsilon = 0;
  int64_t ldx = 0, ldy = 0, ldShared = 0, ldResidual = 0, ldResidualOut = 0;
  int64_t align = 16;

  bool isEmpty() const { return tokens == 0 || cols == 0; }
  bool isWeighted() const { return weights != CombineWeights::None; }
  bool storesSum() const { return norm && residual; }
  int64_t choices() const { return tokens * topK; }
  /// Elements of a matrix of tokens.
  double elements() const { return double(tokens) * double(cols); }
};

/// Indices of the fields of combineProblemSchema(), in its order.
struct CombineField {
  enum : int {
    Tokens,
    Cols,
    TopK,
    DType,
    Weights,
    Shared,
    Residual,
    Norm,
    Epsilon,
    LdX,
    LdY,
    LdShared,
    LdResidual,
    LdResidualOut,
    Align,
    Count
  };
};

/// Operands in the order of Arguments::operands.
struct CombineOperand {
  enum : int {
    X,
    Y,
    Shared,
    Residual,
    ResidualOut,
    NormWeight,
    Weights,
    Count
  };
};

/// Scalars in the order of Arguments::scalars.
struct CombineScalar {
  enum : int { Epsilon };
};

/// Schema of the family's problems. Made at the first use and kept;
/// thread-safe.
const Schema &combineProblemSchema();

/// Reads the values of a problem in schema order, and resolves derived
/// defaults. Nanoseconds: called on every launch.
CombineProblem readCombineProblem(const int64_t *values);

CombineSignature signatureOf(const CombineProblem &problem);

/// Converts a signature to values, and back.
Values toValues(const CombineSignature &signature);
CombineSignature readCombineSignature(const Values &values);

/// A designated initialiser: "{.in = kiln::DType::BF16, ...}".
std::string initializerText(const CombineSignature &signature);

} // namespace kiln
