//===- CacheVerdicts.h - kiln cache verdicts ------------------------------===//
#pragma once

#include "Cache/Store.h"
#include "cli/Options.h"

#include <llvm/Support/Error.h>

#include <string>

namespace kiln::cli {

/// Lists the kernels that trials found wrong, or with --clear takes verdicts
/// back: all, or those of the kernel that --kernel names by the first digits of
/// its digest.
llvm::Expected<int> runVerdicts(const ParsedOptions &options,
                                cache::Store &store, std::string root);

} // namespace kiln::cli
