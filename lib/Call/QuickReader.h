//===- QuickReader.h - a struct of a call, on the dispatch path -----------===//
//
// Fills the values of the problem and the arguments of the launch from a
// family's statements (Stated.h), and collects whether anything is wrong,
// mostly without branches. Everything is inlined into the family's one reader,
// which takes some 30 ns.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Call/CallReader.h"
#include "Call/Overlap.h"
#include "Call/Stated.h"
#include "Call/StructAccess.h"

#include <algorithm>
#include <array>
#include <bit>

namespace kiln {

#define KILN_INLINE [[gnu::always_inline]] inline

class QuickReader {
public:
  /// \p operandCount: the number of the family's operands.
  KILN_INLINE QuickReader(CallUse use, int operandCount, FamilyCall &call)
      : use(use), launches(use.addresses == CallAddresses::Used),
        operandCount(operandCount), call(call) {
    for (int i = 0; i < operandCount; ++i)
      call.arguments.operands[i] = {};
  }

  bool wrong = false;

  /// Checks the size, reserved fields, and flags other than \p flags. False if
  /// the rest must not be read.
  template <class Args>
  KILN_INLINE bool begin(const Args &args, const char * /*structName*/,
                         uint32_t flags = 0) {
    wrong =
        !hasKnownSize(args) || hasReserved(args, flags | KILN_CALL_DEPENDENT);
    if (wrong) [[unlikely]]
      return false;
    call.arguments.isDependent = launches && args.flags & KILN_CALL_DEPENDENT;
    call.wantsFrozen = args.determinism != KILN_DETERMINISM_SAME_PLAN;
    return true;
  }

  /// Checks a struct that another one points to. False if it must not be read.
  template <class Struct>
  KILN_INLINE bool nested(const Struct &given, const char * /*name*/) {
    static_assert(!kHasGrown<Struct>, "this struct keeps its size");
    bool isGood = hasKnownSize(given);
    // Nothing is read of a struct that is too short.
    if (isGood) {
      uint64_t set = 0;
      if constexpr (requires { given.reserved0; })
        set |= given.reserved0;
      for (uint64_t word : given.reserved)
        set |= word;
      isGood = set == 0;
    }
    wrong |= !isGood;
    return isGood;
  }

  /// A number that is stored unchanged.
  KILN_INLINE void number(int field, StatedName, int64_t value) {
    call.values[field] = value;
  }
  /// A number with a default, \p otherwise, that follows from other fields and
  /// is stored as 0. Returns the value.
  KILN_INLINE int64_t derived(int field, StatedName, int64_t given,
                              int64_t otherwise) {
    setDerived(field, given, otherwise);
    return resolveRow(given, otherwise);
  }
  /// The expected value of a number bounded by \p most; a hint that is not less
  /// is stored as 0.
  KILN_INLINE void hint(int field, StatedName, int64_t given, int64_t most) {
    call.values[field] = launches && given >= most ? 0 : given;
  }
  /// One of several values, stored as \p value.
  KILN_INLINE void choice(int field, StatedName, int64_t /*given*/,
                          int64_t value) {
    call.values[field] = value;
  }
  KILN_INLINE void type(int field, StatedName, kiln_dtype /*given*/,
                        int64_t value) {
    call.values[field] = value;
  }
  /// A field that is not used, such as the leading dimension of a missing
  /// operand.
  KILN_INLINE void absent(int field) { call.values[field] = 0; }

  /// A rule that canonicalise() cannot check, with the message for a break of
  /// it.
  template <class... Args>
  KILN_INLINE void require(bool isGood, ErrorCode,
                           fmt::format_string<const Args &...>,
                           const Args &...) {
    wrong |= !isGood;
  }

  /// Whether there is nothing to compute.
  KILN_INLINE void isEmpty(bool value) {
    call.isEmpty = value;
    needed = launches && !value;
  }
  /// The number of matrices, for a family that has batches.
  KILN_INLINE void batches(int64_t batch) {
    maxStride = kMaxBatchStride;
    countsStrides = use.mostBatches(batch) > 1;
  }

