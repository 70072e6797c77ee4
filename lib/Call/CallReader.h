//===- CallReader.h - reads the struct of a call for its family -----------===//
//
// The dispatch path of kiln_gemm and its like: from the caller's struct
// straight to the key of its plan and to the arguments of its launch, without
// text or Values in between. readProblem() explains the faults of a struct. A
// family states its struct in Stated.h.
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

/// The use of the addresses in a caller's struct.
enum class CallAddresses {
  Used,    ///< one call: they are checked, and their alignment counts
  Ignored, ///< a problem is described; they are not read
};

/// The use of a caller's struct.
struct CallUse {
  CallUse(CallAddresses addresses, int64_t largestBatch = 0)
      : addresses(addresses), largestBatch(largestBatch) {}

  CallAddresses addresses;
  /// For a problem with a range over its batch: the range's last value. Then
  /// strides are used although the struct may describe a single matrix.
  int64_t largestBatch;

  /// The most matrices of a launch if the struct has \p batch.
  int64_t mostBatches(int64_t batch) const {
    return std::max(batch, largestBatch);
  }
};

/// One call, or one problem, in the terms of its family.
struct FamilyCall {
  /// The problem's values, in its schema's order, as the family's
  /// canonicalise() makes them, scalars normalised. If a problem is only
  /// described, leading dimensions may still be as given.
  int64_t values[kMaxProblemFields];
  int fieldCount = 0;
  Arguments arguments;      ///< `problem` points to `values`
  bool isEmpty = false;     ///< there is nothing to compute
  bool wantsFrozen = false; ///< KILN_DETERMINISM_FROZEN_CHOICE

  /// The reader sets the operands that its family has.
  FamilyCall() : arguments(Arguments::Unset()) { arguments.problem = values; }
  FamilyCall(const FamilyCall &) = delete;
  FamilyCall &operator=(const FamilyCall &) = delete;

  llvm::ArrayRef<int64_t> fields() const {
    return llvm::ArrayRef<int64_t>(values, static_cast<size_t>(fieldCount));
  }
};

/// The names that a struct has for the fields of its family's schema, by their
/// index: "x.leading_dim". Empty for a field that the struct does not have.
using FieldNames = std::array<std::string, kMaxProblemFields>;

/// Its address identifies a type.
template <class Type> inline constexpr char kTypeTag = 0;

/// The reader of the struct of one family.
struct CallReader {
  kiln_family number;
  const char *argsType; ///< kTypeTag of the struct
  /// Reads the struct of one call into \p call, which is newly constructed.
  /// False if the struct breaks a rule; explain() names it. Rules of the
  /// problem are not checked, because a problem that breaks them is in no table
  /// of plans. Takes some 30 ns, 70 ns for the struct with the most fields.
  bool (*read)(const void *args, FamilyCall &call) noexcept;
  /// Like read(), with errors: succeeds if read() does, and if every value is
  /// in the range of \p schema, the family's. \p call is newly constructed as
  /// well. Errors: InvalidArgument, Unsupported, each naming the field.
  llvm::Error (*explain)(const void *args, CallUse use, const Schema &schema,
                         FamilyCall &call, FieldNames &names);
};

/// Returns the problem that \p args, the struct of \p family, describes,
/// scalars normalised; \p call receives the values that were read. Finds every
/// fault of the struct. Errors: InvalidArgument, Unsupported, naming the field
/// of the struct. Takes microseconds.
llvm::Expected<Problem> readProblem(const KernelFamily &family,
                                    const void *args, CallUse use,
                                    FamilyCall &call);

/// Returns the family of \p registry whose problems the struct of \p number
/// describes; null if there is none.
const KernelFamily *findFamily(const Registry &registry, kiln_family number);

/// A family and its reader.
struct CallTarget {
  const KernelFamily *family = nullptr; ///< null: none
  const CallReader *reader = nullptr;
};

/// The families of a registry by their numbers. Immutable.
class CallTable {
public:
  /// Errors: InvalidArgument if two families have one number. Points into \p
  /// registry.
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
