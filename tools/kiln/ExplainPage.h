//===- ExplainPage.h - an explanation as a page ---------------------------===//
#pragma once

#include "Choice/Explanation.h"

#include <llvm/ADT/ArrayRef.h>

#include <string>

namespace kiln::cli {

/// \p e as one HTML file: roofline, the path of the kernel to scale, waves,
/// terms beside those of the runner-up, the derivation with the source of each
/// value, what else would be chosen. \p ranked are the candidates of the
/// problem, best first. Takes milliseconds.
std::string explainPage(const Explanation &e, llvm::ArrayRef<Candidate> ranked);

} // namespace kiln::cli
