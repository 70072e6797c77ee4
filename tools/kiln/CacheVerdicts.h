//===- CacheVerdicts.h - kiln cache verdicts ------------------------------===//
#pragma once

#include "Cache/Store.h"
#include "cli/Options.h"

#include <llvm/Support/Error.h>

#include <string>

namespace kiln::cli {

/// Lists which kernels trials found wrong, or with --clear takes verdicts back:
/// all, or those that --kernel names by the digits that its digest begins with.
llvm::Expected<int> runVerdicts(const ParsedOptions &options,
                                cache::Store &store, std::string root);

} // namespace kiln::cli
