//===- CallReader.h - a struct of kiln.h as its family knows it -----------===//
//
// The dispatch path of kiln_gemm and its like: from the caller's struct
// straight to the key of its plan and to the arguments of its launch, with
// neither text nor record in between. What is wrong with a struct is found out
// by readProblem(), which has the words. A family states its struct in
// Stated.h.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Registry.h"
#include "kiln/kiln.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/Error.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
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

  /// The reader sets the operands that its family has.
  FamilyCall() : arguments(Arguments::Unset()) { arguments.problem = values; }
  FamilyCall(const FamilyCall &) = delete;
  FamilyCall &operator=(const FamilyCall &) = delete;

  llvm::ArrayRef<int64_t> fields() const {
    return llvm::ArrayRef<int64_t>(values, static_cast<size_t>(fieldCount));
  }
};

/// What a struct calls the fields of its family's records, by their index:
/// "x.leading_dim". Empty: what no field of the struct is.
using FieldNames = std::array<std::string, kMaxProblemFields>;

/// Its address stands for a type.
template <class Type> inline constexpr char kTypeTag = 0;

/// How the struct of one family is understood.
struct CallReader {
  kiln_family number;
  const char *argsType; ///< kTypeTag of the struct
  /// Reads the struct of one call into \p call, which is as it was constructed.
  /// False if the struct breaks a rule, and explain() says which. Rules of the
  /// problem are not checked: one that breaks them is in no table of plans.
  /// Some 30 ns; 70 ns for the struct with the most fields.
  bool (*read)(const void *args, FamilyCall &call) noexcept;
  /// The same with words: succeeds where read() does, and where no single value
  /// is beyond what \p schema, the family's, allows. \p call is as constructed
  /// here, too. Errors: InvalidArgument, Unsupported, each naming the field.
  llvm::Error (*explain)(const void *args, CallUse use, const Schema &schema,
                         FamilyCall &call, FieldNames &names);
};

/// The problem that \p args, the struct of \p family, describes, scalars
/// normalised; \p call receives what it was made of. Errors: InvalidArgument,
/// Unsupported, naming the field of the struct: all that is wrong with it.
/// Microseconds.
llvm::Expected<Problem> readProblem(const KernelFamily &family,
                                    const void *args, CallUse use,
                                    FamilyCall &call);

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
  /// Errors: InvalidArgument where two families have one number. Points into
  /// \p registry.
  static llvm::Expected<CallTable> create(const Registry &registry);

  CallTarget find(kiln_family number) const noexcept {
    auto index = static_cast<size_t>(static_cast<uint32_t>(number));
    return index < targets.size() ? targets[index] : CallTarget();
  }

private:
  CallTable() = default;

  std::vector<CallTarget> targets;
};

} // namespace kiln
