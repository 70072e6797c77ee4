//===- BarredConfigs.cpp - what may not be a member of a portfolio --------===//
#include "Tune/BarredConfigs.h"

#include "Store/ArtifactStore.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln {

void BarredConfigs::add(const Template &tmpl, const Record &config) {
  if (!contains(tmpl, config))
    list.push_back({&tmpl, config});
}

void BarredConfigs::addFault(llvm::StringRef config, llvm::StringRef kernel) {
  auto named = range.family->parseConfig(config);
  if (!named) {
    llvm::consumeError(named.takeError()); // of another version
    return;
  }
  // Kernels depend on the signature. But a template may serve few rows alone.
  for (const ExtentPoint &point : {range.high, range.low}) {
    const auto problem = range.find(point);
    if (!problem || named->tmpl->prune(*problem, named->config, device))
      continue;
    if (kernelDigest(named->tmpl->plan(*problem, named->config, device)) ==
        kernel)
      add(*named->tmpl, named->config);
    return;
  }
}

void BarredConfigs::addRecorded(const RecordStore &records,
                                llvm::StringRef deviceClass) {
  const auto problem = range.find(range.high);
  if (!problem)
    return;
  auto record = records.load(*range.family, *problem, deviceClass);
  for (const RecordPoint &point : record->points)
    for (const Measurement &measurement : point.measurements)
      if (measurement.isWrong())
        addFault(measurement.config, measurement.kernel);
}

bool BarredConfigs::contains(const Template &tmpl, const Record &config) const {
  return llvm::any_of(list, [&](const Entry &known) {
    return known.tmpl == &tmpl && known.config == config;
  });
}

} // namespace kiln
