//===- Wgmma.cpp ----------------------------------------------------------===//
#include "Model/Wgmma.h"

#include <algorithm>

namespace kiln {

/// Clocks of a wide wgmma, a column.
static constexpr double kClocksPerColumn = 0.507;

double wgmmaClocks(int columns) {
  // H100, third-party unit tests: n = 8 18.9, 16 20.7, 32 24.7, 64 32.8,
  // 128 65, 192 97.1, 256 129.3.
  return std::max(kClocksPerColumn * columns, 17.0 + 0.245 * columns);
}

double wgmmaBusyClocks(double count, int columns) {
  return count * kClocksPerColumn * columns;
}

} // namespace kiln
