//===- PeerLibrary.cpp ----------------------------------------------------===//
#include "compare/PeerLibrary.h"

#include "compare/BenchSetting.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln::cli {

llvm::Expected<std::shared_ptr<const CublasLt>>
loadPeerLibrary(llvm::ArrayRef<Case> cases, const ParsedOptions &options,
                const Environment &environment) {
  if (options.has(kNoPeerOption.name) || llvm::none_of(cases, hasLibraryPeer))
    return nullptr;
  auto library = CublasLt::load(environment,
                                nvrtcSearch(options, environment).extraFolders);
  if (!library)
    return addContext(library.takeError(),
                      "nothing to compare with (--no-peer measures Kiln "
                      "alone)");
  return library;
}

} // namespace kiln::cli
