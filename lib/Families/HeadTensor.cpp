//===- HeadTensor.cpp -----------------------------------------------------===//
#include "Families/HeadTensor.h"

#include "Support/Error.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>

namespace kiln {

/// The product, cut to the size of any address space.
static int64_t boundedProduct(int64_t a, int64_t b) {
  constexpr int64_t kBeyond = int64_t(1) << 60;
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? kBeyond
                                                : std::min(product, kBeyond);
}

HeadStrides resolveStrides(const HeadStrides &given, int64_t tokens,
                           int64_t heads, int64_t cols) {
  HeadStrides strides = given;
  if (strides.token == 0)
    strides.token = heads * cols;
  if (strides.head == 0)
    strides.head = cols;
  if (strides.batch == 0)
    strides.batch = std::max(boundedProduct(tokens, strides.token),
                             boundedProduct(heads, strides.head));
  else if (strides.batch == kSharedStride)
    strides.batch = 0;
  return strides;
}

/// Whether memory has one sequence, whatever the batch.
static bool isShared(const HeadTensor &tensor) {
  return !tensor.hasBatch || tensor.strides.batch == 0;
}

llvm::Error checkTensor(const Schema &schema, const HeadTensor &tensor) {
  auto keyOf = [&](int field) { return schema.fields()[field].key; };
  const HeadStrides &strides = tensor.strides;
  if (strides.token < tensor.cols)
    return makeError(ErrorCode::InvalidArgument,
                     "{}: {}={} is below the row length {}", schema.name(),
                     keyOf(tensor.field), strides.token, tensor.cols);
  struct Dimension {
    int field;
    int64_t count, stride;
  };
  Dimension dimensions[] = {
      {tensor.field + 1, tensor.heads, strides.head},
      {tensor.field, tensor.tokens, strides.token},
      {tensor.field + 2, isShared(tensor) ? 1 : tensor.batch, strides.batch}};
  llvm::stable_sort(dimensions, [](const auto &a, const auto &b) {
    return a.stride < b.stride;
  });
  double span = double(tensor.cols);
  for (const Dimension &dimension : dimensions) {
    if (dimension.count <= 1)
      continue;
    if (double(dimension.stride) < span)
      return makeError(ErrorCode::InvalidArgument,
                       "{}: {}={} is below the {} elements that it steps over",
                       schema.name(), keyOf(dimension.field), dimension.stride,
                       static_cast<int64_t>(span));
    span += double(dimension.count - 1) * double(dimension.stride);
  }
  constexpr double kMaxElements = double(int64_t(1) << 56);
  if (span <= kMaxElements)
    return llvm::Error::success();
  return makeError(ErrorCode::InvalidArgument,
                   "{}: {}={}: {} tokens of {} heads exceed the address space",
                   schema.name(), keyOf(tensor.field), strides.token,
                   tensor.tokens, tensor.heads);
}

void resetStrides(const HeadTensor &tensor, Values &values) {
  auto resolved = [&](const HeadStrides &given) {
    return resolveStrides(given, tensor.tokens, tensor.heads, tensor.cols);
  };
  HeadStrides kept = tensor.strides;
  if (kept.token == resolved({}).token)
    kept.token = 0;
  if (kept.head == resolved({}).head || tensor.heads == 1)
    kept.head = 0;
  if (kept.batch == resolved({kept.token, kept.head}).batch || !tensor.hasBatch)
    kept.batch = 0;
  else if (kept.batch == 0)
    kept.batch = kSharedStride;
  values.set(tensor.field, kept.token);
  values.set(tensor.field + 1, kept.head);
  if (tensor.hasBatchField)
    values.set(tensor.field + 2, kept.batch);
}

int alignmentOf(int64_t promise, std::initializer_list<RowSteps> tensors) {
  int64_t bits = 16 | promise;
  for (const RowSteps &tensor : tensors)
    bits |= (tensor.cols | tensor.strides.token | tensor.strides.head |
             tensor.strides.batch) *
            bytesOf(tensor.type);
  return static_cast<int>(bits & -bits);
}

} // namespace kiln
