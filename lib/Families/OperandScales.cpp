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

void OperandScales::describe(int64_t extent, int64_t k,
                             OperandSpec &spec) const {
  spec.rows = rowsOf(extent);
  spec.cols = depthsOf(k);
  if (alongRows)
    std::swap(spec.rows, spec.cols);
  spec.leadingDimension = ld;
  // The problem's promise is not about them.
  spec.alignment = spec.misalignment = bytesOf(spec.type);
}

Field scaleKindField(bool mayBeNone) {
  llvm::ArrayRef<FieldName> names = kScaleNamesY;
  return enumField("scale_y", false, mayBeNone ? names : names.drop_front());
}

Field scaleOrderField() {
  static constexpr FieldName kNames[] = {{0, "cols"}, {1, "rows"}};
  return enumField("scale_order_y", false, kNames);
}

Field scaleLdField() { return leadingDimensionField("ldsy"); }

} // namespace kiln
