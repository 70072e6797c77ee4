//===- Study.h - kiln bench --set: what each decision is worth ------------===//
#pragma once

#include "kiln/CommonOptions.h"

#include <llvm/Support/Error.h>

#include <optional>
#include <string>

namespace kiln::cli {

/// The set that --set names, else KERNELS where all problems are of families
/// with sets. nullopt: no study is asked for. Errors: InvalidArgument for
/// options of studies without one, and for a name that is nowhere.
llvm::Expected<std::optional<std::string>>
studySetOf(const ParsedOptions &options, const Environment &environment,
           llvm::ArrayRef<Case> cases);

/// Measures every config of \p set on each of \p cases beside the others, after
/// comparing it with the reference. Minutes.
llvm::Expected<int> runStudy(const ParsedOptions &options,
                             const Environment &environment,
                             llvm::ArrayRef<Case> cases,
                             const std::string &set);

} // namespace kiln::cli
