//===- RangeFacts.cpp - what records say of a range -----------------------===//
#include "Tune/RangeFacts.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <map>

namespace kiln {

/// A tuned model has thousands of values: so many points beside the anchors are
/// read, evenly spread, and so many of the fastest kernels of each. Trials of a
/// value try up to a hundred, of which those far behind tell little.
static constexpr size_t kMostOtherPoints = 32, kMostOfOthers = 4;

void RangeFacts::addAnchor(const std::shared_ptr<const TuningRecord> &record,
                           const ProblemRange &range, const ExtentPoint &point,
                           const Problem &problem, MeasurementMode mode) {
  const RecordPoint *found =
      record->find(dynamicExtentsOf(*range.family, problem));
  if (!found)
    return;
  for (const Measurement &measurement : found->measurements)
    if (measurement.mode == mode)
      facts.push_back({point, &measurement, /*isAtAnchor=*/true});
}

/// The fastest of \p point that are known to be right.
static std::vector<const Measurement *> fastestOf(const RecordPoint &point,
                                                  MeasurementMode mode) {
  std::vector<const Measurement *> fastest;
  for (const Measurement &measurement : point.measurements)
    if (measurement.mode == mode && measurement.validated)
      fastest.push_back(&measurement);
  llvm::stable_sort(fastest, [](const Measurement *a, const Measurement *b) {
    return a->medianNs < b->medianNs;
  });
  fastest.resize(std::min(fastest.size(), kMostOfOthers));
  return fastest;
}

void RangeFacts::addOthers(const std::shared_ptr<const TuningRecord> &record,
                           const ProblemRange &range,
                           llvm::ArrayRef<std::vector<int64_t>> anchors,
                           MeasurementMode mode) {
  std::vector<size_t> places;
  for (size_t i = 0; i < record->size(); ++i) {
    const ExtentPoint &point = record->extentsAt(i);
    if (record->mayBeProvenAt(i) && range.contains(point) &&
        llvm::none_of(anchors, [&](const std::vector<int64_t> &anchor) {
          return llvm::ArrayRef<int64_t>(point).equals(anchor);
        }))
      places.push_back(i);
  }
  const size_t step = std::max<size_t>(places.size() / kMostOtherPoints, 1);
  for (size_t i = 0; i < places.size(); i += step) {
    const ExtentPoint &point = record->extentsAt(places[i]);
    if (range.find(point))
      for (const Measurement *found : fastestOf(record->at(places[i]), mode))
        facts.push_back({point, found, /*isAtAnchor=*/false});
  }
}

RangeFacts RangeFacts::find(const RecordStore &records,
                            const ProblemRange &range,
                            llvm::ArrayRef<std::vector<int64_t>> anchors,
                            llvm::StringRef deviceClass, MeasurementMode mode) {
  RangeFacts found;
  const KernelFamily &family = *range.family;
  std::map<std::string, std::shared_ptr<const TuningRecord>> layers;
  for (const std::vector<int64_t> &anchor : anchors) {
    const ExtentPoint point(anchor.begin(), anchor.end());
    const std::optional<Problem> problem = range.find(point);
    if (!problem)
      continue;
    auto &record = layers[family.fixedText(*problem)];
    if (!record)
      record = records.load(family, *problem, deviceClass);
    found.addAnchor(record, range, point, *problem, mode);
  }
  // The points of a record are those of the range where all that varies is a
  // dynamic extent; else a layer is one of many.
  if (layers.size() == 1 && family.dynamicExtents().equals(range.fields))
    found.addOthers(layers.begin()->second, range, anchors, mode);
  for (auto &[layer, record] : layers)
    found.owners.push_back(std::move(record));
  return found;
}

} // namespace kiln
