//===- BarredConfigs.cpp - configs that may not be members ----------------===//
#include "Tune/BarredConfigs.h"

#include "Store/ArtifactStore.h"
#include "Tune/Portfolio.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringSet.h>

namespace kiln {

void BarredConfigs::add(const Template &tmpl, const Values &config) {
  if (!contains(tmpl, config))
    list.push_back({&tmpl, config.compiledKnobs()});
}

void BarredConfigs::addFault(llvm::StringRef config, llvm::StringRef kernel) {
  auto named = range.family->parseConfig(config);
  if (!named) {
    llvm::consumeError(named.takeError()); // of another version
    return;
  }
  // Kernels depend on the signature, but a template may serve only few rows.
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

void BarredConfigs::addFacts(const RangeFacts &facts, const Verdicts &verdicts,
                             llvm::StringRef deviceClass) {
  llvm::StringSet<> running;
  for (const RangeFact &fact : facts.all())
    if (fact.found->valid)
      running.insert(fact.found->kernel);
  for (const RangeFact &fact : facts.all()) {
    const Measurement &found = *fact.found;
    if (found.isWrong()
            ? verdicts.isWrong(deviceClass, found.kernel)
            : found.isRejection() && !running.contains(found.kernel))
      addFault(found.config, found.kernel);
  }
}

void BarredConfigs::addWrong(const Verdicts &verdicts,
                             llvm::StringRef deviceClass) {
  for (const Verdict &verdict : verdicts.list(deviceClass))
    addFault(verdict.config, verdict.kernel);
}

bool BarredConfigs::contains(const Template &tmpl, const Values &config) const {
  if (list.empty())
    return false;
  const std::vector<int64_t> knobs = config.compiledKnobs();
  return llvm::any_of(list, [&](const Entry &known) {
    return known.tmpl == &tmpl && known.knobs == knobs;
  });
}

} // namespace kiln
