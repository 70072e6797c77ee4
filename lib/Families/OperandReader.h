//===- OperandReader.h - operands of a call, on the dispatch path ---------===//
//
// What every reader of a caller's struct shares. All of it tells good from bad
// only; OperandCheck.h has the words.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Call/CallReader.h"
#include "Call/StructAccess.h"

#include <algorithm>
#include <limits>

namespace kiln {

/// A leading dimension as given, resolved, and as a record has it.
inline int64_t resolveRow(int64_t given, int64_t packed) {
  return given ? given : packed;
}
inline int64_t canonicalRow(int64_t given, int64_t packed) {
  return given == packed ? 0 : given;
}

/// Width of one element; 0 for what is under a byte, which no family takes.
inline uint64_t elementBytesOf(kiln_dtype type) {
  return static_cast<uint64_t>(static_cast<uint32_t>(type) >> 11);
}

/// True when a field of a struct of rows.h is set that must not be.
template <class Args> bool hasRowSlots(const Args &args) {
  uint64_t set = args.flags | uint32_t(args.max_sms) |
                 uint32_t(args.determinism) | uint64_t(args.rows_hint) |
                 reinterpret_cast<uintptr_t>(args.rows_device);
  if constexpr (requires { args.reserved0; })
    set |= args.reserved0;
  for (uint64_t word : args.reserved)
    set |= word;
  return set != 0;
}

/// True when link \p index of a chain is of a size that this version
/// understands, has an operation that fits a record and no reserved field set.
inline bool isGoodLink(const kiln_pointwise *chain, uint32_t index) {
  const kiln_pointwise &link = at(chain, index);
  bool sizeIsGood =
      link.struct_size == sizeof(link) ||
      (link.struct_size == chain->struct_size && hasKnownSize(link));
  return sizeIsGood && (link.op & ~0xff) == 0 &&
         (link.reserved[0] | link.reserved[1]) == 0;
}

/// Reads the operands of one call, collecting what is wrong and how all of them
/// are aligned.
class OperandReader {
public:
  OperandReader(CallAddresses addresses, bool isEmpty)
      : launches(addresses == CallAddresses::Used),
        needed(launches && !isEmpty) {}
  /// Of a family that has batches, of \p batch matrices at most.
  OperandReader(CallAddresses addresses, bool isEmpty, int64_t batch)
      : OperandReader(addresses, isEmpty) {
    strideMask = std::numeric_limits<int64_t>::max();
    countsStrides = batch > 1;
  }

  /// One that has no scale. \p leadingDimension is resolved; \p isRead: its
  /// address is used.
  void read(const kiln_operand &from, uint64_t elementBytes,
            int64_t leadingDimension, bool isRead, OperandArgument &to) {
    wrong |= from.scale != nullptr;
    readScaled(from, elementBytes, leadingDimension, isRead, to);
  }

  /// One whose scale is read elsewhere.
  void readScaled(const kiln_operand &from, uint64_t elementBytes,
                  int64_t leadingDimension, bool isRead, OperandArgument &to) {
    uint64_t address =
        launches ? reinterpret_cast<uintptr_t>(from.data) : uint64_t(0);
    uint64_t promise = from.alignment;
    wrong |= (from.struct_size != 0) & (from.struct_size != sizeof(from));
    wrong |= (from.flags & ~uint32_t(KILN_OPERAND_CONSTANT)) != 0;
    wrong |= (from.reserved[0] | from.reserved[1] | from.reserved[2]) != 0;
    wrong |= (promise & (promise - 1)) != 0;
    wrong |= needed & isRead & (address == 0);
    wrong |= (address & (elementBytes - 1)) != 0;
    wrong |= (promise != 0) & ((address & (promise - 1)) != 0);
    // An address is aligned to its element whatever less is promised.
    bits |= promise ? std::max(promise, elementBytes) : address;
    wrong |= (from.batch_stride & ~strideMask) != 0;
    if (countsStrides)
      bits |= static_cast<uint64_t>(from.batch_stride) * elementBytes;
    to = {address, leadingDimension, from.batch_stride};
  }

  /// The scales, one for each row, that the kernel writes for \p y.
  void readScales(const kiln_operand &y, OperandArgument &to) {
    const kiln_scale *from = y.scale;
    if (!from) {
      wrong = true;
      return;
    }
    uint64_t address =
        launches ? reinterpret_cast<uintptr_t>(from->data) : uint64_t(0);
    uint64_t set = uint32_t(from->block_rows) | uint32_t(from->block_columns) |
                   uint32_t(from->order) | uint64_t(from->row_stride) |
                   uint64_t(from->column_stride) | uint64_t(from->batch_stride);
    for (uint64_t word : from->reserved)
      set |= word;
    wrong |= !hasKnownSize(*from);
    wrong |= set != 0;
    wrong |= (from->type != KILN_DTYPE_NONE) & (from->type != KILN_FP32);
    wrong |= from->granularity != KILN_GRANULARITY_ROW;
    wrong |= needed & (address == 0);
    wrong |= (address & (sizeof(float) - 1)) != 0;
    bits |= address;
    to = {address, 1, 0};
  }

  /// The leading dimension \p given of rows that are as long as an extent which
  /// a range may vary, as a record has it. 0 stays what it is: packed at every
  /// extent.
  int64_t recordRow(int64_t given, int64_t packed) const {
    return launches ? canonicalRow(given, packed) : given;
  }

  /// One that the call does not have.
  void readAbsent(const kiln_operand &from) {
    wrong |= launches & (from.data != nullptr);
  }

  /// One whose type, if it is given, has to be \p type.
  void expectType(const kiln_operand &from, kiln_dtype type) {
    wrong |= (from.type != KILN_DTYPE_NONE) & (from.type != type);
  }

  /// Operand \p written begins where no other of \p operands does; it may be
  /// operand \p mayBe exactly, or with -1 none.
  void checkWritten(llvm::ArrayRef<OperandArgument> operands, int written,
                    int mayBe) {
    const OperandArgument &output = operands[written];
    if (!needed || output.address == 0)
      return;
    for (int i = 0; i < static_cast<int>(operands.size()); ++i) {
      bool same = (i == mayBe) &
                  (operands[i].leadingDimension == output.leadingDimension);
      wrong |= (i != written) & (operands[i].address == output.address) & !same;
    }
  }

  int64_t alignment() const {
    constexpr uint64_t kMaxAlign = 16; // that families tell apart, in bytes
    uint64_t all = bits | kMaxAlign;
    return static_cast<int64_t>(all & -all);
  }

  bool wrong = false;

private:
  int64_t strideMask = 0; ///< bits that a batch stride may have
  bool countsStrides = false;
  bool launches, needed;
  uint64_t bits = 0;
};

} // namespace kiln
