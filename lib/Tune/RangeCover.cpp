//===- RangeCover.cpp - the fewest kernels for a range --------------------===//
#include "Tune/RangeCover.h"

#include "Support/Error.h"

namespace kiln {

llvm::Expected<Portfolio> coverRange(const ProblemRange &range,
                                     const DeviceModel &device,
                                     const CoverOptions &options) {
  Portfolio portfolio(range);
  portfolio.tolerance = options.tolerance;
  portfolio.mutableMembers() = options.kept;
  portfolio.index(device);
  return portfolio;
}

} // namespace kiln
