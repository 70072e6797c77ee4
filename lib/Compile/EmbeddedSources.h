//===- EmbeddedSources.h - kernel sources as in-memory headers ------------===//
//
// Kernels are compiled from texts that the library carries, so that neither a
// toolkit nor a source tree is needed at run time. A kernel author overrides
// them with a directory.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Support/Hash.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace kiln {

/// A source text in static storage, as kiln_embed_sources of
/// cmake/KilnEmbed.cmake generates them. `text` ends with a NUL that `size`
/// does not count.
struct EmbeddedSource {
  const char *name; ///< root-relative, e.g. "gemm/MmaGemm.cuh"
  const char *text;
  size_t size;
};

/// A source text that is owned.
struct SourceFile {
  std::string name; ///< root-relative, e.g. "gemm/MmaGemm.cuh"
  std::string contents;
};

/// An immutable set of headers, sorted by name. Shared by every translation
/// unit that may include them; thread-safe.
class SourceSet {
public:
  /// Takes \p files over. Errors: InvalidArgument for a name that is empty,
  /// absolute, repeated, or has an empty, "." or ".." component or a character
  /// that does not print, and for contents with a NUL. Hashes every byte: about
  /// 4 us per KiB.
  static llvm::Expected<std::shared_ptr<const SourceSet>>
  create(std::vector<SourceFile> files);

  /// Copies embedded sources. Errors and cost as create().
  static llvm::Expected<std::shared_ptr<const SourceSet>>
  fromEmbedded(llvm::ArrayRef<EmbeddedSource> sources);

  /// Reads every *.h and *.cuh below \p directory, named relative to it. Links
  /// to directories are not followed. Errors: Io with the path, and those of
  /// create(); an override without a single source is InvalidArgument.
  static llvm::Expected<std::shared_ptr<const SourceSet>>
  loadDirectory(llvm::StringRef directory);

  llvm::ArrayRef<SourceFile> files() const { return sources; }

  /// The contents of \p name, null when the set has no such file.
  const std::string *find(llvm::StringRef name) const;

  /// Identifies names and contents of all files.
  const Digest &digest() const { return setDigest; }

  /// Names and contents as parallel arrays of C strings, as NVRTC takes them.
  llvm::ArrayRef<const char *> names() const { return namePointers; }
  llvm::ArrayRef<const char *> texts() const { return textPointers; }

  SourceSet(const SourceSet &) = delete;
  SourceSet &operator=(const SourceSet &) = delete;

private:
  explicit SourceSet(std::vector<SourceFile> files);

  std::vector<SourceFile> sources;
  std::vector<const char *> namePointers, textPointers;
  Digest setDigest;
};

} // namespace kiln
