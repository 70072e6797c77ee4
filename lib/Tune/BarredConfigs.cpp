//===- BarredConfigs.cpp - what may not be a member of a portfolio --------===//
#include "Tune/BarredConfigs.h"

#include "Store/ArtifactStore.h"
#include "Tune/Portfolio.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln {

void BarredConfigs::add(const Template &tmpl, const Record &config) {
  if (!contains(tmpl, config))
    list.push_back({&tmpl, config.compiledKnobs()});
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

void BarredConfigs::addWrong(const Verdicts &verdicts,
                             llvm::StringRef deviceClass) {
  for (const Verdict &verdict : verdicts.list(deviceClass))
    addFault(verdict.config, verdict.kernel);
}

bool BarredConfigs::contains(const Template &tmpl, const Record &config) const {
  if (list.empty())
    return false;
  const std::vector<int64_t> knobs = config.compiledKnobs();
  return llvm::any_of(list, [&](const Entry &known) {
    return known.tmpl == &tmpl && known.knobs == knobs;
  });
}

} // namespace kiln
