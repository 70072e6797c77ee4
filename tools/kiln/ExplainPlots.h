//===- ExplainPlots.h - rooflines and waves of pages ----------------------===//
#pragma once

#include "Choice/Explanation.h"
#include "cli/Html.h"

#include <llvm/ADT/ArrayRef.h>

namespace kiln::cli {

/// The candidates against the limits of the chip. Where there is arithmetic to
/// tell of: rates of it against intensities, and the roofs. Where memory sets
/// the pace: bandwidth against the bytes in flight of an SM, with the need by
/// Little's law. Else bandwidths alone. \p ranked are best first; the first of
/// each kind are shown. Cost: a derivation each.
Html roofMarkup(const Explanation &e, llvm::ArrayRef<Candidate> ranked);

/// The pieces of the work on the SMs, or on the blocks that stay, wave by wave;
/// empty where there are no waves.
Html wavesMarkup(const Derivation &steps);

} // namespace kiln::cli
