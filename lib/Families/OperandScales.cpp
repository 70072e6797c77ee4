//===- OperandScales.cpp --------------------------------------------------===//
#include "Families/OperandScales.h"

#include "Families/ProblemFields.h"
#include "Model/MathUtil.h"

#include <utility>

namespace kiln {

int64_t OperandScales::rowsOf(int64_t extent) const {
  const int size = scaledRows(kind);
  return size ? ceilDiv(extent, size) : 1;
}
int64_t OperandScales::depthsOf(int64_t k) const {
  const int size = scaledDepth(kind);
  return size ? ceilDiv(k, size) : 1;
}

llvm::Error OperandScales::checkLines(llvm::StringRef family,
                                      llvm::StringRef key, int64_t extent,
                                      int64_t k, int64_t batch) const {
  if (!isBlockScale(kind))
    return llvm::Error::success();
  int64_t rows = rowsOf(extent), depths = depthsOf(k);
  if (alongRows)
    std::swap(rows, depths);
  return checkMatrix(family, key, rows, depths, ld, batch);
}

} // namespace kiln
