//===- PeerLibrary.cpp ----------------------------------------------------===//
#include "kiln/bench/PeerLibrary.h"

namespace kiln::cli {

llvm::Expected<std::shared_ptr<const CublasLt>>
loadPeerLibrary(const ParsedOptions &options, const Environment &environment) {
  auto library = CublasLt::load(environment,
                                nvrtcSearch(options, environment).extraFolders);
  if (!library)
    return addContext(library.takeError(),
                      "nothing to compare with (--no-peer measures Kiln "
                      "alone)");
  return library;
}

} // namespace kiln::cli
