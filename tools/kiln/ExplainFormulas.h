//===- ExplainFormulas.h - formulas of pages, with their sources ----------===//
//
// The text of a formula is Derivation's. The page adds a link to each step that
// it refers to and, on each value without parts, a mark of its source.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Derivation.h"
#include "cli/Html.h"

namespace kiln::cli {

/// A link to step \p number, called \p text.
Html stepLink(int number, llvm::StringRef text);
/// The links "[3]" to \p numbers.
Html stepLinks(llvm::ArrayRef<int> numbers);

/// \p pieces with links and marks, without a line end.
Html formulaMarkup(llvm::ArrayRef<FormulaPiece> pieces,
                   const DeviceModel &device);

/// The meaning of the marks.
Html marksLegend(const Derivation &steps, const DeviceModel &device);

/// All steps by section: number, formula, note, verdict. A step is the target
/// of stepLink().
Html stepsMarkup(const Derivation &steps, const DeviceModel &device);

/// Tables of the device's values that formulas have, with their sources, and
/// of the constants that were fitted.
Html sourcesMarkup(const Derivation &steps, const DeviceModel &device);

} // namespace kiln::cli
