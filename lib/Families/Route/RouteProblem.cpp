//===- RouteProblem.cpp ---------------------------------------------------===//
#include "Families/Route/RouteProblem.h"

#include "Families/ProblemFields.h"
#include "Families/SignatureFields.h"

#include <cassert>

namespace kiln {

static constexpr FieldName kRouterTypes[] = {{int64_t(DType::BF16), "bf16"},
                                             {int64_t(DType::FP16), "fp16"},
                                             {int64_t(DType::FP32), "fp32"}};
static constexpr FieldName kScores[] = {
    {int64_t(RouterScore::Softmax), "softmax"},
    {int64_t(RouterScore::Sigmoid), "sigmoid"}};

/// A number that no choice depends on, and kernels are told at launch.
static Field placeField(llvm::StringRef key, int64_t maximum) {
  return {.key = key, .role = FieldRole::Capacity, .maximum = maximum};
}

static_assert(kRouteExperts == KILN_ROUTE_MAX_EXPERTS &&
              kRouteTopK == KILN_ROUTE_MAX_TOP_K);

static std::vector<Field> routeFields() {
  constexpr int64_t kMostAlign = 4096;
  static_assert(kMaxRouteTokens * KILN_ROUTE_MAX_TOP_K +
                        KILN_ROUTE_MAX_EXPERTS * kMostAlign <=
                    kMaxExtent,
                "rows are int32");
  Field groupAlign = placeField("group_align", kMostAlign);
  groupAlign.defaultValue = groupAlign.minimum = 1;
  return {
      {.key = "tokens",
       .role = FieldRole::DynamicExtent,
       .required = true,
       .maximum = kMaxRouteTokens},
      {.key = "experts",
       .required = true,
       .minimum = 1,
       .maximum = KILN_ROUTE_MAX_EXPERTS},
      // Models fix it, although no kernel is made for it.
      {.key = "topk",
       .role = FieldRole::Signature,
       .required = true,
       .minimum = 1,
       .maximum = KILN_ROUTE_MAX_TOP_K},
      enumField("dtype", true, kRouterTypes),
      enumField("score", false, kScores),
      flagField("renorm"),
      flagField("logit_bias"),
      flagField("choice_bias"),
      {.key = "groups", .maximum = KILN_ROUTE_MAX_GROUPS},
      {.key = "top_groups", .maximum = KILN_ROUTE_MAX_GROUPS},
      flagField("group_max"),
      placeField("first", KILN_ROUTE_MAX_EXPERTS - 1),
      placeField("local", KILN_ROUTE_MAX_EXPERTS),
      groupAlign,
      flagField("count"),
      flagField("chosen"),
      flagField("sizes"),
      scalarField("scale", 1),
      leadingDimensionField("ldx"),
      alignField(),
  };
}

const Schema &routeProblemSchema() {
  static const Schema &schema =
      *new Schema("route", TextStyle::Spaced, routeFields());
  assert(schema.fields().size() == RouteField::Count);
  return schema;
}

RouteProblem readRouteProblem(const int64_t *values) {
  using F = RouteField;
  RouteProblem p;
  p.tokens = values[F::Tokens];
  p.experts = values[F::Experts];
  p.topK = values[F::TopK];
  p.dtype = static_cast<DType>(values[F::DType]);
  p.score = static_cast<RouterScore>(values[F::Score]);
  p.renormalizes = values[F::Renorm] != 0;
  p.logitBias = values[F::LogitBias] != 0;
  p.choiceBias = values[F::ChoiceBias] != 0;
  p.groups = values[F::Groups];
  p.topGroups = values[F::TopGroups];
  p.groupMax = values[F::GroupMax] != 0;
  p.first = values[F::First];
  p.local = values[F::Local] ? values[F::Local] : p.experts - p.first;
  p.groupAlign = values[F::GroupAlign];
  p.tokenCount = values[F::TokenCount] != 0;
  p.chosen = values[F::Chosen] != 0;
  p.sizes = values[F::Sizes] != 0;
  p.scale = decodeReal(values[F::Scale]);
  p.ld = values[F::LdX] ? values[F::LdX] : p.experts;
  p.align = values[F::Align];
  return p;
}

RouteSignature signatureOf(const RouteProblem &p) {
  RouteSignature signature;
  signature.in = p.dtype;
  signature.sigmoid = p.score == RouterScore::Sigmoid;
  signature.grouped = p.isGrouped();
  signature.greatest = p.isGrouped() && p.groupMax;
  signature.byScore = p.choiceBias || (p.isGrouped() && !p.groupMax);
  return signature;
}

//===----------------------------------------------------------------------===//
// The signature
//===----------------------------------------------------------------------===//

static constexpr SignatureFields kRouteSignatureFields(
    SignatureField{"in", "in", &RouteSignature::in, true, kRouterTypes},
    SignatureField{"sigmoid", "sigmoid", &RouteSignature::sigmoid},
    SignatureField{"by_score", "byScore", &RouteSignature::byScore},
    SignatureField{"grouped", "grouped", &RouteSignature::grouped},
    SignatureField{"greatest", "greatest", &RouteSignature::greatest});

Values toValues(const RouteSignature &signature) {
  static const Schema &schema =
      *new Schema(kRouteSignatureFields.schema("route"));
  return kRouteSignatureFields.toValues(signature, schema);
}

RouteSignature readRouteSignature(const Values &values) {
  return kRouteSignatureFields.fromValues(values);
}

std::string initializerText(const RouteSignature &signature) {
  return kRouteSignatureFields.initializer(signature);
}

} // namespace kiln
