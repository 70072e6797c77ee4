//===- KernelLibrary.h - kernels compiled for the host --------------------===//
#pragma once

#include "Compile/EmbeddedSources.h"
#include "Emulator/Cluster.h"
#include "Support/TemporaryFolder.h"

#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace kiln::emulated {

/// Compiles the texts of translation units with the compiler of the tests: each
/// with the kernel sources that hold at the time, in which the emulated
/// instructions have the place of the real ones. Some 3 s a text, once.
class KernelLibrary {
public:
  KernelLibrary() = default;
  ~KernelLibrary();
  KernelLibrary(const KernelLibrary &) = delete;
  KernelLibrary &operator=(const KernelLibrary &) = delete;

  /// Images of the kernel \p entry of \p text, one for each of \p ranks: each
  /// has shared memory of its own. Error: the compiler's.
  llvm::Expected<std::vector<KernelImage>>
  images(llvm::StringRef text, llvm::StringRef entry, unsigned ranks);

private:
  struct Unit {
    std::string file;            ///< a shared library
    std::vector<void *> handles; ///< of it and its copies
  };

  llvm::Error writeSources(std::shared_ptr<const SourceSet> set);
  llvm::Expected<std::string> compile(llvm::StringRef text);
  llvm::Error open(Unit &unit, unsigned ranks);

  /// Where programs may be mapped: /dev/shm of a container often forbids it.
  testing::TemporaryFolder folder{KILN_BINARY_DIR};
  std::shared_ptr<const SourceSet> sources;
  std::string sourceFolder; ///< where they lie
  std::map<std::string, Unit> units;
  int files = 0;
};

} // namespace kiln::emulated
