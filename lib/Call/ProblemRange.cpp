//===- ProblemRange.cpp - problems that differ in a few extents -----------===//
#include "Call/ProblemRange.h"

#include "Call/CanonicalProblem.h"
#include "Support/Error.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <numeric>

namespace kiln {

/// Calls \p visit with the distances by which \p count values are stepped back,
/// nearest first, until it returns true: all combinations below \p period.
static bool
visitSteps(size_t count, int64_t period,
           llvm::function_ref<bool(llvm::ArrayRef<int64_t>)> visit) {
  ExtentPoint back(count, 0);
  for (;;) {
    if (visit(back))
      return true;
    size_t field = 0;
    while (field < count && ++back[field] == period)
      back[field++] = 0;
    if (field == count)
      return false;
  }
}

llvm::Expected<Problem> ProblemRange::at(llvm::ArrayRef<int64_t> point) const {
  FieldValues values(described.array());
  for (auto [field, value] : llvm::zip_equal(fields, point))
    values[field] = value;
  fitHints(described.schema(), values);
  return makeProblem(*family, Values(described.schema(), values));
}

std::optional<Problem> ProblemRange::find(llvm::ArrayRef<int64_t> point) const {
  auto problem = at(point);
  if (problem && problem->signature == signature)
    return std::move(*problem);
  if (!problem)
    llvm::consumeError(problem.takeError());
  return std::nullopt;
}

std::optional<Problem>
ProblemRange::covering(llvm::ArrayRef<int64_t> point) const {
  ProblemRange general = *this;
  general.described = generalised(described);
  return general.find(point);
}

bool ProblemRange::contains(llvm::ArrayRef<int64_t> point) const {
  for (size_t i = 0; i < low.size(); ++i)
    if (point[i] < low[i] || point[i] > high[i])
      return false;
  return true;
}

ExtentPoint ProblemRange::pointOf(const Values &problem) const {
  ExtentPoint point;
  for (int field : fields)
    point.push_back(problem[field]);
  return point;
}

ExtentPoint ProblemRange::clamp(llvm::ArrayRef<int64_t> point) const {
  ExtentPoint inside(point.begin(), point.end());
  for (size_t i = 0; i < inside.size(); ++i)
    inside[i] = std::clamp(inside[i], low[i], high[i]);
  return inside;
}

ExtentPoint ProblemRange::alignDown(llvm::ArrayRef<int64_t> point) const {
  ExtentPoint found;
  visitSteps(point.size(), family->signaturePeriod(),
             [&](llvm::ArrayRef<int64_t> back) {
               ExtentPoint stepped(point.begin(), point.end());
               for (size_t i = 0; i < stepped.size(); ++i)
                 stepped[i] -= back[i];
               if (!contains(stepped) || !find(stepped))
                 return false;
               found = std::move(stepped);
               return true;
             });
  return found;
}

std::string ProblemRange::text() const {
  std::string text;
  for (size_t i = 0; i < fields.size(); ++i)
    text += fmt::format("{}{}={}..{}", i ? " " : "",
                        described.schema().fields()[fields[i]].key, low[i],
                        high[i]);
  return text;
}

std::string ProblemRange::fixedText() const {
  Values fixed = generalised(described);
  std::string names;
  for (int field : fields) {
    fixed.set(field, 0);
    names += fmt::format(" {}", described.schema().fields()[field].key);
  }
  return fmt::format("{}\nover{}\nsignature {}\n", fixed.text(), names,
                     signature.text());
}

void fitHints(const Schema &schema, llvm::MutableArrayRef<int64_t> values) {
  for (int extent : schema.dynamicExtents()) {
    const int hint = schema.hintOf(extent);
    if (hint >= 0 && values[hint] >= values[extent])
      values[hint] = 0;
  }
}

llvm::Expected<std::vector<ProblemRange>>
rangesOf(const KernelFamily &family, const Values &described,
         llvm::ArrayRef<int> fields, llvm::ArrayRef<int64_t> low,
         llvm::ArrayRef<int64_t> high) {
  ProblemRange whole;
  whole.family = &family;
  whole.described = described;
  llvm::SmallVector<size_t, 4> order(fields.size());
  std::iota(order.begin(), order.end(), size_t(0));
  llvm::sort(order, [&](size_t a, size_t b) { return fields[a] < fields[b]; });
  for (size_t i : order) {
    whole.fields.push_back(fields[i]);
    whole.low.push_back(std::max<int64_t>(low[i], 1));
    whole.high.push_back(high[i]);
  }
  std::vector<ProblemRange> ranges;
  if (!whole.contains(whole.high))
    return ranges;
  ErrorSummary failure;
  visitSteps(fields.size(), family.signaturePeriod(),
             [&](llvm::ArrayRef<int64_t> back) {
               ProblemRange range = whole;
               for (size_t i = 0; i < fields.size(); ++i)
                 range.high[i] -= back[i];
               if (!whole.contains(range.high))
                 return false;
               auto problem = whole.at(range.high);
               if (!problem) {
                 failure = summarize(problem.takeError());
                 return true;
               }
               range.signature = problem->signature;
               if (llvm::none_of(ranges, [&](const ProblemRange &known) {
                     return known.signature == range.signature;
                   }))
                 ranges.push_back(std::move(range));
               return false;
             });
  if (failure.code != ErrorCode::Success)
    return errorOf(failure);
  return ranges;
}

} // namespace kiln
