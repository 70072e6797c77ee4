//===- FamilyCall.h - a struct of kiln.h as its family knows it -----------===//
//
// The dispatch path of kiln_gemm and its like: from the caller's struct
// straight to the key of its plan and to the arguments of its launch, with
// neither text nor record in between. Each family has a reader, which must be
// quick, and a check, which must name what is wrong; all else is shared.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Operand.h"
#include "kiln/kiln.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace kiln {

/// What the addresses of a caller's struct are for.
enum class CallAddresses {
  Used,    ///< one call: they are checked, and their alignment counts
  Ignored, ///< a problem is described
};

/// What a caller's struct is read for.
struct CallUse {
  CallUse(CallAddresses addresses, int64_t largestBatch = 0)
      : addresses(addresses), largestBatch(largestBatch) {}

  CallAddresses addresses;
  /// Of a problem with a range over its batch: the range's last value. Strides
  /// are used although the struct may say that there is one matrix.
  int64_t largestBatch;

  /// The most matrices of a launch, if the struct says \p batch.
  int64_t mostBatches(int64_t batch) const {
    return std::max(batch, largestBatch);
  }
};

/// One call, or one problem, as the family knows it.
struct FamilyCall {
  static constexpr int kMaxFields = 24;
  /// Of the problem's record, in its schema's order: what the family's
  /// canonicalise() makes of it, scalars normalised. Where a problem is only
  /// described, leading dimensions may still be as they were given.
  int64_t values[kMaxFields];
  int fieldCount = 0;
  Arguments arguments;  ///< `problem` points to `values`
  bool isEmpty = false; ///< nothing to compute

  FamilyCall() { arguments.problem = values; }
  FamilyCall(const FamilyCall &) = delete;
  FamilyCall &operator=(const FamilyCall &) = delete;

  llvm::ArrayRef<int64_t> fields() const {
    return llvm::ArrayRef<int64_t>(values, static_cast<size_t>(fieldCount));
  }
};

/// The functions of kiln.h that launch what a struct describes.
enum class CallKind : int {
  Gemm,
  Elementwise,
  Reduce,
  Softmax,
  LayerNorm,
  RmsNorm,
  Quantize,
  Transpose,
};
inline constexpr int kCallKinds = static_cast<int>(CallKind::Transpose) + 1;

/// How the struct of one kind of call is understood.
struct CallReader {
  kiln_family number;
  llvm::StringLiteral family; ///< its name in the registry
  /// Reads the struct. False if anything is wrong with it that a look into the
  /// table of plans would not show: check() says what. Some 30 ns.
  bool (*read)(const void *args, CallUse use, FamilyCall &call) noexcept;
  /// Succeeds when all of the struct is as kiln.h asks and this version can do
  /// it. Errors: InvalidArgument, Unsupported, each naming the field.
  llvm::Error (*check)(const void *args, CallUse use);
};

extern const CallReader kCallReaders[kCallKinds];

inline const CallReader &readerOf(CallKind kind) {
  return kCallReaders[static_cast<int>(kind)];
}

/// The kind of call whose struct describes problems of \p family; nullopt:
/// none.
std::optional<CallKind> callKindOf(kiln_family family);

} // namespace kiln