  KILN_INLINE void operand(const StatedOperand &stated) {
    const kiln_operand &from = stated.given;
    const uint64_t bytes = elementBytesOf(stated.type);
    const uint64_t address = place(stated);
    // A negative stride is, as unsigned, beyond any limit.
    const auto stride = static_cast<uint64_t>(from.batch_stride);
    wrong |= stride > (stated.hasBatches ? maxStride : 0);
    if (countsStrides)
      bits |= stride * bytes;
    const int64_t given = from.leading_dim, packed = stated.rowLength;
    const bool isVector = stated.field < 0;
    if (!isVector)
      setDerived(stated.field, given, packed);
    OperandArgument &to = call.arguments.operands[stated.index];
    to = {address, isVector ? packed : resolveRow(given, packed),
          from.batch_stride, 0};
    if (!stated.isWritten)
      return;
    const bool isShort =
        needed &
        (stride < matrixElements(stated.rows, packed, to.leadingDimension));
    wrong |= countsStrides & stated.hasBatches & ((stride == 0) | isShort);
    addOutput(stated);
  }

  KILN_INLINE void heads(const StatedHeads &stated) {
    const kiln_heads_operand &from = stated.given;
    const uint64_t address = place(stated);
    const int64_t cols = stated.rowLength;
    const int64_t row = derived(stated.field, stated.name, from.token_stride,
                                product(stated.planes, cols));
    const int64_t plane =
        derived(stated.field + 1, stated.name,
                stated.planes == 1 ? 0 : from.head_stride, cols);
    int64_t batch = 0;
    if (stated.hasBatchField)
      batch = derived(
          stated.field + 2, stated.name,
          stated.hasBatches ? from.batch_stride : 0,
          std::max(product(stated.rows, row), product(stated.planes, plane)));
    else
      wrong |= from.batch_stride != 0;
    call.arguments.operands[stated.index] = {
        address, row, batch == KILN_SHARED_STRIDE ? 0 : batch, plane};
    call.arguments.constants |= uint32_t(stated.isConstant) << stated.index;
    if (stated.isWritten)
      addOutput(stated);
  }

  KILN_INLINE void array(const StatedArray &stated) {
    const uint64_t address =
        launches ? reinterpret_cast<uintptr_t>(stated.address) : uint64_t(0);
    wrong |= needed & stated.isUsed & (address == 0);
    wrong |= (address & (stated.elementBytes - 1)) != 0;
    call.arguments.operands[stated.index] = {address, stated.rowLength,
                                             stated.batchStride, 0};
    call.arguments.constants |= uint32_t(stated.isConstant) << stated.index;
    if (stated.isWritten)
      addWritten(stated.index, stated.mayBe);
  }

  /// An operand that the call does not read, a kiln_operand or
  /// kiln_heads_operand: it may be anything, except for bytes that this version
  /// does not know.
  template <class Operand>
  KILN_INLINE void unread(StatedName, const Operand &given) {
    unknown |= unknownOf(given);
  }

  /// An operand that exists if its type is set. Returns whether it does.
  KILN_INLINE bool optional(const StatedOperand &stated) {
    if (stated.given.type != KILN_DTYPE_NONE) {
      operand(stated);
      return true;
    }
    unknown |= launches ? reinterpret_cast<uintptr_t>(stated.given.data) : 0;
    unread(stated.name, stated.given);
    if (stated.field >= 0)
      absent(stated.field);
    return false;
  }

  /// \p given where there are scales, else null. Scales that are absent have
  /// no field set: a granularity that was forgotten is not a product without
  /// scales.
  KILN_INLINE const kiln_scale *scaleOf(StatedName, const kiln_scale &given) {
    if (isPresent(given))
      return &given;
    unknown |= setOf(given);
    return nullptr;
  }

  KILN_INLINE void scales(const StatedScales &stated) {
    const kiln_scale *from = stated.given;
    if (!from) {
      wrong = true;
      return;
    }
    uint64_t address =
        launches ? reinterpret_cast<uintptr_t>(from->data) : uint64_t(0);
    wrong |= !isPlain(*from) | (from->block_rows != 0) |
             (from->block_columns != 0) | hasStrides(*from);
    wrong |= (from->type != KILN_DTYPE_NONE) & (from->type != KILN_FP32);
    wrong |= from->granularity != stated.granularity;
    wrong |= needed & (address == 0);
    wrong |= (address & (sizeof(float) - 1)) != 0;
    call.arguments.operands[stated.index] = {address, stated.count, 0, 0};
    if (!stated.isWritten)
      return;
    bits |= address;
    addWritten(stated.index, -1);
  }

