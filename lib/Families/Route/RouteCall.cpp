//===- RouteCall.cpp - kiln_route_args as a call --------------------------===//
#include "Families/Route/RouteFamily.h"

#include "Call/Visit.h"

namespace kiln {

static_assert(int(KILN_ROUTE_LOGITS) == int(RouteOperand::Logits) &&
              int(KILN_ROUTE_LOGIT_BIAS) == int(RouteOperand::LogitBias) &&
              int(KILN_ROUTE_CHOICE_BIAS) == int(RouteOperand::ChoiceBias) &&
              int(KILN_ROUTE_TOKEN_COUNT) == int(RouteOperand::TokenCount) &&
              int(KILN_ROUTE_INDEX) == int(RouteOperand::Index) &&
              int(KILN_ROUTE_ENDS) == int(RouteOperand::Ends) &&
              int(KILN_ROUTE_WEIGHTS) == int(RouteOperand::Weights) &&
              int(KILN_ROUTE_CHOSEN) == int(RouteOperand::Chosen) &&
              int(KILN_ROUTE_SIZES) == int(RouteOperand::Sizes) &&
              int(KILN_ROUTE_SLOT_COUNT) == int(RouteOperand::Count));

namespace {
struct RouteVisit {
  using Args = kiln_route_args;
  using F = RouteField;
  static constexpr int kFields = F::Count;
  static constexpr int kOperands = RouteOperand::Count;
  static constexpr uint32_t kFlags =
      KILN_ROUTE_RENORMALIZE | KILN_ROUTE_GROUP_MAX |
      (2 * KILN_ROUTE_HAS_SIZES - KILN_ROUTE_HAS_LOGIT_BIAS);

  template <class Visitor>
  KILN_INLINE static void visit(const Args &args, Visitor &v) {
    if (!v.begin(args, "kiln_route_args", kFlags))
      return;
    visitProblem(args, v);
    v.isEmpty(false); // ends are written even if there are no tokens
    v.operand({.name = "logits",
               .given = args.logits,
               .index = RouteOperand::Logits,
               .type = args.logits.type,
               .typeOf = "logits",
               .rowLength = args.experts,
               .field = F::LdX,
               .isUsed = args.tokens != 0});
    visitRows(args, v);
    v.scalar({.name = "scale",
              .value = args.scale,
              .field = F::Scale,
              .index = RouteScalar::Scale});
    v.require(args.scale != 0, ErrorCode::InvalidArgument,
              "scale is 0: kiln_route_args_init() sets it to 1");
    v.alignment(F::Align);
  }

  template <class Visitor>
  KILN_INLINE static void visitProblem(const Args &args, Visitor &v) {
    v.number(F::Tokens, "tokens", args.tokens);
    v.number(F::Experts, "experts", args.experts);
    v.number(F::TopK, "top_k", args.top_k);
    v.type(F::DType, "logits.type", args.logits.type, args.logits.type);
    v.choice(F::Score, "score", args.score, args.score);
    v.number(F::Renorm, "flags", (args.flags & KILN_ROUTE_RENORMALIZE) != 0);
    // As canonicalise() has it: nothing is chosen among groups that all stay.
    const bool allStay = args.groups == args.top_groups;
    const bool isNumber =
        (args.groups >= 0) & (args.groups <= KILN_ROUTE_MAX_GROUPS);
    v.require(!allStay || isNumber, ErrorCode::InvalidArgument,
              "groups is {}, it is from 0 to {}", args.groups,
              KILN_ROUTE_MAX_GROUPS);
    v.number(F::Groups, "groups", allStay ? 0 : args.groups);
    v.number(F::TopGroups, "top_groups", allStay ? 0 : args.top_groups);
    v.number(F::GroupMax, "flags",
             !allStay & ((args.flags & KILN_ROUTE_GROUP_MAX) != 0));
  }

  template <class Visitor>
  KILN_INLINE static void visitRows(const Args &args, Visitor &v) {
    v.number(F::First, "first_expert", args.first_expert);
    const int64_t local =
        v.derived(F::Local, "local_experts", args.local_experts,
                  args.experts - args.first_expert);
    const int64_t align = args.align ? args.align : 1;
    v.number(F::GroupAlign, "align", align);
    const int64_t room = static_cast<int64_t>(
        static_cast<uint64_t>(product(args.tokens, args.top_k)) +
        static_cast<uint64_t>(product(local, align - 1)));
    const bool hasTokens = args.tokens != 0;
    auto array = [&](const char *name, const void *address, int index,
                     int64_t length, bool isWritten, bool isUsed) {
      v.array({.name = name,
               .address = address,
               .index = index,
               .rowLength = length,
               .isUsed = isUsed,
               .isWritten = isWritten});
    };
    array("index", args.index, RouteOperand::Index, room, true, room != 0);
    array("ends", args.ends, RouteOperand::Ends, local, true, true);
    array("weights", args.weights, RouteOperand::Weights, args.top_k, true,
          hasTokens);
    auto optional = [&](int field, const char *name, const void *address,
                        kiln_route_flag flag, int index, int64_t length,
                        bool isWritten) {
      const bool isThere = (address != nullptr) | ((args.flags & flag) != 0);
      v.number(field, name, isThere);
      if (isThere)
        array(name, address, index, length, isWritten,
              hasTokens | (index != RouteOperand::Chosen));
    };
    optional(F::LogitBias, "logit_bias", args.logit_bias,
             KILN_ROUTE_HAS_LOGIT_BIAS, RouteOperand::LogitBias, args.experts,
             false);
    optional(F::ChoiceBias, "choice_bias", args.choice_bias,
             KILN_ROUTE_HAS_CHOICE_BIAS, RouteOperand::ChoiceBias, args.experts,
             false);
    optional(F::TokenCount, "token_count", args.token_count,
             KILN_ROUTE_HAS_TOKEN_COUNT, RouteOperand::TokenCount, 1, false);
    optional(F::Chosen, "chosen", args.chosen, KILN_ROUTE_HAS_CHOSEN,
             RouteOperand::Chosen, args.top_k, true);
    optional(F::Sizes, "sizes", args.sizes, KILN_ROUTE_HAS_SIZES,
             RouteOperand::Sizes, local, true);
  }
};
} // namespace

constexpr CallReader kRouteCall = makeCallReader<RouteVisit>(KILN_FAMILY_ROUTE);

} // namespace kiln
