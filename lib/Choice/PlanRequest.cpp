//===- PlanRequest.cpp - the problems that a plan is for ------------------===//
#include "Choice/PlanRequest.h"

#include "Call/CanonicalProblem.h"

#include <bit>

namespace kiln {

/// True if both differ in the value of \p extent only.
static bool isAlike(const Problem &a, const Problem &b, int extent) {
  if (!(a.signature == b.signature))
    return false;
  Values moved = a.values;
  moved.set(extent, b.values[extent]);
  return moved == b.values;
}

/// The problem like \p problem with \p value for \p extent; nullopt if a field,
/// or a given leading dimension, leaves no room for it.
static std::optional<Problem> moveTo(const KernelFamily &family,
                                     const Problem &problem, int extent,
                                     int64_t value) {
  Values values = problem.values;
  values.set(extent, value);
  auto moved = makeProblem(family, std::move(values));
  if (moved)
    return std::move(*moved);
  llvm::consumeError(moved.takeError());
  return std::nullopt;
}

int64_t largestValue(const KernelFamily &family, const Problem &problem,
                     int extent, int64_t last) {
  int64_t value = problem.values[extent];
  if (moveTo(family, problem, extent, last))
    return last;
  while (last - value > 1) {
    int64_t middle = value + (last - value) / 2;
    (moveTo(family, problem, extent, middle) ? value : last) = middle;
  }
  return value;
}

/// \p problem without its incidental fields; nullopt if its family refuses
/// that.
static std::optional<Problem> generalForm(const KernelFamily &family,
                                          const Problem &problem) {
  Values general = generalised(problem.values);
  if (general == problem.values)
    return problem;
  auto made = makeProblem(family, std::move(general));
  if (made)
    return std::move(*made);
  llvm::consumeError(made.takeError());
  return std::nullopt;
}

Problem generalProblem(const KernelFamily &family, const Problem &problem) {
  return generalForm(family, problem).value_or(problem);
}

bool hasGeneralForm(const KernelFamily &family, const Problem &problem) {
  return generalForm(family, problem).has_value();
}

/// The largest problem up to the next power of two, or up to the next of \p
/// parts equal parts of it, that differs from \p problem in the value of \p
/// extent only.
static Problem raise(const KernelFamily &family, const Problem &problem,
                     int extent, int64_t parts) {
  const int64_t value = problem.values[extent];
  if (value < 1)
    return problem;
  const auto power =
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(value)));
  const int64_t part = std::max<int64_t>(power / parts, 1);
  const int64_t last =
      largestValue(family, problem, extent, (value + part - 1) / part * part);
  // Signatures repeat. If the largest value fills a leading dimension, its
  // problem has packed rows and differs.
  const int64_t looked = family.signaturePeriod() + 1;
  for (int64_t largest = last; largest > std::max(value, last - looked);
       --largest) {
    std::optional<Problem> cover = moveTo(family, problem, extent, largest);
    if (cover && isAlike(*cover, problem, extent))
      return std::move(*cover);
  }
  return problem;
}

static Problem raiseAll(const KernelFamily &family, const Problem &problem,
                        int64_t parts) {
  Problem cover = generalProblem(family, problem);
  for (int extent : family.dynamicExtents())
    cover = raise(family, cover, extent, parts);
  return cover;
}

Problem coverOf(const KernelFamily &family, const Problem &problem) {
  return raiseAll(family, problem, 1);
}

std::optional<Problem>
furthestOf(const KernelFamily &family, const Problem &own,
           const Problem &beyond,
           llvm::function_ref<bool(const Problem &)> mayRun) {
  if (family.dynamicExtents().size() != 1 || !mayRun(own))
    return std::nullopt;
  const int extent = family.dynamicExtents().front();
  const int64_t first = own.values[extent], period = family.signaturePeriod();
  Problem best = own;
  // The search counts in periods, so that alignments stay as they are.
  int64_t low = 0, high = (beyond.values[extent] - first) / period + 1;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    auto moved = moveTo(family, own, extent, first + middle * period);
    if (moved && isAlike(*moved, own, extent) && mayRun(*moved)) {
      best = std::move(*moved);
      low = middle;
    } else {
      high = middle;
    }
  }
  return best;
}

PlanTargets PlanRequest::targets() const {
  constexpr int64_t kParts = 8;
  PlanTargets targets;
  targets.all.push_back(coverOf(family, problem));
  Problem finer = raiseAll(family, problem, kParts);
  if (finer.values != targets.all.front().values) {
    targets.all.push_back(std::move(finer));
    targets.shared = 2;
  }
  Problem own = generalProblem(family, problem);
  if (own.values != targets.all.back().values)
    targets.all.push_back(std::move(own));
  return targets;
}

} // namespace kiln
