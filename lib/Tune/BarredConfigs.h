//===- BarredConfigs.h - what may not be a member of a portfolio ----------===//
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
  /// Bars \p config if \p kernel, which was wrong, is what it compiles to
  /// today.
  void addFault(llvm::StringRef config, llvm::StringRef kernel);
  /// Bars what \p facts say could not run, and ran nowhere, and what they found
  /// wrong, where \p verdicts still say so on devices of \p deviceClass.
  void addFacts(const RangeFacts &facts, const Verdicts &verdicts,
                llvm::StringRef deviceClass);
  /// Bars what trials found wrong on devices of \p deviceClass, wherever.
  void addWrong(const Verdicts &verdicts, llvm::StringRef deviceClass);

  bool contains(const Template &tmpl, const Values &config) const;
  bool empty() const { return list.empty(); }

private:
  struct Entry {
    const Template *tmpl = nullptr;
    std::vector<int64_t> knobs; ///< Values::compiledKnobs(): a kernel's
  };
  const ProblemRange range;
  const DeviceModel &device;
  std::vector<Entry> list;
};

} // namespace kiln
