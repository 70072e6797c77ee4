//===- FastestVariant.h - a kernel with the run-time knobs of a problem ---===//
//
// The choice behind Template::fastestAt(), for Values and for typed configs.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Estimate.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/SmallVector.h>

#include <optional>
#include <utility>

namespace kiln {

/// Receives the configs of a space, or the variants of a config.
template <class Config> using Emit = llvm::function_ref<void(const Config &)>;

/// Returns the fastest of the variants of \p configs, which are of one kernel,
/// with its time; among equal ones the first. A config that is not a variant
/// has to be faster than all of them by more than a tie. \p forEachVariant
/// calls its second argument with each variant of its first; \p timeOf returns
/// nullopt for a config that may not run.
template <class Config>
std::optional<std::pair<Config, double>> fastestVariant(
    llvm::ArrayRef<Config> configs,
    llvm::function_ref<void(const Config &, Emit<Config>)> forEachVariant,
    llvm::function_ref<std::optional<double>(const Config &)> timeOf) {
  std::optional<std::pair<Config, double>> fastest;
  auto consider = [&](const Config &config, double handicap) {
    const std::optional<double> ns = timeOf(config);
    if (ns && (!fastest || *ns * handicap < fastest->second))
      fastest = {config, *ns};
  };
  // Variants of one kernel have the same variants.
  llvm::SmallVector<Config, 8> variants;
  for (const Config &config : configs)
    if (!llvm::is_contained(variants, config))
      forEachVariant(config, [&](const Config &variant) {
        if (!llvm::is_contained(variants, variant))
          variants.push_back(variant);
      });
  for (const Config &variant : variants)
    consider(variant, /*handicap=*/1);
  for (const Config &config : configs)
    if (!llvm::is_contained(variants, config))
      consider(config, kEstimateTie);
  return fastest;
}

} // namespace kiln
