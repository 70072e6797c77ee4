//===- OperandCheck.h - what is wrong with the operands of a call ---------===//
//
// The rules of types.h and rows.h that several structs share, each with the
// words that name the field. Off the dispatch path.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Call/CallReader.h"
#include "Call/StructAccess.h"

#include <string>
#include <vector>

namespace kiln {

/// One operand of a call with what it should be.
struct NamedOperand {
  std::string name;
  const kiln_operand *operand;
  kiln_dtype type;
  int64_t rowLength = 0;
  bool isVector = false; ///< packed: its leading dimension is ignored
  bool isRead = true;    ///< its address is used
  bool isWritten = false;
  /// Of one that is written: name of the one that it may be exactly.
  llvm::StringRef mayBe = {};
  bool mayScale = false; ///< its scale is looked at elsewhere
  bool hasBatches = false;
};

/// "{what} is {value}": InvalidArgument.
llvm::Error invalidValue(llvm::StringRef what, int64_t value);
/// "{what} is not available yet": Unsupported.
llvm::Error notAvailable(llvm::StringRef what);

/// Size, reserved space, flags, scale, leading dimension and address.
llvm::Error checkOperand(const NamedOperand &operand, CallAddresses addresses,
                         bool isEmpty);

/// Each of them, and that what is written begins where nothing else does.
llvm::Error checkOperands(llvm::ArrayRef<NamedOperand> operands,
                          CallAddresses addresses, bool isEmpty);

/// Succeeds when the operand, if it has a type, has \p type.
llvm::Error checkType(llvm::StringRef name, const kiln_operand &operand,
                      kiln_dtype type, llvm::StringRef typeOf);

/// Succeeds when \p operand, which the call does not have, has no address.
llvm::Error checkAbsent(llvm::StringRef name, const kiln_operand &operand,
                        CallAddresses addresses);

/// A size from 0 to what kernels count.
llvm::Error checkExtent(llvm::StringRef name, int64_t value);

/// The fields of the structs of rows.h that are slots.
llvm::Error checkRowSlots(uint32_t flags, kiln_determinism determinism,
                          int32_t maxSms, bool hasRowsDevice);

/// What all structs of rows.h have in common: sizes, slots, extents.
template <class Args>
llvm::Error checkRowArgs(const Args &args, const char *name) {
  if (auto error = checkInput(args, name))
    return error;
  if constexpr (requires { args.reserved0; })
    if (args.reserved0)
      return makeError(ErrorCode::Unsupported, "{}: a reserved field is set",
                       name);
  if (auto error = checkRowSlots(args.flags, args.determinism, args.max_sms,
                                 args.rows_device || args.rows_hint))
    return error;
  if (auto error = checkExtent("rows", args.rows))
    return error;
  return checkExtent("cols", args.cols);
}

} // namespace kiln
