//===- CombineCall.cpp - kiln_combine_args as a call ----------------------===//
#include "Families/Combine/CombineFamily.h"

#include "Call/Visit.h"

namespace kiln {

static_assert(int(KILN_COMBINE_X) == int(CombineOperand::X) &&
              int(KILN_COMBINE_Y) == int(CombineOperand::Y) &&
              int(KILN_COMBINE_SHARED) == int(CombineOperand::Shared) &&
              int(KILN_COMBINE_RESIDUAL) == int(CombineOperand::Residual) &&
              int(KILN_COMBINE_RESIDUAL_OUT) ==
                  int(CombineOperand::ResidualOut) &&
              int(KILN_COMBINE_NORM_WEIGHT) ==
                  int(CombineOperand::NormWeight) &&
              int(KILN_COMBINE_WEIGHTS) == int(CombineOperand::Weights) &&
              int(KILN_COMBINE_SLOT_COUNT) == int(CombineOperand::Count));

namespace {
struct CombineVisit {
  using Args = kiln_combine_args;
  using F = CombineField;
  static constexpr int kFields = F::Count;
  static constexpr int kOperands = CombineOperand::Count;
  static constexpr uint32_t kFlags =
      KILN_COMBINE_APPLY_WEIGHTS | KILN_COMBINE_HAS_WEIGHTS;

  template <class Visitor>
  KILN_INLINE static void visit(const Args &args, Visitor &v) {
    if (!v.begin(args, "kiln_combine_args", kFlags))
      return;
    const kiln_dtype type = args.x.type;
    v.number(F::Tokens, "tokens", args.tokens);
    v.number(F::Cols, "cols", args.cols);
    v.number(F::TopK, "top_k", args.top_k);
    v.type(F::DType, "x.type", type, type);
    v.isEmpty((args.tokens == 0) | (args.cols == 0));
    v.operand({.name = "x",
               .given = args.x,
               .index = CombineOperand::X,
               .type = type,
               .typeOf = "x",
               .rowLength = args.cols,
               .field = F::LdX});
    visitAddends(args, v);
    visitWeights(args, v);
    v.alignment(F::Align);
  }

  template <class Visitor>
  KILN_INLINE static void visitAddends(const Args &args, Visitor &v) {
    const kiln_dtype type = args.x.type;
    auto matrix = [&](const char *name, const kiln_operand &given, int index,
                      int field) {
      return v.optional({.name = name,
                         .given = given,
                         .index = index,
                         .type = type,
                         .rowLength = args.cols,
                         .field = field});
    };
    v.number(
        F::Shared, "shared",
        matrix("shared", args.shared, CombineOperand::Shared, F::LdShared));
    const bool hasResidual = matrix("residual", args.residual,
                                    CombineOperand::Residual, F::LdResidual);
    v.number(F::Residual, "residual", hasResidual);
    const bool isNorm = v.optional({.name = "norm_weight",
                                    .given = args.norm_weight,
                                    .index = CombineOperand::NormWeight,
                                    .type = type,
                                    .rowLength = args.cols});
    v.number(F::Norm, "norm_weight", isNorm);
    v.scalar({.name = "epsilon",
              .value = isNorm ? args.epsilon : 0, // no text has an unused one
              .field = F::Epsilon,
              .index = CombineScalar::Epsilon,
              .isUsed = isNorm,
              .least = 0});
    v.operand(
        {.name = "y",
         .given = args.y,
         .index = CombineOperand::Y,
         .type = type,
         .rowLength = args.cols,
         .field = F::LdY,
         .isWritten = true,
         .mayBe = hasResidual && !isNorm ? int(CombineOperand::Residual) : -1,
         .mayBeType = type,
         .mayBeName = "residual"});
    const bool storesSum = v.optional({.name = "residual_out",
                                       .given = args.residual_out,
                                       .index = CombineOperand::ResidualOut,
                                       .type = type,
                                       .rowLength = args.cols,
                                       .field = F::LdResidualOut,
                                       .isWritten = true,
                                       .mayBe = CombineOperand::Residual,
                                       .mayBeType = type,
                                       .mayBeName = "residual"});
    v.require(storesSum == (hasResidual && isNorm), ErrorCode::InvalidArgument,
              "residual_out has a type if residual and norm_weight have one, "
              "and only then");
  }

  template <class Visitor>
  KILN_INLINE static void visitWeights(const Args &args, Visitor &v) {
    const bool isThere = (args.weights != nullptr) |
                         ((args.flags & KILN_COMBINE_HAS_WEIGHTS) != 0);
    const bool applies = (args.flags & KILN_COMBINE_APPLY_WEIGHTS) != 0;
    v.require(isThere || !applies, ErrorCode::InvalidArgument,
              "weights is null: KILN_COMBINE_APPLY_WEIGHTS needs them");
    v.number(F::Weights, "weights",
             int64_t(!isThere  ? CombineWeights::None
                     : applies ? CombineWeights::Applied
                               : CombineWeights::Present));
    if (isThere)
      v.array({.name = "weights",
               .address = args.weights,
               .index = CombineOperand::Weights,
               .rowLength = args.top_k});
  }
};
} // namespace

constexpr CallReader kCombineCall =
    makeCallReader<CombineVisit>(KILN_FAMILY_COMBINE);

} // namespace kiln