  KILN_INLINE void factors(const StatedFactors &stated) {
    const kiln_scale *from = stated.given;
    if (!from) [[likely]] {
      absent(stated.kind);
      if (stated.hasBlocks())
        for (int field : {stated.order, stated.ld})
          absent(field);
      return;
    }
    setFactors(stated, *from);
  }

  /// An operand with a prepacked order.
  [[gnu::noinline]] void packed(const StatedPacked &stated) {
    const kiln_operand &from = stated.given;
    const kiln_scale &scale = stated.scale;
    const int kind = stated.kindOf(scale);
    wrong |= !hasEmbeddedSize(from) | (kind < 0) | (stated.givenOrder == 0);
    wrong |= ((from.flags & ~uint32_t(KILN_OPERAND_CONSTANT)) |
              from.reserved[0] | from.reserved[1]) != 0;
    wrong |= (from.alignment & (from.alignment - 1)) != 0;
    wrong |= from.batch_stride != 0;
    wrong |= !isPlain(scale) | hasStrides(scale);
    if (stated.zeros)
      wrong |= !isPlain(*stated.zeros) | hasStrides(*stated.zeros) |
               !stated.zerosFit() | !stated.mayBeZeros(stated.zeros->type);
    if (wrong)
      return;
    call.values[stated.order] = stated.givenOrder;
    call.values[stated.kind] = kind;
    call.values[stated.type] =
        scale.type == stated.scaleDefault ? KILN_DTYPE_NONE : scale.type;
    call.values[stated.hasZero] = stated.zeros != nullptr;
    call.arguments.constants |= (from.flags & 1u) << stated.index;
    auto place = [&](int index, const void *data, int64_t ld) {
      const uint64_t address =
          launches ? reinterpret_cast<uintptr_t>(data) : uint64_t(0);
      wrong |= needed & (address == 0);
      wrong |= (address & (StatedPacked::kAlign - 1)) != 0;
      call.arguments.operands[index] = {address, ld, 0, 0};
    };
    place(stated.index, from.data, stated.ld);
    place(stated.scaleIndex, scale.data, 0);
    if (stated.zeros)
      place(stated.zeroIndex, stated.zeros->data, 0);
  }

  /// The chain of \p args. Calls \p each(link, i, position) for link i, which
  /// is the position-th that does something.
  template <class Args, class Each>
  KILN_INLINE void chain(int field, const Args &args, const Each &each) {
    uint64_t packed = 0;
    int position = 0;
    uint32_t count = args.pointwise_count;
    if (count > KILN_MAX_POINTWISE || (count && !args.pointwise)) {
      wrong = true;
      count = 0;
    }
    for (uint32_t i = 0; i < count; ++i) {
      if (!isGoodLink(args.pointwise, i)) {
        wrong = true;
        break;
      }
      const kiln_pointwise &link = at(args.pointwise, i);
      if (link.op == KILN_POINTWISE_NONE) {
        unread("", link.operand);
        continue;
      }
      packed |= static_cast<uint64_t>(link.op) << (8 * position);
      each(link, static_cast<int>(i), position++);
    }
    call.values[field] = static_cast<int64_t>(packed);
  }

  KILN_INLINE void scalar(const StatedScalar &stated) {
    auto address = reinterpret_cast<uintptr_t>(stated.address);
    wrong |= (address & (sizeof(float) - 1)) != 0;
    wrong |= !isScalar(stated.value, stated.least);
    call.arguments.scalars[stated.index] = stated.value;
    call.arguments.scalarAddresses[stated.index] = address;
    call.values[stated.field] =
        std::bit_cast<int64_t>(stated.isUsed ? 1.0 : 0.0);
  }

  /// Stores the alignment of all operands together.
  KILN_INLINE void alignment(int field) {
    constexpr uint64_t kMaxAlign = 16; // that families tell apart, in bytes
    uint64_t all = bits | kMaxAlign;
    call.values[field] = static_cast<int64_t>(all & -all);
  }

