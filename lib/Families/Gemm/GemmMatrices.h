//===- GemmMatrices.h - A, B and D in memory ------------------------------===//
//
// The part of a GEMM problem that says where the rows of its matrices are, and
// how its operands are aligned.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Gemm/GemmFields.h"
#include "Kernel/Operand.h"
#include "Kernel/Values.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/Error.h>

#include <cstdint>

namespace kiln {

struct GemmProblem;

/// Leading dimensions in elements.
struct GemmMatrices {
  int64_t lda = 0, ldb = 0, ldd = 0;
  /// Every pointer and batch stride is a multiple of this many bytes, and of
  /// its own element's.
  int64_t align = 16;

  static void addFields(llvm::MutableArrayRef<Field> fields);
  template <class P> static void read(const int64_t *values, P &p);
  static llvm::Error check(const GemmProblem &p);
  static void reset(const GemmProblem &p, Values &values);
  static void describe(const GemmProblem &p, OperandTable &table);
};

template <class P> void GemmMatrices::read(const int64_t *values, P &p) {
  p.lda = valueOr(values, GemmField::Lda, p.colsA());
  p.ldb = valueOr(values, GemmField::Ldb, p.colsB());
  p.ldd = valueOr(values, GemmField::Ldd, p.outCols());
  p.align = values[GemmField::Align];
}

} // namespace kiln
