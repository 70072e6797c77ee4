//===- PeerLibrary.h - the search for the bench's peer --------------------===//
#pragma once

#include "cli/CommonOptions.h"
#include "compare/CublasLt.h"

#include <memory>

namespace kiln::cli {

inline constexpr OptionSpec kNoPeerOption = {"--no-peer", nullptr,
                                             "measure Kiln alone"};

/// The library that is the peer of \p cases, found by \p options and \p
/// environment; null where no case has such a peer, or --no-peer is given.
/// Error: DriverMissing.
llvm::Expected<std::shared_ptr<const CublasLt>>
loadPeerLibrary(llvm::ArrayRef<Case> cases, const ParsedOptions &options,
                const Environment &environment);

} // namespace kiln::cli
