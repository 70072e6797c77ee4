//===- LaunchArguments.cpp ------------------------------------------------===//
#include "Call/LaunchArguments.h"

#include "Call/Overlap.h"
#include "Call/Stated.h"
#include "Call/StructAccess.h"

#include <algorithm>
#include <cassert>

namespace kiln {

/// Whether the matrices of \p output overlap in a launch that has it as \p
/// given. Strides of planes are fields of the problem, which canonicalise()
/// checks.
static bool runsIntoItself(const OperandSpec &output,
                           const OperandArgument &given) {
  return output.isWritten() && output.planes == 1 && output.batch > 1 &&
         output.bytes() > 0 &&
         static_cast<uint64_t>(given.batchStride) <
             matrixElements(output.rows, output.cols, given.leadingDimension);
}

OperandList operandsOf(const ProblemSpec &spec, const Problem &problem) {
  OperandList list;
  OperandTable table = spec.family->operands(problem);
  int64_t promised = spec.family->promisedAlignment(problem);
  Arguments defaults;
  spec.readDefaults(problem.values.array(), defaults);
  for (size_t i = 0; i < table.operands.size(); ++i) {
    const OperandSpec &operand = table.operands[i];
    if (!operand.present)
      continue;
    CallOperand added;
    added.name = operand.name;
    added.slot = static_cast<uint32_t>(operand.slot < 0 ? i : operand.slot);
    added.index = static_cast<int>(i);
    added.type = operand.type;
    added.role = operand.role;
    added.mayBe = operand.mayBe;
    added.bytes = static_cast<uint64_t>(operand.bytes());
    added.alignment = static_cast<uint32_t>(
        std::max<int64_t>(operand.alignment ? operand.alignment : promised,
                          bytesOf(operand.type)));
    added.mayRunIntoItself = runsIntoItself(operand, defaults.operands[i]);
    list.push_back(added);
  }
  return list;
}

/// The value of the extent of range \p index: that of \p given or, if it has
/// none, the described problem's.
static int64_t extentOf(const kiln_arguments &given, const ProblemSpec &spec,
                        uint32_t index) {
  if (given.extents && index < given.extent_count)
    return given.extents[index];
  return spec.described[spec.ranges[index].field];
}

llvm::Error checkArguments(const kiln_arguments *given,
                           const ProblemSpec &spec) {
  if (!given)
    return makeError(ErrorCode::InvalidArgument, "arguments is null");
  if (auto error = checkInput(*given, "kiln_arguments"))
    return error;
  if (given->flags & ~uint32_t(KILN_CALL_DEPENDENT) || given->reserved0)
    return makeError(ErrorCode::Unsupported,
                     "arguments: flags {:#x} are unknown",
                     given->flags & ~uint32_t(KILN_CALL_DEPENDENT));
  if (given->operand_count && !given->operands)
    return makeError(ErrorCode::InvalidArgument,
                     "arguments: operands is null, with a count of {}",
                     given->operand_count);
  if (given->scalars && given->scalar_count > Arguments::kMaxScalars)
    return makeError(ErrorCode::InvalidArgument, "arguments: {} scalars",
                     given->scalar_count);
  if (given->extents && given->extent_count > spec.ranges.size())
    return makeError(ErrorCode::InvalidArgument,
                     "arguments: {} extents, the problem has {} ranges",
                     given->extent_count, spec.ranges.size());
  for (uint32_t i = 0; i < spec.ranges.size(); ++i) {
    const ExtentRange &range = spec.ranges[i];
    int64_t value = extentOf(*given, spec, i);
    if (range.first <= value && value <= range.last)
      continue;
    bool isGiven = given->extents && i < given->extent_count;
    return makeError(ErrorCode::InvalidArgument,
                     "arguments: extent {} is {}{}, its range is {} to {}", i,
                     isGiven ? "" : "not given, and in the problem ", value,
                     range.first, range.last);
  }
  return llvm::Error::success();
}

ExtentPoint extentsOf(const kiln_arguments &given, const ProblemSpec &spec) {
  ExtentPoint extents;
  for (uint32_t i = 0; i < spec.ranges.size(); ++i)
    extents.push_back(extentOf(given, spec, i));
  return extents;
}

/// Whether a launch may have \p value for the scalar \p field, which its
/// problem uses.
static bool isAllowed(const Field &field, double value) {
  return fitsFp32(value) &&
         (!field.isPositive || value > 0 || (value == 0 && field.alwaysUsed));
}

/// Reads scalars by value and, if they have a slot, by device address. A scalar
/// that the problem does not use stays 0: its operand is not read.
static llvm::Error readScalars(const kiln_arguments &given,
                               const ProblemSpec &spec,
                               llvm::ArrayRef<int64_t> values,
                               Arguments &arguments) {
  llvm::ArrayRef<Field> fields = spec.family->problemSchema().fields();
  uint32_t scalar = 0;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].role != FieldRole::Scalar)
      continue;
    bool isUsed = fields[i].alwaysUsed || decodeReal(values[i]) != 0;
    uint32_t index = scalar++;
    if (!isUsed) {
      arguments.scalars[index] = 0;
      arguments.scalarAddresses[index] = 0;
      continue;
    }
    if (given.scalars && index < given.scalar_count) {
      arguments.scalars[index] = given.scalars[index];
      if (!isAllowed(fields[i], given.scalars[index])) [[unlikely]]
        return makeError(ErrorCode::InvalidArgument,
                         "arguments: scalar {}, {}, is {}: it has to be "
                         "{}finite in fp32, and not rounded to 0",
                         index, fields[i].key, given.scalars[index],
                         fields[i].isPositive ? "above 0, " : "");
    }
    arguments.scalarAddresses[index] = 0;
    if (fields[i].slot < 0)
      continue;
    auto slot = static_cast<uint32_t>(fields[i].slot);
    uint64_t address = slot < given.operand_count
                           ? reinterpret_cast<uintptr_t>(given.operands[slot])
                           : 0;
    // A value instead of the address would not be the caller's.
    if (!address && spec.defaults.scalarAddresses[index]) [[unlikely]]
      return makeError(ErrorCode::InvalidArgument,
                       "{} (slot {}) is null: the problem was described with "
                       "its value in device memory",
                       fields[i].key, slot);
    if (address % sizeof(float)) [[unlikely]]
      return makeError(ErrorCode::InvalidArgument,
                       "{} (slot {}) at {:#x} is not aligned to {} bytes",
                       fields[i].key, slot, address, sizeof(float));
    arguments.scalarAddresses[index] = address;
  }
  return llvm::Error::success();
}

