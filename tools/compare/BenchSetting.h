//===- BenchSetting.h - where and how a bench was measured ----------------===//
#pragma once

#include "cli/LiveSession.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/JSON.h>

#include <string>

namespace kiln::cli {

class CublasLt;

/// What every document of measured times begins with, and its tables, too.
struct BenchSetting {
  std::string what, commit, gpu, driver, cuda, peer, protocol;
  bool hot = false; ///< operands in L2

  /// \p what is measured in \p session. Errors: those of commitOf().
  static llvm::Expected<BenchSetting> of(std::string what,
                                         const ParsedOptions &options,
                                         const LiveSession &session);

  /// Names the peers of \p cases: \p library, which may be null, and where
  /// \p wantsStream says so the reference stream.
  void namePeers(llvm::ArrayRef<Case> cases, const CublasLt *library,
                 bool wantsStream);
  /// ", as libraries and streams do it" for a protocol; empty without a peer.
  static std::string peerProtocol(llvm::ArrayRef<Case> cases,
                                  const CublasLt *library, bool wantsStream);

  void print(llvm::raw_ostream &os) const;
  /// The members that all documents have; `peer` where there may be one.
  llvm::json::Object toJson() const;
};

/// --suite, or that problems were named.
std::string subjectOf(const ParsedOptions &options);

/// Whether a stream stands for the peer in \p which.
bool isStreamed(const Case &which);
/// Whether \p which is held against cuBLASLt.
bool hasLibraryPeer(const Case &which);

/// "13.0" of "nvrtc 13.0 65be...".
std::string cudaVersionOf(llvm::StringRef toolchain);

} // namespace kiln::cli
