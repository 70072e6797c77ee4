//===- RangeFacts.cpp - the facts of records about a range ----------------===//
#include "Tune/RangeFacts.h"

#include <map>

namespace kiln {

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
    const RecordPoint *known = record->find(dynamicExtentsOf(family, *problem));
    if (!known)
      continue;
    for (const Measurement &measurement : known->measurements)
      if (measurement.mode == mode)
        found.facts.push_back({point, &measurement});
  }
  for (auto &[layer, record] : layers)
    found.owners.push_back(std::move(record));
  return found;
}

} // namespace kiln
