//===- PeerLibrary.h - where the bench's peer is found --------------------===//
#pragma once

#include "kiln/CommonOptions.h"
#include "kiln/bench/CublasLt.h"

#include <memory>

namespace kiln::cli {

/// The library, found as \p options and \p environment say. Error:
/// DriverMissing.
llvm::Expected<std::shared_ptr<const CublasLt>>
loadPeerLibrary(const ParsedOptions &options, const Environment &environment);

} // namespace kiln::cli