  /// Checks all operands together, once all are stated: no written operand
  /// begins where another one does, except the one that it may be exactly.
  KILN_INLINE void finish() {
    wrong |= unknown != 0;
    if (!needed)
      return;
    const OperandArgument *operands = call.arguments.operands;
    for (uint32_t left = written; left; left &= left - 1) {
      const int output = std::countr_zero(left);
      int sharing = 0; // itself included
      for (int i = 0; i < operandCount; ++i)
        sharing += operands[i].address == operands[output].address;
      if (sharing == 1) [[likely]]
        continue;
      for (int i = 0; i < operandCount; ++i)
        wrong |= (i != output) & overlaps(operands[output], operands[i],
                                          i == mayBe[output], countsStrides);
    }
  }

  /// Whether a kernel can take \p value as fp32, at least \p least.
  static bool isScalar(double value, double least) {
    return value >= least && fitsFp32(value);
  }
  static bool hasParams(const kiln_pointwise &link) {
    auto bits = std::bit_cast<std::array<uint32_t, 4>>(link.params);
    uint32_t first = link.op == KILN_POINTWISE_SCALE ? 0 : bits[0];
    return (first | bits[1] | bits[2] | bits[3]) != 0;
  }

private:
  /// Whether a struct of scales has a size, and no reserved field set.
  static bool isPlain(const kiln_scale &scale) {
    return hasEmbeddedSize(scale) &&
           (scale.reserved0 | scale.reserved[0] | scale.reserved[1]) == 0;
  }
  /// 0 if a struct that is embedded by value has its size or none.
  template <class Struct>
  KILN_INLINE static uint64_t wrongSizeOf(const Struct &given) {
    const uint64_t size = given.struct_size;
    return size * (size - sizeof(Struct));
  }
  /// 0 if a scale without a granularity is as it has to be.
  KILN_INLINE static uint64_t setOf(const kiln_scale &scale) {
    return anyFieldOf(scale) | wrongSizeOf(scale);
  }
  /// 0 if an operand has no other size, unknown flag or reserved field set.
  template <class Operand>
  KILN_INLINE static uint64_t unknownOf(const Operand &given) {
    return (given.flags & ~uint32_t(KILN_OPERAND_CONSTANT)) |
           given.reserved[0] | given.reserved[1] | wrongSizeOf(given);
  }
  static bool hasStrides(const kiln_scale &scale) {
    return (scale.row_stride | scale.column_stride | scale.batch_stride) != 0;
  }

  /// Reads the scales of an operand that has some.
  [[gnu::noinline]] void setFactors(const StatedFactors &stated,
                                    const kiln_scale &from) {
    const int kind = kindOf(stated);
    if (kind < 0) {
      wrong = true;
      return;
    }
    ScaleStrides strides = scaleStridesOf(stated, static_cast<ScaleKind>(kind));
    const uint64_t address =
        launches ? reinterpret_cast<uintptr_t>(from.data) : uint64_t(0);
    wrong |= !isPlain(from) || !strides.isGood;
    wrong |= !stated.mayBe(from.type);
    wrong |= static_cast<uint64_t>(from.batch_stride) >
             (stated.hasBatches ? maxStride : 0);
    wrong |= needed & (address == 0);
    wrong |= (address & (sizeof(float) - 1)) != 0;
    call.values[stated.kind] =
        kind == static_cast<int>(stated.kindDefault) ? 0 : kind;
    if (stated.hasBlocks()) {
      call.values[stated.order] = strides.alongRows;
      setDerived(stated.ld, strides.ld, strides.packed);
    }
    call.arguments.operands[stated.index] = {address, strides.ld,
                                             from.batch_stride, 0};
    if (!stated.writes(static_cast<ScaleKind>(kind)))
      return;
    const auto stride = static_cast<uint64_t>(from.batch_stride);
    const ScaleLines lines =
        scaleLinesOf(stated, static_cast<ScaleKind>(kind), strides);
    const bool isShort =
        needed &
        (stride < matrixElements(lines.lines, lines.scales, strides.ld));
    wrong |= countsStrides & stated.hasBatches & ((stride == 0) | isShort);
    addWritten(stated.index, -1);
  }

