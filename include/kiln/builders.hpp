//===- builders.hpp - what the builders of problems share -----------------===//
//
// A struct of the C API that sets its own size, the list of a call's operands,
// and the setters that several builders have. problems.hpp and the headers
// beside it build on these; users include those.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_BUILDERS_HPP
#define KILN_BUILDERS_HPP

#include "kiln/kiln.h"

#include <array>
#include <cassert>
#include <type_traits>
#include <utility>
#include <vector>

namespace kiln {
inline namespace v1 {

/// A struct of kiln.h with its size set and all other fields zero.
template <class Struct> struct Sized : Struct {
  Sized() noexcept : Struct(KILN_INIT(Struct)) {}
};

namespace detail {

/// Addresses and scalars of one launch, by slot.
struct Slots {
  static constexpr uint32_t kCount = KILN_GEMM_SLOT_COUNT;
  static_assert(kCount >= KILN_ROW_SLOT_COUNT &&
                    kCount >= KILN_ELEMENTWISE_SLOT_COUNT &&
                    kCount >= KILN_TRANSPOSE_SLOT_COUNT,
                "every family's slots have room");
  std::array<void *, kCount> operands{};
  std::array<double, 2> scalars{};
  uint32_t scalarCount = 0;
};

inline void place(kiln_operand &operand, const void *data,
                  int64_t leadingDim) noexcept {
  // The C struct has one pointer type for all roles; inputs are only read.
  operand.data = const_cast<void *>(data);
  operand.leading_dim = leadingDim;
}

inline void setDependent(uint32_t &flags, bool value) noexcept {
  constexpr auto kFlag = static_cast<uint32_t>(KILN_CALL_DEPENDENT);
  flags = value ? flags | kFlag : flags & ~kFlag;
}

/// The number of links that can be read; a call with more is refused.
template <class Args> uint32_t linkCount(const Args &args) noexcept {
  constexpr uint32_t kMost = KILN_MAX_POINTWISE;
  if (!args.pointwise)
    return 0;
  return args.pointwise_count < kMost ? args.pointwise_count : kMost;
}

/// Addresses of a chain's operands. \p first: the slot of the first link. Links
/// that do nothing have no slot.
template <class Args>
void fillChain(const Args &args, uint32_t first, Slots &slots) noexcept {
  uint32_t slot = first;
  for (uint32_t i = 0; i < linkCount(args); ++i)
    if (args.pointwise[i].op != KILN_POINTWISE_NONE)
      slots.operands[slot++] = args.pointwise[i].operand.data;
}

static_assert(sizeof(Sized<kiln_pointwise>) == sizeof(kiln_pointwise),
              "an array of one is used as an array of the other");

/// The setters that the builders over rows share. \p Self is the class that
/// derives from it, \p Args its struct.
template <class Self, class Args> class RowBuilder {
public:
  /// The rows x cols matrix that is read. A leading dimension counts elements;
  /// 0: rows are packed.
  Self &x(const void *data, int64_t leadingDim = 0) noexcept {
    place(values.x, data, leadingDim);
    return self();
  }
  Self &y(void *data, int64_t leadingDim = 0) noexcept {
    place(values.y, data, leadingDim);
    return self();
  }
  /// The launch may begin before the kernel ahead of it has ended.
  Self &dependent(bool value = true) noexcept {
    setDependent(values.flags, value);
    return self();
  }

  /// Valid while this object lives and is not changed.
  const Args &get() const noexcept { return values; }
  Args &get() noexcept { return values; }

protected:
  RowBuilder(const Args &initial, kiln_dtype type, int64_t rows,
             int64_t cols) noexcept
      : values(initial) {
    values.rows = rows;
    values.cols = cols;
    values.x.type = type;
  }
  Self &self() noexcept { return static_cast<Self &>(*this); }
  void fillXY(Slots &slots) const noexcept {
    slots.operands[KILN_ROW_X] = values.x.data;
    slots.operands[KILN_ROW_Y] = values.y.data;
  }
  void fillScalar(double value, Slots &slots) const noexcept {
    slots.scalars[0] = value;
    slots.scalarCount = 1;
  }

  Args values;
};
static_assert(KILN_ELEMENTWISE_X == 0 && KILN_ELEMENTWISE_Y == 1 &&
                  KILN_TRANSPOSE_X == 0 && KILN_TRANSPOSE_Y == 1 &&
                  KILN_ROW_X == 0 && KILN_ROW_Y == 1,
              "x and y have the same slots everywhere");

/// The same with a y that may be quantised, whose scales have the slot kSlot.
template <class Self, class Args, int kSlot = KILN_ROW_SCALES>
class QuantizingBuilder : public RowBuilder<Self, Args> {
public:
  /// y is of \p type, e4m3 or int8, with an fp32 scale for each row, which the
  /// kernel writes to \p scales.
  Self &quantized(kiln_dtype type, void *scales) noexcept {
    this->values.y.type = type;
    this->values.y_scale = kiln_row_scales_init(scales);
    return this->self();
  }
  /// The same with a scale for each 128 columns of a row. Strides are as in
  /// Gemm::blockScaleA(), so that a product with this y as its A can read the
  /// scales.
  Self &blockQuantized(kiln_dtype type, void *scales, int64_t rowStride = 0,
                       int64_t columnStride = 0) noexcept {
    this->values.y.type = type;
    this->values.y_scale = kiln_block_scales_init(scales, 1, 128);
    this->values.y_scale.row_stride = rowStride;
    this->values.y_scale.column_stride = columnStride;
    return this->self();
  }

protected:
  using RowBuilder<Self, Args>::RowBuilder;
  void fillScales(Slots &slots) const noexcept {
    slots.operands[kSlot] = this->values.y_scale.data;
  }
};

} // namespace detail

} // namespace v1
} // namespace kiln

#endif // KILN_BUILDERS_HPP
