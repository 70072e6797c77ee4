//===- OperandCheck.cpp - what is wrong with the operands of a call -------===//
#include "Families/OperandCheck.h"

#include "Families/OperandReader.h"
#include "Families/ProblemFields.h"

#include <algorithm>

namespace kiln {

llvm::Error invalidValue(llvm::StringRef what, int64_t value) {
  return makeError(ErrorCode::InvalidArgument, "{} is {}", what, value);
}

llvm::Error notAvailable(llvm::StringRef what) {
  return makeError(ErrorCode::Unsupported, "{} is not available yet", what);
}

static llvm::Error checkAddress(const NamedOperand &named, bool isEmpty) {
  const kiln_operand &operand = *named.operand;
  uint64_t address = reinterpret_cast<uintptr_t>(operand.data);
  if (!address && named.isRead && !isEmpty)
    return makeError(ErrorCode::InvalidArgument, "{}.data is null", named.name);
  uint64_t alignment =
      std::max<uint64_t>(operand.alignment, elementBytesOf(named.type));
  if (address & (alignment - 1))
    return makeError(ErrorCode::InvalidArgument,
                     "{}.data {:#x} is not aligned to {} bytes", named.name,
                     address, alignment);
  return llvm::Error::success();
}

static llvm::Error checkLeadingDimension(const NamedOperand &named) {
  int64_t given = named.operand->leading_dim;
  if (given < 0 || given > kMaxLeadingDimension)
    return invalidValue(named.name + ".leading_dim", given);
  if (given != 0 && given < named.rowLength)
    return makeError(ErrorCode::InvalidArgument,
                     "{}.leading_dim is {}, less than a row of {}", named.name,
                     given, named.rowLength);
  return llvm::Error::success();
}

llvm::Error checkOperand(const NamedOperand &named, CallAddresses addresses,
                         bool isEmpty) {
  const kiln_operand &operand = *named.operand;
  const std::string &name = named.name;
  if (operand.struct_size != 0 && operand.struct_size != sizeof(operand))
    return makeError(ErrorCode::InvalidArgument,
                     "{}.struct_size is {}, {} or 0 is needed", name,
                     operand.struct_size, sizeof(operand));
  if (auto error = checkReserved(operand, name.c_str()))
    return error;
  if (operand.flags & KILN_OPERAND_POINTER_ARRAY)
    return notAvailable(name + ": an array of pointers");
  if (operand.flags & ~uint32_t(KILN_OPERAND_CONSTANT))
    return makeError(ErrorCode::Unsupported, "{}.flags {:#x} are unknown", name,
                     operand.flags);
  if (operand.scale && !named.mayScale)
    return notAvailable(name + ".scale");
  if (operand.batch_stride && !named.hasBatches)
    return makeError(ErrorCode::Unsupported,
                     "{}.batch_stride is {}, there are no batches", name,
                     operand.batch_stride);
  if (operand.batch_stride < 0)
    return makeError(ErrorCode::InvalidArgument,
                     "{}.batch_stride is {}, it may not be negative", name,
                     operand.batch_stride);
  if (!named.isVector)
    if (auto error = checkLeadingDimension(named))
      return error;
  if (operand.alignment & (operand.alignment - 1))
    return makeError(ErrorCode::InvalidArgument,
                     "{}.alignment is {}, no power of two", name,
                     operand.alignment);
  if (addresses == CallAddresses::Ignored)
    return llvm::Error::success();
  return checkAddress(named, isEmpty);
}

static llvm::Error checkWritten(const NamedOperand &output,
                                llvm::ArrayRef<NamedOperand> operands) {
  auto rowOf = [](const NamedOperand &named) {
    return resolveRow(named.operand->leading_dim, named.rowLength);
  };
  for (const NamedOperand &other : operands) {
    if (&other == &output || other.operand->data != output.operand->data)
      continue;
    if (output.mayBe.empty())
      return makeError(ErrorCode::InvalidArgument, "{} overlaps {}",
                       output.name, other.name);
    bool same = other.name == output.mayBe && rowOf(other) == rowOf(output) &&
                elementBytesOf(other.type) == elementBytesOf(output.type);
    if (!same)
      return makeError(ErrorCode::InvalidArgument,
                       "{} overlaps {}: it may be {} only, with one "
                       "leading_dim and width of elements",
                       output.name, other.name, output.mayBe);
  }
  return llvm::Error::success();
}

llvm::Error checkOperands(llvm::ArrayRef<NamedOperand> operands,
                          CallAddresses addresses, bool isEmpty) {
  for (const NamedOperand &operand : operands)
    if (auto error = checkOperand(operand, addresses, isEmpty))
      return error;
  if (addresses == CallAddresses::Ignored || isEmpty)
    return llvm::Error::success();
  for (const NamedOperand &operand : operands)
    if (operand.isWritten)
      if (auto error = checkWritten(operand, operands))
        return error;
  return llvm::Error::success();
}

llvm::Error checkType(llvm::StringRef name, const kiln_operand &operand,
                      kiln_dtype type, llvm::StringRef typeOf) {
  if (operand.type == KILN_DTYPE_NONE || operand.type == type)
    return llvm::Error::success();
  return makeError(ErrorCode::Unsupported, "{}.type {:#x} is not that of {}",
                   name, operand.type, typeOf);
}

llvm::Error checkAbsent(llvm::StringRef name, const kiln_operand &operand,
                        CallAddresses addresses) {
  if (addresses == CallAddresses::Ignored || !operand.data)
    return llvm::Error::success();
  return makeError(ErrorCode::InvalidArgument,
                   "{}.data is {:#x} without a type: set {}.type for the "
                   "operand to be used",
                   name, reinterpret_cast<uintptr_t>(operand.data), name);
}

llvm::Error checkExtent(llvm::StringRef name, int64_t value) {
  if (value < 0)
    return invalidValue(name, value);
  if (value > kMaxExtent)
    return makeError(ErrorCode::Unsupported, "{} is {}, at most {} works", name,
                     value, kMaxExtent);
  return llvm::Error::success();
}

llvm::Error checkRowSlots(uint32_t flags, kiln_determinism determinism,
                          int32_t maxSms, bool hasRowsDevice) {
  if (flags)
    return makeError(ErrorCode::Unsupported, "flags {:#x} are unknown", flags);
  if (determinism)
    return makeError(ErrorCode::Unsupported,
                     "determinism {} is not available yet", determinism);
  if (maxSms)
    return notAvailable("max_sms");
  if (hasRowsDevice)
    return notAvailable("rows_device");
  return llvm::Error::success();
}

} // namespace kiln
