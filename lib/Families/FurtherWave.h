//===- FurtherWave.h - what one tile more on each SM would cost -----------===//
#pragma once

#include "Kernel/Derivation.h"

#include <string>

namespace kiln {

/// A kernel whose work runs in waves, or in turns of blocks that stay.
struct FurtherWave {
  llvm::StringRef pieces = "blocks"; ///< of the work, a literal
  llvm::StringRef places = "SMs";    ///< that have them, a literal
  double count = 0;                  ///< of the pieces
  double placeCount = 1;
  double room = 0; ///< pieces that the last wave could have beside its own
  /// A further wave with one piece in each place, and all waves there are.
  StepTerm further = {}, all = {};
  std::string note = {}; ///< behind the formula
};

/// Appends how many pieces a place has, and the share of all waves that a
/// further one would take. With at least four pieces in each place that is a
/// quarter or so, the usual check of a grid. Appends nothing if waves take no
/// time.
void explainFurtherWave(const FurtherWave &wave, Derivation &steps);

} // namespace kiln
