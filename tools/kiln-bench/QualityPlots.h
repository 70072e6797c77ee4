//===- QualityPlots.h - replayed spaces as plots --------------------------===//
#pragma once

#include "cli/Plot.h"
#include "kiln-bench/Quality.h"

#include <string>
#include <utility>
#include <vector>

namespace kiln::cli {

/// Spaces of one family and split, of a report that outlives them.
using SpaceRefs = std::vector<const ReplayedSpace *>;

/// Predicted against measured times of all configs, coloured by template, with
/// the line of equality and the band of 10 % around it. \p templates are those
/// of the family: their order gives the colours, and later ones lie on top.
Html scatterFigure(llvm::StringRef title, const SpaceRefs &spaces,
                   llvm::ArrayRef<std::string> templates);

/// Mean regrets of the first k choices of whole spaces: by the estimate, the
/// classic model and a random order. Empty markup without whole spaces.
Html regretFigure(llvm::StringRef title, const SpaceRefs &spaces);

/// The distribution of the errors of first choices' predicted times, a row for
/// each of \p groups, which have spaces of one split, over \p axis.
Html errorFigure(
    llvm::StringRef split,
    llvm::ArrayRef<std::pair<std::string, const SpaceRefs *>> groups,
    const PlotAxis &axis);
/// An axis with room for all of \p groups, so that figures can be compared.
PlotAxis errorAxis(llvm::ArrayRef<const SpaceRefs *> groups);

/// \p blame as bars: both configs' addends, and both measured times.
Html blameFigure(llvm::StringRef title, const Blame &blame);

/// \p sums as bars, at most \p shown.
Html blameSumFigure(llvm::StringRef title, llvm::ArrayRef<BlameSum> sums,
                    size_t shown);

} // namespace kiln::cli
