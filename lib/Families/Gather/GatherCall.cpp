//===- GatherCall.cpp - kiln_gather_args as a call ------------------------===//
#include "Families/Gather/GatherFamily.h"

#include "Call/Visit.h"

namespace kiln {

static_assert(int(KILN_GATHER_X) == int(GatherOperand::X) &&
              int(KILN_GATHER_Y) == int(GatherOperand::Y) &&
              int(KILN_GATHER_INDICES) == int(GatherOperand::Indices) &&
              int(KILN_GATHER_TARGETS) == int(GatherOperand::Targets) &&
              int(KILN_GATHER_SLOT_COUNT) == int(GatherOperand::Count));

namespace {
struct GatherVisit {
  using Args = kiln_gather_args;
  using F = GatherField;
  static constexpr int kFields = F::Count;
  static constexpr int kOperands = GatherOperand::Count;
  static constexpr uint32_t kFlags =
      KILN_GATHER_INT64 | KILN_GATHER_HAS_INDICES | KILN_GATHER_HAS_TARGETS;

  template <class Visitor>
  KILN_INLINE static void visit(const Args &args, Visitor &v) {
    if (!v.begin(args, "kiln_gather_args", kFlags))
      return;
    const kiln_dtype in = args.x.type, out = args.y.type ? args.y.type : in;
    v.type(F::DType, "x.type", in, in);
    v.type(F::Out, "y.type", out, out == in ? 0 : out);
    v.number(F::Rows, "rows", args.rows);
    v.number(F::Cols, "cols", args.cols);
    v.number(F::Batch, "batch", args.batch);
    const bool isEmpty = args.rows == 0 || args.cols == 0 || args.batch == 0;
    v.isEmpty(isEmpty);
    v.batches(args.batch);
    const bool hasTargets =
        args.targets != nullptr || (args.flags & KILN_GATHER_HAS_TARGETS);
    const int64_t yRows = visitRows(args, isEmpty, hasTargets, v);
    v.operand({.name = "x",
               .given = args.x,
               .index = GatherOperand::X,
               .type = in,
               .typeOf = "x",
               .rowLength = args.cols,
               .field = F::LdX});
    v.operand({.name = "y",
               .given = args.y,
               .index = GatherOperand::Y,
               .type = out,
               .typeOf = "y",
               .rowLength = args.cols,
               .field = F::LdY,
               .isWritten = true,
               .rows = yRows,
               .mayBe = hasTargets && args.x_rows == yRows
                            ? int(GatherOperand::X)
                            : -1,
               .mayBeType = in,
               .mayBeName = "x"});
    visitArrays(args, hasTargets, v);
    v.require(args.scale != 0, ErrorCode::InvalidArgument,
              "scale is 0: kiln_gather_args_init() sets it to 1");
    // With a factor of 1 bits are moved.
    const bool isScaled = args.scale != 1;
    v.scalar({.name = "scale",
              .value = isScaled ? args.scale : 0,
              .field = F::Scale,
              .index = GatherScalar::Scale,
              .isUsed = isScaled});
    v.alignment(F::Align);
  }

  /// Returns the rows of y.
  template <class Visitor>
  KILN_INLINE static int64_t visitRows(const Args &args, bool isEmpty,
                                       bool hasTargets, Visitor &v) {
    v.require(args.x_rows != 0 || isEmpty, ErrorCode::InvalidArgument,
              "x_rows is 0: the rows of x are required");
    v.require(hasTargets || args.y_rows == 0 || args.y_rows == args.rows,
              ErrorCode::InvalidArgument,
              "y_rows is {}, without targets it is rows, {}", args.y_rows,
              args.rows);
    v.derived(F::XRows, "x_rows", args.x_rows,
              namedRows(args.rows, args.divisor));
    v.number(F::First, "first", args.first);
    v.number(F::Divisor, "divisor", args.divisor);
    if (hasTargets)
      return v.derived(F::YRows, "y_rows", args.y_rows, args.rows);
    v.absent(F::YRows);
    return args.rows;
  }

  template <class Visitor>
  KILN_INLINE static void visitArrays(const Args &args, bool hasTargets,
                                      Visitor &v) {
    const bool hasIndices =
        args.indices != nullptr || (args.flags & KILN_GATHER_HAS_INDICES);
    v.require(hasIndices || hasTargets, ErrorCode::InvalidArgument,
              "indices and targets are null: one of them is required");
    v.number(F::By, "flags",
             int64_t(!hasTargets   ? GatherBy::Indices
                     : !hasIndices ? GatherBy::Targets
                                   : GatherBy::Both));
    const bool isWide = args.flags & KILN_GATHER_INT64;
    v.number(F::Index, "flags", int64_t(isWide ? DType::INT64 : DType::INT32));
    auto array = [&](bool isThere, const char *name, const void *address,
                     int index) {
      if (isThere)
        v.array({.name = name,
                 .address = address,
                 .index = index,
                 .elementBytes =
                     uint64_t(bytesOf(isWide ? DType::INT64 : DType::INT32)),
                 .rowLength = args.rows});
    };
    array(hasIndices, "indices", args.indices, GatherOperand::Indices);
    array(hasTargets, "targets", args.targets, GatherOperand::Targets);
  }
};
} // namespace

constexpr CallReader kGatherCall =
    makeCallReader<GatherVisit>(KILN_FAMILY_GATHER);

} // namespace kiln
