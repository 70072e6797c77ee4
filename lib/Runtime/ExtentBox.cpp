//===- ExtentBox.cpp - the parts of a problem's ranges --------------------===//
#include "Runtime/ExtentBox.h"

#include "Call/CanonicalProblem.h"

#include <algorithm>
#include <bit>

namespace kiln {

bool ExtentBox::contains(const std::vector<ExtentRange> &ranges,
                         llvm::ArrayRef<int64_t> values) const {
  for (size_t i = 0; i < ranges.size(); ++i)
    if (values[ranges[i].field] < low[i] || values[ranges[i].field] > high[i])
      return false;
  return true;
}

bool ExtentBox::covers(const KernelFamily &family,
                       const std::vector<ExtentRange> &ranges,
                       llvm::ArrayRef<int64_t> values) const {
  if (!contains(ranges, values))
    return false;
  // A leading dimension is no field of the one problem whose rows it packs, so
  // what was described is made canonical at these extents.
  Record record = described;
  for (const ExtentRange &range : ranges)
    record.set(range.field, values[range.field]);
  auto problem = makeProblem(family, std::move(record));
  if (!problem) {
    llvm::consumeError(problem.takeError());
    return false;
  }
  llvm::ArrayRef<int64_t> own = problem->record.values();
  return own == values.take_front(own.size()) &&
         problem->signature == largest.signature;
}

namespace {
/// One bucket of one range.
struct Interval {
  int64_t low, high, common;
};
} // namespace

static std::vector<Interval> intervalsOf(const ExtentRange &range) {
  std::vector<Interval> intervals;
  for (int64_t low = std::max<int64_t>(range.first, 1); low <= range.last;) {
    // Buckets end at powers of two.
    int64_t high = std::min(range.last, static_cast<int64_t>(std::bit_ceil(
                                            static_cast<uint64_t>(low))));
    bool hasHint = low <= range.hint && range.hint <= high;
    intervals.push_back({low, high, hasHint ? range.hint : high});
    low = high + 1;
  }
  return intervals;
}

/// Adds a box for each signature that the values of \p box take.
static llvm::Error addBoxes(const ProblemSpec &spec, const ExtentBox &box,
                            llvm::ArrayRef<int64_t> common,
                            std::vector<ExtentBox> &boxes) {
  size_t firstOfBox = boxes.size();
  auto smallest = spec.at(box.low);
  if (!smallest)
    return smallest.takeError();
  for (int64_t back = 0; back < spec.family->signaturePeriod(); ++back) {
    llvm::SmallVector<int64_t, 2> values(box.high);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = std::max(box.low[i], values[i] - back);
    auto largest = spec.at(values);
    if (!largest)
      return largest.takeError();
    bool isKnown = false;
    for (size_t i = firstOfBox; i < boxes.size(); ++i)
      isKnown |= boxes[i].largest.signature == largest->signature;
    if (isKnown)
      continue;
    ExtentBox added = box;
    auto typical = spec.at(common);
    if (!typical)
      return typical.takeError();
    added.common =
        typical->signature == largest->signature ? *typical : *largest;
    added.largest = std::move(*largest);
    added.described = spec.recordAt(values);
    added.smallest = smallest->record;
    boxes.push_back(std::move(added));
    if (spec.ranges.empty())
      break;
  }
  return llvm::Error::success();
}

llvm::Expected<std::vector<ExtentBox>> boxesOf(const ProblemSpec &spec) {
  std::vector<std::vector<Interval>> choices;
  for (const ExtentRange &range : spec.ranges)
    choices.push_back(intervalsOf(range));
  std::vector<ExtentBox> boxes;
  for (const auto &intervals : choices)
    if (intervals.empty())
      return boxes;
  // Counts through all combinations of one interval of each range.
  std::vector<size_t> digit(spec.ranges.size(), 0);
  for (;;) {
    ExtentBox box;
    llvm::SmallVector<int64_t, 2> common;
    for (size_t i = 0; i < spec.ranges.size(); ++i) {
      const Interval &interval = choices[i][digit[i]];
      box.low.push_back(interval.low);
      box.high.push_back(interval.high);
      common.push_back(interval.common);
    }
    if (auto error = addBoxes(spec, box, common, boxes))
      return error;
    size_t position = 0;
    while (position < digit.size() &&
           ++digit[position] == choices[position].size())
      digit[position++] = 0;
    if (position == digit.size())
      return boxes;
  }
}

} // namespace kiln
