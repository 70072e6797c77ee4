//===- QualityPage.h - the quality of the estimate, with plots ------------===//
#pragma once

#include "kiln-bench/QualityReport.h"

#include <string>

namespace kiln::cli {

/// \p report as one HTML file: figures, plots for each family and split, the
/// blame for the largest regrets, the records. Takes milliseconds.
std::string qualityPage(const QualityReport &report);

} // namespace kiln::cli
