//===- AllReduceCall.cpp - kiln_allreduce_args as a call ------------------===//
#include "Families/AllReduce/AllReduceFamily.h"

#include "Call/Visit.h"

namespace kiln {

static_assert(int(KILN_ALLREDUCE_X) == int(AllReduceOperand::X) &&
              int(KILN_ALLREDUCE_Y) == int(AllReduceOperand::Y) &&
              int(KILN_ALLREDUCE_WEIGHT) == int(AllReduceOperand::Weight) &&
              int(KILN_ALLREDUCE_RESIDUAL) == int(AllReduceOperand::Residual) &&
              int(KILN_ALLREDUCE_RESIDUAL_OUT) ==
                  int(AllReduceOperand::ResidualOut) &&
              int(KILN_ALLREDUCE_SLOT_COUNT) == int(AllReduceOperand::InTable));
static_assert(KILN_ALLREDUCE_MOST_RANKS == kMostRanks);
static_assert(KILN_ALLREDUCE_BYTES_DIFFER == ExchangeLayout::kHalvesDiffer);

namespace {
struct AllReduceVisit {
  using Args = kiln_allreduce_args;
  using F = AllReduceField;
  using O = AllReduceOperand;
  static constexpr int kFields = F::Count;
  static constexpr int kOperands = O::Count;

  template <class Visitor>
  KILN_INLINE static void visit(const Args &args, Visitor &v) {
    if (!v.begin(args, "kiln_allreduce_args"))
      return;
    const kiln_dtype type = args.x.type;
    v.type(F::DType, "x.type", type, type);
    v.number(F::Rows, "rows", args.rows);
    v.number(F::Cols, "cols", args.cols);
    v.number(F::Ranks, "ranks", args.ranks);
    v.require(args.rank >= 0 && args.rank < args.ranks,
              ErrorCode::InvalidArgument,
              "rank is {}, but ranks are numbered from 0, and there are {}",
              args.rank, args.ranks);
    v.isEmpty(args.rows == 0 || args.cols == 0);
    v.operand(matrixOf(args, "x", args.x, O::X, F::LdX));
    visitOptional(args, v);
    StatedOperand y = matrixOf(args, "y", args.y, O::Y, F::LdY);
    y.isWritten = true;
    y.mayBe = O::X;
    y.mayBeType = type;
    y.mayBeName = "x";
    v.operand(y);
    visitExchange(args, v);
    v.alignment(F::Align);
    v.scalar({.name = "epsilon",
              .value = args.epsilon,
              .field = F::Epsilon,
              .index = AllReduceScalar::Epsilon,
              .least = 0});
  }

  template <class Visitor>
  KILN_INLINE static void visitOptional(const Args &args, Visitor &v) {
    const bool hasNorm = args.weight.type != KILN_DTYPE_NONE;
    const bool hasResidual = args.residual.type != KILN_DTYPE_NONE;
    const bool hasOut = args.residual_out.type != KILN_DTYPE_NONE;
    v.require(hasOut == (hasNorm && hasResidual), ErrorCode::Unsupported,
              "residual_out.type is {}: it is set where residual and weight "
              "are, and only there",
              hasOut ? "set" : "0");
    v.number(F::Norm, "weight",
             v.optional({.name = "weight",
                         .given = args.weight,
                         .index = O::Weight,
                         .type = args.x.type,
                         .typeOf = "x"}));
    v.number(F::Residual, "residual",
             v.optional(matrixOf(args, "residual", args.residual, O::Residual,
                                 F::LdResidual)));
    StatedOperand out = matrixOf(args, "residual_out", args.residual_out,
                                 O::ResidualOut, F::LdResidualOut);
    out.isWritten = true;
    out.mayBe = O::Residual;
    out.mayBeType = args.x.type;
    out.mayBeName = "residual";
    v.optional(out);
  }

  /// Memory of each rank, which all ranks write.
  template <class Visitor>
  KILN_INLINE static void visitExchange(const Args &args, Visitor &v) {
    const int64_t bytes = static_cast<int64_t>(args.exchange_bytes);
    v.require(!args.exchange || bytes >= leastBytes(args),
              ErrorCode::InvalidArgument,
              "exchange_bytes is {}: a row of {} columns needs {}", bytes,
              args.cols, leastBytes(args));
    for (int rank = 0; rank < kMostRanks && rank < args.ranks; ++rank)
      v.array({.name = "exchange",
               .address = args.exchange ? args.exchange[rank] : nullptr,
               .index = O::Exchange + rank,
               .elementBytes = ExchangeLayout::kVectorBytes,
               .rowLength = bytes,
               .isWritten = true,
               .batchStride = args.rank});
  }

  /// Bytes of exchange memory that has room for a row. Any number for sizes
  /// that no problem has.
  KILN_INLINE static int64_t leastBytes(const Args &args) {
    const auto rowBytes = static_cast<int64_t>(
        static_cast<uint64_t>(args.cols) * elementBytesOf(args.x.type));
    const int64_t pitch = ExchangeLayout::roundedUp(
        std::clamp<int64_t>(rowBytes, 0, kMostRowBytes));
    const auto ranks = std::clamp<int64_t>(args.ranks, 0, kMostRanks);
    return ExchangeLayout::kHeadBytes + 2 * ranks * pitch;
  }
  static constexpr int64_t kMostRowBytes = int64_t(1) << 40;

  KILN_INLINE static StatedOperand matrixOf(const Args &args, const char *name,
                                            const kiln_operand &given,
                                            int index, int field) {
    return {.name = name,
            .given = given,
            .index = index,
            .type = args.x.type,
            .typeOf = "x",
            .rowLength = args.cols,
            .field = field};
  }
};
} // namespace

constexpr CallReader kAllReduceCall =
    makeCallReader<AllReduceVisit>(KILN_FAMILY_ALLREDUCE);

} // namespace kiln
