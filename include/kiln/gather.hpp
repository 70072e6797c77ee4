//===- gather.hpp - the builder of gathers over kiln.h --------------------===//
//
// The class of kiln.hpp for the struct of gather.h, like those of problems.hpp.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_GATHER_HPP
#define KILN_GATHER_HPP

#include "kiln/problems.hpp"

#include <cstddef>

namespace kiln {
inline namespace v1 {

static_assert(detail::Slots::kCount >= KILN_GATHER_SLOT_COUNT &&
                  KILN_GATHER_X == 0 && KILN_GATHER_Y == 1,
              "every operand has its slot");

/// y[targets[i]] = scale * x[indices[i] / divisor - first]: a kiln_gather_args
/// with setters. One of indices() and targets() is required; both have one
/// type. Addresses may be left out where the problem is only described:
/// indices(nullptr) says that there are some.
class Gather : public detail::RowBuilder<Gather, kiln_gather_args> {
public:
  static constexpr kiln_family kFamily = KILN_FAMILY_GATHER;
  static constexpr auto kLaunch = &kiln_gather;

  /// Moves \p rows rows of \p cols elements of an x that has \p xRows.
  Gather(kiln_dtype type, int64_t rows, int64_t cols, int64_t xRows) noexcept
      : RowBuilder(kiln_gather_args_init(), type, rows, cols) {
    values.x_rows = xRows;
  }

  Gather &outputType(kiln_dtype type) noexcept {
    values.y.type = type;
    return *this;
  }
  /// Repeats the move for \p count matrices of x and of y, which lie so many
  /// elements apart.
  Gather &batch(int64_t count, int64_t xStride, int64_t yStride) noexcept {
    values.batch = count;
    values.x.batch_stride = xStride;
    values.y.batch_stride = yStride;
    return *this;
  }
  /// The row of x for each row that is moved, in device memory.
  Gather &indices(const int32_t *data) noexcept {
    return setIndices(data, false);
  }
  Gather &indices(const int64_t *data) noexcept {
    return setIndices(data, true);
  }
  Gather &indices(std::nullptr_t) noexcept {
    return indices(static_cast<const int32_t *>(nullptr));
  }
  /// The row of y for each row that is moved. \p yRows: rows that y has; 0: as
  /// many as are moved.
  Gather &targets(const int32_t *data, int64_t yRows = 0) noexcept {
    return setTargets(data, yRows, false);
  }
  Gather &targets(const int64_t *data, int64_t yRows = 0) noexcept {
    return setTargets(data, yRows, true);
  }
  Gather &targets(std::nullptr_t, int64_t yRows = 0) noexcept {
    return targets(static_cast<const int32_t *>(nullptr), yRows);
  }
  /// The index of x's first row: x is a shard of a vocabulary.
  Gather &first(int64_t index) noexcept {
    values.first = index;
    return *this;
  }
  /// So many indices that follow each other name one row.
  Gather &divisor(int64_t count) noexcept {
    values.divisor = count;
    return *this;
  }
  Gather &scale(double factor) noexcept {
    values.scale = factor;
    return *this;
  }

  void fill(detail::Slots &slots) const noexcept {
    fillXY(slots);
    slots.operands[KILN_GATHER_INDICES] = const_cast<void *>(values.indices);
    slots.operands[KILN_GATHER_TARGETS] = const_cast<void *>(values.targets);
    fillScalar(values.scale, slots);
  }

private:
  Gather &setFlags(uint32_t flag, bool isWide) noexcept {
    constexpr auto kWide = static_cast<uint32_t>(KILN_GATHER_INT64);
    values.flags = isWide ? values.flags | kWide : values.flags & ~kWide;
    values.flags |= flag;
    return *this;
  }
  Gather &setIndices(const void *data, bool isWide) noexcept {
    values.indices = data;
    return setFlags(KILN_GATHER_HAS_INDICES, isWide);
  }
  Gather &setTargets(const void *data, int64_t yRows, bool isWide) noexcept {
    values.targets = data;
    values.y_rows = yRows;
    return setFlags(KILN_GATHER_HAS_TARGETS, isWide);
  }
};

} // namespace v1
} // namespace kiln

#endif // KILN_GATHER_HPP
