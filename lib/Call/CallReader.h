//===- CallReader.h - a struct of kiln.h as its family knows it -----------===//
//
// The dispatch path of kiln_gemm and its like: from the caller's struct
// straight to the key of its plan and to the arguments of its launch, with
// neither text nor record in between. Each family has a reader, which must be
// quick, and a check, which must name what is wrong; all else is shared.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Registry.h"
#include "kiln/kiln.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/Error.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

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
  /// Of the problem's record, in its schema's order: what the family's
  /// canonicalise() makes of it, scalars normalised. Where a problem is only
  /// described, leading dimensions may still be as they were given.
  int64_t values[kMaxProblemFields];
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

/// How the struct of one family is understood.
struct CallReader {
  kiln_family number;
  /// Reads the struct. False if anything is wrong with it that a look into the
  /// table of plans would not show: check() says what. Some 30 ns.
  bool (*read)(const void *args, CallUse use, FamilyCall &call) noexcept;
  /// Succeeds when all of the struct is as kiln.h asks and this version can do
  /// it. Errors: InvalidArgument, Unsupported, each naming the field.
  llvm::Error (*check)(const void *args, CallUse use);
};

/// The reader of one struct. Functions of a family without batches take the
/// CallAddresses of a CallUse alone.
template <class Args, auto readArgs, auto checkArgs>
constexpr CallReader makeCallReader(kiln_family number) {
  return {number,
          [](const void *given, CallUse use, FamilyCall &call) noexcept {
            const Args &args = *static_cast<const Args *>(given);
            if constexpr (std::is_invocable_v<decltype(readArgs), const Args &,
                                              CallUse, FamilyCall &>)
              return readArgs(args, use, call);
            else
              return readArgs(args, use.addresses, call);
          },
          [](const void *given, CallUse use) -> llvm::Error {
            const Args &args = *static_cast<const Args *>(given);
            if constexpr (std::is_invocable_v<decltype(checkArgs), const Args &,
                                              CallUse>)
              return checkArgs(args, use);
            else
              return checkArgs(args, use.addresses);
          }};
}

/// The family of \p registry whose problems the struct of \p number describes;
/// null: none.
const KernelFamily *findFamily(const Registry &registry, kiln_family number);

/// A family and its reader.
struct CallTarget {
  const KernelFamily *family = nullptr; ///< null: none
  const CallReader *reader = nullptr;
};

/// The families of a registry by their numbers. Immutable.
class CallTable {
public:
  explicit CallTable(const Registry &registry);

  CallTarget find(kiln_family number) const noexcept {
    auto index = static_cast<size_t>(static_cast<uint32_t>(number));
    return index < targets.size() ? targets[index] : CallTarget();
  }

private:
  std::vector<CallTarget> targets;
};

} // namespace kiln
