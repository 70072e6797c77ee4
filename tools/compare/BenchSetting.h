//===- BenchSetting.h - the place and protocol of a bench -----------------===//
#pragma once

#include "cli/LiveSession.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/JSON.h>

#include <string>

namespace kiln::cli {

class CublasLt;

/// The head of every document, and of every table, of measured times.
struct BenchSetting {
  std::string what, commit, gpu, driver, cuda, peer, protocol;
  bool hot = false; ///< operands in L2

  /// \p what is measured in \p session. Errors: those of commitOf().
  static llvm::Expected<BenchSetting> of(std::string what,
                                         const ParsedOptions &options,
                                         const LiveSession &session);

  /// Names the peers of \p cases: \p library, which may be null, and the copy
  /// baseline where \p wantsBaseline says so.
  void namePeers(llvm::ArrayRef<Case> cases, const CublasLt *library,
                 bool wantsBaseline);
  /// The protocol's words for the peers of \p cases; empty without a peer.
  static std::string peerProtocol(llvm::ArrayRef<Case> cases,
                                  const CublasLt *library, bool wantsBaseline);

  void print(llvm::raw_ostream &os) const;
  /// The members that all documents have; `peer` where there may be one.
  llvm::json::Object toJson() const;
};

/// --suite, or that problems were named.
std::string subjectOf(const ParsedOptions &options);

/// Whether the peer of \p which is a copy baseline.
bool hasCopyBaseline(const Case &which);
/// Whether the peer of \p which is cuBLASLt.
bool hasLibraryPeer(const Case &which);

/// "13.0" of "nvrtc 13.0 65be...".
std::string cudaVersionOf(llvm::StringRef toolchain);

} // namespace kiln::cli
