//===- RouteFamily.cpp ----------------------------------------------------===//
//
// RouteOperands.cpp has the operands of trials and their data.
//
//===----------------------------------------------------------------------===//
#include "Families/Route/RouteFamily.h"

#include "Families/Families.h"
#include "Families/ProblemFields.h"
#include "Support/Error.h"

namespace kiln {

namespace {

class RouteFamily final : public KernelFamily {
public:
  RouteFamily() {
    addTemplate(makeClusterRouteTemplate());
    addTemplate(makeSpreadRouteTemplate());
  }

  llvm::StringRef name() const override { return "route"; }
  const Schema &problemSchema() const override { return routeProblemSchema(); }
  const CallReader *call() const override { return &kRouteCall; }

  llvm::Expected<Problem> canonicalise(Values values) const override;

  /// Without tokens ends are written.
  bool isEmpty(const Problem &) const override { return false; }

  OperandTable operands(const Problem &problem) const override {
    return routeOperands(read(problem));
  }

  /// The number of tokens is in no signature.
  int64_t signaturePeriod() const override { return 1; }

  llvm::StringRef example() const override {
    return "tokens=64 experts=128 topk=8 dtype=bf16 renorm=1";
  }
  llvm::ArrayRef<llvm::StringRef> combinations() const override;
  PoolDraws poolDraws(const Values &described) const override;
  Peer peer(const Problem &) const override { return Peer::Stream; }

  std::unique_ptr<Reference>
  reference(const Problem &problem, const DeviceModel &device) const override {
    return makeRouteReference(problem, device);
  }

  double flops(const Problem &) const override { return 0; }
  /// Only the rows of groups are written of the index.
  double compulsoryBytes(const Problem &problem) const override {
    const RouteProblem p = read(problem);
    return KernelFamily::compulsoryBytes(problem) -
           (double(p.indexRoom()) - p.expectedRows()) * bytesOf(DType::INT32);
  }

private:
  static RouteProblem read(const Problem &problem) {
    return readRouteProblem(problem.values.array().data());
  }
};

} // namespace

llvm::ArrayRef<llvm::StringRef> RouteFamily::combinations() const {
  static constexpr llvm::StringRef kTexts[] = {
      "experts=256 topk=8 groups=8 top_groups=4 score=sigmoid choice_bias=1",
      "experts=160 topk=6 groups=8 top_groups=3 group_max=1",
      "experts=128 topk=8 first=32 local=32 group_align=128",
      "experts=128 topk=8",
  };
  return kTexts;
}

/// Routers of models, and batches of decoding and of prefill.
PoolDraws RouteFamily::poolDraws(const Values &) const {
  using F = RouteField;
  constexpr int64_t kLeastExperts = 8, kMostExperts = 512;
  constexpr int64_t kMostTokens = 65536;
  PoolDraws draws;
  draws.layer = {{.field = F::Experts,
                  .low = kLeastExperts,
                  .high = kMostExperts,
                  .step = kLeastExperts}};
  draws.extents = {{.field = F::Tokens, .high = kMostTokens}};
  return draws;
}

//===----------------------------------------------------------------------===//
// Canonical form
//===----------------------------------------------------------------------===//

static llvm::Error checkGroups(const RouteProblem &p) {
  if (p.allGroupsStay())
    return llvm::Error::success();
  if (p.groups == 0)
    return makeError(ErrorCode::InvalidArgument,
                     "route: top_groups={} without groups", p.topGroups);
  if (p.experts % p.groups != 0)
    return makeError(ErrorCode::InvalidArgument,
                     "route: groups={} does not divide experts={}", p.groups,
                     p.experts);
  if (p.topGroups < 1 || p.topGroups > p.groups)
    return makeError(ErrorCode::InvalidArgument,
                     "route: top_groups={}, of groups={}: it is from 1 on to "
                     "their number",
                     p.topGroups, p.groups);
  const int64_t size = p.experts / p.groups;
  if (p.topGroups * size < p.topK)
    return makeError(ErrorCode::InvalidArgument,
                     "route: topk={} of top_groups={}, which have {} experts",
                     p.topK, p.topGroups, p.topGroups * size);
  if (!p.groupMax && size < 2)
    return makeError(ErrorCode::InvalidArgument,
                     "route: groups={} of experts={} have one each: there are "
                     "no two to add up",
                     p.groups, p.experts);
  return llvm::Error::success();
}

static llvm::Error checkRoute(const RouteProblem &p) {
  if (p.topK > p.experts)
    return makeError(ErrorCode::InvalidArgument,
                     "route: topk={} is above experts={}", p.topK, p.experts);
  if (auto error = checkGroups(p))
    return error;
  if (p.first >= p.experts)
    return makeError(ErrorCode::InvalidArgument,
                     "route: first={} is not below experts={}", p.first,
                     p.experts);
  if (p.local > p.experts - p.first)
    return makeError(ErrorCode::InvalidArgument,
                     "route: first={} local={} are not among experts={}",
                     p.first, p.local, p.experts);
  if (p.scale == 0)
    return makeError(ErrorCode::InvalidArgument,
                     "route: scale=0 makes all weights 0");
  return checkScalar("route", "scale", p.scale);
}

llvm::Expected<Problem> RouteFamily::canonicalise(Values values) const {
  using F = RouteField;
  if (auto error = values.check())
    return error;
  RouteProblem p = readRouteProblem(values.array().data());
  if (auto error = checkRoute(p))
    return error;
  if (auto error = checkAlign(name(), p.align, bytesOf(p.dtype)))
    return error;
  if (auto error = checkMatrix(name(), "ldx", p.tokens, p.experts, p.ld))
    return error;
  // Values that equal a derived default, or are never read, become the default.
  auto reset = [&](int field, bool isDefault) {
    if (isDefault)
      values.set(field, 0);
  };
  reset(F::Groups, p.allGroupsStay());
  reset(F::TopGroups, p.allGroupsStay());
  reset(F::GroupMax, p.allGroupsStay());
  reset(F::Local, p.local == p.experts - p.first);
  reset(F::LdX, p.ld == p.experts);
  p = readRouteProblem(values.array().data());
  return Problem{std::move(values), toValues(signatureOf(p))};
}

std::unique_ptr<KernelFamily> makeRouteFamily() {
  return std::make_unique<RouteFamily>();
}

} // namespace kiln
