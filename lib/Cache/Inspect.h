//===- Inspect.h - listing and checking a tier ----------------------------===//
#pragma once

#include "Cache/Store.h"
#include "Cache/Tier.h"

#include <vector>

namespace kiln::cache {

/// Why a file with \p status is not used, as the end of a sentence.
llvm::StringRef describe(ReadStatus status);

/// Appends the good entries of \p kind; reads their heads only.
void listTier(FileOps &files, const Tier &tier, Kind kind,
              std::vector<EntryInfo> &into);

/// Appends a verdict on every file of \p tier; reads all of them.
void verifyTier(FileOps &files, const Tier &tier,
                std::vector<VerifyItem> &into);

} // namespace kiln::cache
