//===- BarredConfigs.h - configs that may not be members ------------------===//
//
// Private to the session.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Call/ProblemRange.h"
#include "Store/Verdicts.h"
#include "Tune/RangeFacts.h"

#include <vector>

namespace kiln {

/// Kernels of a range that are known to be wrong, or cannot be had.
class BarredConfigs {
public:
  BarredConfigs(const ProblemRange &range, const DeviceModel &device)
      : range(range), device(device) {}

  void add(const Template &tmpl, const Values &config);
  /// Bars \p config if it compiles to \p kernel today, which was wrong.
  void addFault(llvm::StringRef config, llvm::StringRef kernel);
  /// Bars configs that, by \p facts, could not run and ran nowhere, and those
  /// that were found wrong, if \p verdicts still say so on devices of \p
  /// deviceClass.
  void addFacts(const RangeFacts &facts, const Verdicts &verdicts,
                llvm::StringRef deviceClass);
  /// Bars configs that trials of any problem found wrong on devices of \p
  /// deviceClass.
  void addWrong(const Verdicts &verdicts, llvm::StringRef deviceClass);

  bool contains(const Template &tmpl, const Values &config) const;
  bool empty() const { return list.empty(); }

private:
  struct Entry {
    const Template *tmpl = nullptr;
    std::vector<int64_t> knobs; ///< Values::compiledKnobs() of a kernel
  };
  const ProblemRange range;
  const DeviceModel &device;
  std::vector<Entry> list;
};

} // namespace kiln