/// The number of matrices of a launch of \p spec with \p values.
static int64_t batchOf(const ProblemSpec &spec,
                       llvm::ArrayRef<int64_t> values) {
  const int field = spec.family->problemSchema().find(FieldRole::Batch);
  return field < 0 ? 1 : values[field];
}

/// Checks that no written operand begins where another operand does, except the
/// input that it may be.
static llvm::Error checkOverlap(const ProblemSpec &spec,
                                const OperandList &operands,
                                llvm::ArrayRef<int64_t> values,
                                const Arguments &arguments) {
  for (const CallOperand &output : operands) {
    if (output.role != OperandRole::Out && output.role != OperandRole::InOut)
      continue;
    const OperandArgument &written = arguments.operands[output.index];
    for (const CallOperand &other : operands) {
      const OperandArgument &read = arguments.operands[other.index];
      if (other.index == output.index || read.address != written.address)
        continue;
      if (overlaps(written, read, other.index == output.mayBe,
                   batchOf(spec, values) > 1))
        return makeError(ErrorCode::InvalidArgument, "{} overlaps {}",
                         output.name, other.name);
    }
  }
  return llvm::Error::success();
}

/// Checks that the matrices of \p output do not overlap, in a launch with \p
/// values.
static llvm::Error checkMatrices(const ProblemSpec &spec,
                                 const CallOperand &output,
                                 llvm::ArrayRef<int64_t> values,
                                 const Arguments &arguments) {
  Problem launched;
  launched.values = Values::over(spec.family->problemSchema(), values);
  const OperandTable table = spec.family->operands(launched);
  const OperandArgument &given = arguments.operands[output.index];
  if (!runsIntoItself(table.operands[output.index], given))
    return llvm::Error::success();
  return makeError(
      ErrorCode::InvalidArgument,
      "{}.batch_stride is {}, but each of its {} matrices spans {} elements",
      output.name, given.batchStride, batchOf(spec, values),
      matrixElements(table.operands[output.index].rows,
                     table.operands[output.index].cols,
                     given.leadingDimension));
}

llvm::Error readArguments(const kiln_arguments &given, const ProblemSpec &spec,
                          const OperandList &operands,
                          llvm::ArrayRef<int64_t> values,
                          Arguments &arguments) {
  spec.readDefaults(values, arguments);
  arguments.isDependent = given.flags & KILN_CALL_DEPENDENT;
  for (const CallOperand &operand : operands) {
    uint64_t address =
        operand.slot < given.operand_count
            ? reinterpret_cast<uintptr_t>(given.operands[operand.slot])
            : 0;
    if (!address && operand.bytes) [[unlikely]]
      return makeError(ErrorCode::InvalidArgument,
                       "operand {} (slot {}) is null", operand.name,
                       operand.slot);
    if (address & (operand.alignment - 1)) [[unlikely]]
      return makeError(
          ErrorCode::InvalidArgument,
          "operand {} at {:#x} is not aligned to the {} bytes that "
          "the problem promises",
          operand.name, address, operand.alignment);
    arguments.operands[operand.index].address = address;
    assert(operand.slot < 64 && "slots are bits of kiln_arguments.constants");
    arguments.constants |=
        static_cast<uint32_t>(given.constants >> operand.slot & 1)
        << operand.index;
    if (operand.mayRunIntoItself) [[unlikely]]
      if (auto error = checkMatrices(spec, operand, values, arguments))
        return error;
  }
  if (auto error = readScalars(given, spec, values, arguments))
    return error;
  return checkOverlap(spec, operands, values, arguments);
}

} // namespace kiln