  KILN_INLINE static bool isAvailable(kiln_determinism determinism) {
    return determinism == KILN_DETERMINISM_SAME_PLAN ||
           determinism == KILN_DETERMINISM_FROZEN_CHOICE;
  }
  /// Whether a field is set that no family uses, or another flag than \p flags.
  template <class Args>
  KILN_INLINE static bool hasReserved(const Args &args, uint32_t flags) {
    uint64_t set = (args.flags & ~flags) | !isAvailable(args.determinism);
    if constexpr (requires { args.reserved0; })
      set |= args.reserved0;
    for (uint64_t word : args.reserved)
      set |= word;
    return set != 0;
  }

  /// Whether link \p index has the size of the first (which this version
  /// understands, and which is the stride of the array), an operation that a
  /// chain field can hold, only parameters of that operation and no reserved
  /// field set.
  KILN_INLINE static bool isGoodLink(const kiln_pointwise *chain,
                                     uint32_t index) {
    const kiln_pointwise &link = at(chain, index);
    const uint32_t size = link.struct_size;
    bool sizeIsGood =
        size == chain->struct_size &&
        (size == sizeof(link) ||
         (size % alignof(kiln_pointwise) == 0 && hasKnownSize(link)));
    return sizeIsGood && static_cast<uint32_t>(link.op) < kLinkCodes &&
           !hasParams(link) && (link.reserved[0] | link.reserved[1]) == 0;
  }

  /// Checks the rules of any struct of an operand. Returns its address.
  template <class Stated> KILN_INLINE uint64_t place(const Stated &stated) {
    const auto &from = stated.given;
    const uint64_t bytes = elementBytesOf(stated.type);
    const uint64_t promise = from.alignment;
    const uint64_t address =
        launches ? reinterpret_cast<uintptr_t>(from.data) : uint64_t(0);
    unknown |= unknownOf(from);
    if constexpr (requires { stated.hasScales; })
      if (!stated.hasScales)
        unknown |= setOf(from.scale);
    static_assert(KILN_OPERAND_CONSTANT == 1 && Arguments::kMaxOperands <= 32);
    call.arguments.constants |= (from.flags & 1u) << stated.index;
    wrong |= (from.type != KILN_DTYPE_NONE) & (from.type != stated.type);
    wrong |= needed & stated.isUsed & (address == 0);
    wrong |= (address & (bytes - 1)) != 0;
    uint64_t aligned = address;
    if (promise) [[unlikely]] {
      wrong |= ((promise & (promise - 1)) | (address & (promise - 1))) != 0;
      // An address is aligned to its element even if less is promised.
      aligned = std::max(promise, bytes);
    }
    bits |= aligned;
    return address;
  }

  template <class Stated> KILN_INLINE void addOutput(const Stated &stated) {
    const bool isAsWide =
        elementBytesOf(stated.mayBeType) == elementBytesOf(stated.type);
    addWritten(stated.index, isAsWide ? stated.mayBe : -1);
  }

  /// Stores a field whose default follows from others. In a problem whose
  /// extents a range may vary, 0 stays: the default at every extent.
  KILN_INLINE void setDerived(int field, int64_t given, int64_t otherwise) {
    call.values[field] = launches ? canonicalRow(given, otherwise) : given;
  }

  /// Notes that operand \p index is written; it may be operand \p other
  /// exactly, or none if that is -1.
  KILN_INLINE void addWritten(int index, int other) {
    written |= uint32_t(1) << index;
    mayBe[index] = static_cast<int8_t>(other);
  }

  const CallUse use;
  const bool launches;
  bool needed = false;
  bool countsStrides = false;
  uint64_t maxStride = 0; ///< greatest batch stride; 0: there are no batches
  uint64_t bits = 0;
  uint64_t unknown = 0; ///< not 0: bytes are set that may not be
  uint32_t written = 0; ///< a bit for each operand that is written
  int8_t mayBe[Arguments::kMaxOperands]; ///< of written operands
  const int operandCount;
  FamilyCall &call;
};

} // namespace kiln
