//===- GemmOperands.h - the operand table of matrix products --------------===//
#pragma once

#include "Kernel/Operand.h"

namespace kiln {

struct GemmProblem;

/// The operands of \p problem, in the order of GemmOperand: an operand that the
/// problem does not have is marked so.
OperandTable gemmOperands(const GemmProblem &problem);

/// An operand with a matrix for each of the batch; sizes in elements.
struct GemmMatrix {
  llvm::StringRef name;
  int slot = -1;
  OperandRole role = OperandRole::In;
  DType type = DType::FP32;
  int64_t rows = 0, cols = 0, ld = 0;
  bool isPresent = true;
};

/// Makes \p matrix operand \p index of \p table and returns it. Its data are
/// for elements of a product: scales and integers have their own.
OperandSpec &describeMatrix(const GemmProblem &p, int index,
                            const GemmMatrix &matrix, OperandTable &table);

/// Gives \p spec \p rows rows where \p p has groups. Groups with ends share the
/// one matrix.
void shareAmongGroups(const GemmProblem &p, int64_t rows, OperandSpec &spec);

/// The address of \p spec is a multiple of its element, and of no more.
void alignToElement(OperandSpec &spec);

/// Powers of two around 1/4: neighbours differ, by factors of 2 and more.
void fillWithScales(OperandSpec &spec);

} // namespace kiln
