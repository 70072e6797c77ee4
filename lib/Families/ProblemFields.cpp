//===- ProblemFields.cpp --------------------------------------------------===//
#include "Families/ProblemFields.h"

#include "Call/Stated.h"
#include "Support/Error.h"
#include "Support/Format.h"

#include <llvm/Support/CheckedArithmetic.h>

#include <optional>
#include <string>

namespace kiln {

llvm::Error checkAlign(llvm::StringRef family, int64_t align,
                       int64_t elementBytes) {
  if (align & (align - 1))
    return makeError(ErrorCode::InvalidArgument,
                     "{}: align={} is not a power of two", family, align);
  if (align < elementBytes)
    return makeError(ErrorCode::InvalidArgument,
                     "{}: align={} is below the element's {} bytes", family,
                     align, elementBytes);
  return llvm::Error::success();
}

llvm::Error checkScalar(llvm::StringRef family, llvm::StringRef key,
                        double value) {
  if (fitsFp32(value))
    return llvm::Error::success();
  return makeError(ErrorCode::InvalidArgument,
                   "{}: {}={} is beyond the range of fp32", family, key, value);
}

llvm::Error checkMatrix(llvm::StringRef family, llvm::StringRef key,
                        int64_t rows, int64_t cols, int64_t ld, int64_t batch) {
  if (ld < cols)
    return makeError(ErrorCode::InvalidArgument,
                     "{}: {}={} is below the row length {}", family, key, ld,
                     cols);
  constexpr int64_t kMaxElements = int64_t(1) << 56;
  auto elements = llvm::checkedMul(rows, ld);
  auto all = elements ? llvm::checkedMul(*elements, batch) : std::nullopt;
  if (all && *all <= kMaxElements)
    return llvm::Error::success();
  std::string inBatch =
      batch == 1 ? "" : fmt::format(" in a batch of {}", batch);
  return makeError(ErrorCode::InvalidArgument,
                   "{}: {}={}: {} such rows{} exceed the address space", family,
                   key, ld, rows, inBatch);
}

} // namespace kiln
