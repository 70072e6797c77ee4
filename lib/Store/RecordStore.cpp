//===- RecordStore.cpp - records in the cache -----------------------------===//
#include "Store/RecordLine.h"
#include "Store/Verdicts.h"

#include <cassert>

namespace kiln {

RecordStore::RecordStore(cache::Store &cache, RecordStoreOptions options)
    : entries(cache, options),
      wrong(std::make_unique<Verdicts>(cache, options.recheckInterval,
                                       options.readsOnce)) {}

RecordStore::~RecordStore() = default;

RecordMatch RecordStore::find(const KernelFamily &family,
                              const Problem &problem,
                              llvm::StringRef deviceClass, MeasurementMode mode,
                              RecordAge age) const {
  const std::string key = recordKey(family, problem, deviceClass);
  auto loaded = entries.load(key, age);
  RecordMatch match = matchRecord(std::move(loaded.document), family,
                                  dynamicExtentsOf(family, problem), mode);
  match.skipped += !loaded.isReadable;
  return match;
}

std::shared_ptr<const TuningRecord>
RecordStore::load(const KernelFamily &family, const Problem &problem,
                  llvm::StringRef deviceClass) const {
  return entries.load(recordKey(family, problem, deviceClass), RecordAge::Now)
      .document;
}

MergedStore<TuningRecord>::Updated
RecordStore::merge(const KernelFamily &family, const Problem &problem,
                   llvm::StringRef deviceClass,
                   llvm::ArrayRef<RecordPoint> points) {
  llvm::json::Object attributes{{"family", family.name()},
                                {"problem", family.fixedText(problem)},
                                {"device", deviceClass}};
  const int64_t nowMs = unixTimeMs();
  return entries.update(recordKey(family, problem, deviceClass),
                        std::move(attributes), [&](TuningRecord &record) {
                          for (const RecordPoint &point : points)
                            record.merge(point, nowMs, kMaxMeasurements);
                        });
}

cache::PublishResult RecordStore::storeAll(const KernelFamily &family,
                                           const Problem &problem,
                                           llvm::StringRef deviceClass,
                                           llvm::ArrayRef<RecordPoint> points) {
  return merge(family, problem, deviceClass, points).publish;
}

RecordStore::StoreResult RecordStore::store(const KernelFamily &family,
                                            const Problem &problem,
                                            llvm::StringRef deviceClass,
                                            const RecordPoint &point) {
  assert(point.extents == dynamicExtentsOf(family, problem) &&
         "the point belongs to another problem");
  auto updated = merge(family, problem, deviceClass, point);
  const RecordPoint *now =
      updated.document ? updated.document->find(point.extents) : nullptr;
  if (updated.document && !now)
    updated.publish = {cache::PublishStatus::Dropped,
                       "the record has no room for another point"};
  return {now ? *now : point, std::move(updated.publish)};
}

} // namespace kiln
