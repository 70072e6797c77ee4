//===- RangeParts.cpp - the parts of a problem's ranges -------------------===//
#include "Call/RangeParts.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln {

llvm::Expected<std::vector<RangePart>> partsOf(const ProblemSpec &spec) {
  llvm::SmallVector<int, 4> fields;
  ExtentPoint low, high, hint;
  bool isHinted = false;
  std::vector<ExtentRange> sorted = spec.ranges;
  llvm::sort(sorted, [](const ExtentRange &a, const ExtentRange &b) {
    return a.field < b.field;
  });
  for (const ExtentRange &range : sorted) {
    fields.push_back(range.field);
    low.push_back(range.first);
    high.push_back(range.last);
    hint.push_back(range.hint ? range.hint : range.last);
    isHinted |= range.hint != 0;
  }
  auto ranges = rangesOf(*spec.family, spec.described, fields, low, high);
  if (!ranges)
    return ranges.takeError();
  std::vector<RangePart> parts;
  for (ProblemRange &range : *ranges) {
    std::optional<Problem> typical = range.find(range.clamp(hint));
    const bool isHint = isHinted && typical;
    if (!typical)
      typical = range.find(range.high);
    if (!typical || spec.family->isEmpty(*typical))
      continue;
    parts.push_back({std::move(range), std::move(*typical), isHint});
  }
  return parts;
}

} // namespace kiln
