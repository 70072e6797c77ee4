//===- RangeTesting.h - ranges of the built-in families -------------------===//
#pragma once

#include "Call/ProblemRange.h"
#include "Device/Catalog.h"
#include "Families/Families.h"
#include "Kernel/Space.h"
#include "Support/Error.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace kiln::testing {

inline const Registry &builtinFamilies() {
  static const Registry registry = makeBuiltinRegistry();
  return registry;
}

inline const DeviceModel &h200() {
  static const DeviceModel model = llvm::cantFail(findDevice("h200-sxm"));
  return model;
}

/// Values of one field of a range.
struct Span {
  const char *field;
  int64_t low, high;
};

/// All ranges of \p spans of the problem of \p text.
inline std::vector<ProblemRange> rangesOf(const Registry &registry,
                                          llvm::StringRef text,
                                          const std::vector<Span> &spans) {
  auto named = registry.parseProblem(text);
  if (!named)
    FAIL(summarize(named.takeError()).message);
  llvm::SmallVector<int, 2> fields;
  ExtentPoint low, high;
  for (const Span &span : spans) {
    fields.push_back(named->family->problemSchema().find(span.field));
    REQUIRE(fields.back() >= 0);
    low.push_back(span.low);
    high.push_back(span.high);
  }
  auto ranges =
      kiln::rangesOf(*named->family, named->problem.values, fields, low, high);
  if (!ranges)
    FAIL(summarize(ranges.takeError()).message);
  return *ranges;
}

/// The only range of a problem.
inline ProblemRange rangeOf(llvm::StringRef text,
                            const std::vector<Span> &spans) {
  auto ranges = rangesOf(builtinFamilies(), text, spans);
  REQUIRE(ranges.size() == 1);
  return ranges.front();
}

/// The least time of the space of \p problem, by the estimate.
inline double leastNs(const KernelFamily &family, const Problem &problem,
                      const DeviceModel &device) {
  Space space = llvm::cantFail(exploreSpace(family, problem, device));
  double least = space.ranked.front().estimate.totalNs;
  for (const Candidate &candidate : space.ranked)
    least = std::min(least, candidate.estimate.totalNs);
  return least;
}

} // namespace kiln::testing
