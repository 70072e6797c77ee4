//===- allreduce.hpp - the builder of all-reduces over kiln.h -------------===//
//
// The class of kiln.hpp for the struct of allreduce.h, like those of
// problems.hpp.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_ALLREDUCE_HPP
#define KILN_ALLREDUCE_HPP

#include "kiln/problems.hpp"

namespace kiln {
inline namespace v1 {

static_assert(detail::Slots::kCount >= KILN_ALLREDUCE_SLOT_COUNT &&
                  KILN_ALLREDUCE_X == 0 && KILN_ALLREDUCE_Y == 1,
              "every operand has its slot");

/// The sum of x over the ranks of a group: a kiln_allreduce_args with setters.
/// Addresses may be left out where the problem is only described.
class AllReduce : public detail::RowBuilder<AllReduce, kiln_allreduce_args> {
public:
  static constexpr kiln_family kFamily = KILN_FAMILY_ALLREDUCE;
  static constexpr auto kLaunch = &kiln_allreduce;

  AllReduce(kiln_dtype type, int64_t rows, int64_t cols, int ranks) noexcept
      : RowBuilder(kiln_allreduce_args_init(), type, rows, cols) {
    values.ranks = ranks;
  }
  /// This call's rank, and the exchange memory of each rank: \p addresses is an
  /// array in host memory, which has to live as long as this.
  AllReduce &exchange(int rank, void *const *addresses,
                      uint64_t bytes) noexcept {
    values.rank = rank;
    values.exchange = addresses;
    values.exchange_bytes = bytes;
    return *this;
  }
  /// Adds \p data to the sum. \p sum, with a norm() and only then: where the
  /// result is stored; it may be the residual itself.
  AllReduce &residual(const void *data, void *sum = nullptr,
                      int64_t leadingDim = 0,
                      int64_t sumLeadingDim = 0) noexcept {
    optional(values.residual, data, leadingDim);
    if (sum || values.weight.type != KILN_DTYPE_NONE)
      optional(values.residual_out, sum, sumLeadingDim);
    return *this;
  }
  /// Normalises the result, with a weight for each column.
  AllReduce &norm(const void *weight, double epsilon = 1e-5) noexcept {
    values.epsilon = epsilon;
    if (values.residual.type != KILN_DTYPE_NONE)
      values.residual_out.type = values.x.type;
    return optional(values.weight, weight, 0);
  }

  void fill(detail::Slots &slots) const noexcept {
    fillXY(slots);
    slots.operands[KILN_ALLREDUCE_WEIGHT] = values.weight.data;
    slots.operands[KILN_ALLREDUCE_RESIDUAL] = values.residual.data;
    slots.operands[KILN_ALLREDUCE_RESIDUAL_OUT] = values.residual_out.data;
    fillScalar(values.epsilon, slots);
  }

private:
  /// An operand is there when its type is set.
  AllReduce &optional(kiln_operand &operand, const void *data,
                      int64_t leadingDim) noexcept {
    operand.type = values.x.type;
    detail::place(operand, data, leadingDim);
    return *this;
  }
};

} // namespace v1
} // namespace kiln

#endif // KILN_ALLREDUCE_HPP
