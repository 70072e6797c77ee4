//===- DynamicLibrary.h - libraries opened at run time --------------------===//
#pragma once

#include "Support/Error.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/StringRef.h>

#include <string>

namespace kiln {

/// A shared library opened with dlopen (RTLD_NOW, RTLD_LOCAL). Copyable: the
/// library stays loaded for the life of the process, because drivers and
/// compilers own threads and exit handlers that unloading would pull the code
/// from. Thread-safe as any value.
class DynamicLibrary {
public:
  DynamicLibrary() = default;

  /// Opens the first of \p candidates that loads; each is a path, or a bare
  /// name that the loader searches for. Either must lead to a complete plain
  /// ELF file, see describeBadLibrary(): an incomplete one that the loader
  /// would find is passed over. (One in a folder that only the loader's cache
  /// names is not seen.) A path has to be one that other users cannot write to,
  /// see describeUntrusted(). \p what names the library in errors. On failure
  /// the error has code \p code and says every name that was tried with what
  /// the loader said about it. Costs milliseconds.
  static llvm::Expected<DynamicLibrary>
  openFirst(llvm::ArrayRef<std::string> candidates, llvm::StringRef what,
            ErrorCode code);

  bool isOpen() const { return handle != nullptr; }
  explicit operator bool() const { return isOpen(); }

  /// The candidate that was opened, as it was given.
  const std::string &name() const { return openedName; }

  /// The file the loader mapped, as an absolute path where it tells one,
  /// otherwise name().
  const std::string &path() const { return resolvedPath; }

  /// Address of the exported symbol \p name, or null.
  void *find(const char *name) const;

  /// As above, typed: `find<int (*)(unsigned)>("cuInit")`.
  template <class Function> Function find(const char *name) const {
    return reinterpret_cast<Function>(find(name));
  }

private:
  void *handle = nullptr;
  std::string openedName, resolvedPath;
};

} // namespace kiln
