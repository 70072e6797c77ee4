//===- PlanRequest.cpp - what a plan is wanted for ------------------------===//
#include "Choice/PlanRequest.h"

#include "Call/CanonicalProblem.h"

#include <bit>
#include <optional>

namespace kiln {

/// True if both differ in the dynamic extent only.
static bool isAlike(const Problem &a, const Problem &b, int dynamic) {
  if (!(a.signature == b.signature))
    return false;
  Record moved = a.record;
  moved.set(dynamic, b.record[dynamic]);
  return moved == b.record;
}

/// The problem like \p problem with \p value for its dynamic extent; nullopt
/// beyond what a field, or a leading dimension that was given, leaves room for.
static std::optional<Problem> moveTo(const KernelFamily &family,
                                     const Problem &problem, int64_t value) {
  Record record = problem.record;
  record.set(family.dynamicExtent(), value);
  auto moved = makeProblem(family, std::move(record));
  if (moved)
    return std::move(*moved);
  llvm::consumeError(moved.takeError());
  return std::nullopt;
}

int64_t largestValue(const KernelFamily &family, const Problem &problem,
                     int64_t last) {
  int64_t value = problem.record[family.dynamicExtent()];
  if (moveTo(family, problem, last))
    return last;
  while (last - value > 1) {
    int64_t middle = value + (last - value) / 2;
    (moveTo(family, problem, middle) ? value : last) = middle;
  }
  return value;
}

Problem coverOf(const KernelFamily &family, const Problem &problem) {
  const int dynamic = family.dynamicExtent();
  if (dynamic < 0 || problem.record[dynamic] < 1)
    return problem;
  const int64_t value = problem.record[dynamic];
  const int64_t last = largestValue(
      family, problem,
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(value))));
  // Signatures repeat. Where the largest value fills a leading
  // dimension, the problem of it is that of packed rows, another one.
  const int64_t looked = family.signaturePeriod() + 1;
  for (int64_t largest = last; largest > std::max(value, last - looked);
       --largest) {
    std::optional<Problem> cover = moveTo(family, problem, largest);
    if (cover && isAlike(*cover, problem, dynamic))
      return std::move(*cover);
  }
  return problem;
}

llvm::SmallVector<Problem, 2> PlanRequest::targets() const {
  Problem cover = coverOf(family, problem);
  if (cover.record == problem.record)
    return {problem};
  return {std::move(cover), problem};
}

} // namespace kiln
