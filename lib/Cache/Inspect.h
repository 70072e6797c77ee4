//===- Inspect.h - what lies in a layer -----------------------------------===//
#pragma once

#include "Cache/Layer.h"
#include "Cache/Store.h"

#include <vector>

namespace kiln::cache {

/// Why a file with \p status is not used, as the end of a sentence.
const char *describe(ReadStatus status);

/// Appends the good entries of \p kind; reads their heads only.
void listLayer(FileOps &files, const Layer &layer, Kind kind,
               std::vector<EntryInfo> &into);

/// Appends a verdict on every file of \p layer; reads all of them.
void verifyLayer(FileOps &files, const Layer &layer,
                 std::vector<VerifyItem> &into);

} // namespace kiln::cache
