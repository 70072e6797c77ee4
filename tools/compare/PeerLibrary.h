//===- PeerLibrary.h - where the bench's peer is found --------------------===//
#pragma once

#include "cli/CommonOptions.h"
#include "compare/CublasLt.h"

#include <memory>

namespace kiln::cli {

inline constexpr OptionSpec kNoPeerOption = {"--no-peer", nullptr,
                                             "measure Kiln alone"};

/// The library that \p cases are held against, found as \p options and
/// \p environment say; null where none of them is, or --no-peer is given.
/// Error: DriverMissing.
llvm::Expected<std::shared_ptr<const CublasLt>>
loadPeerLibrary(llvm::ArrayRef<Case> cases, const ParsedOptions &options,
                const Environment &environment);

} // namespace kiln::cli
