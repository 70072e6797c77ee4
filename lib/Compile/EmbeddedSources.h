//===- EmbeddedSources.h - kernel sources as in-memory headers ------------===//
//
// Kernels are compiled from texts that the library carries, so that neither a
// toolkit nor a source tree is needed at run time. A kernel author overrides
// them with a directory.
//
// A text sees the files of a set that it reaches by #include and no others: the
// compiler gets these, and the key of the compiled kernel covers these. So a
// kernel stays valid when a source changes that it does not include. The key
// cannot cover too little: a file of the set that the scan below overlooks is
// not there for the compiler, which searches no folder. It would still find a
// file by its absolute name, which checkSource() refuses.
//
// Prose is no part of a set: files lose their comments when a set is made of
// them (SourceText.h), so that the compiler gets what the key covers.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Support/Hash.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// A source text in static storage, as kiln_embed_sources of
/// cmake/KilnEmbed.cmake generates them: without prose. `text` ends with a NUL
/// that `size` does not count.
struct EmbeddedSource {
  const char *name; ///< root-relative, e.g. "gemm/MmaGemm.cuh"
  const char *text;
  size_t size;
};

/// A source text that is owned.
struct SourceFile {
  std::string name;     ///< root-relative, e.g. "gemm/MmaGemm.cuh"
  std::string contents; ///< without prose once in a set

  friend bool operator==(const SourceFile &, const SourceFile &) = default;
};

/// The files of a set that a text reaches by #include, directly or through
/// others. Lives as long as its set.
struct SourceClosure {
  /// Names and contents as parallel arrays of C strings, as NVRTC takes them,
  /// sorted by name.
  std::vector<const char *> names, texts;
  /// Identifies the names and tokens of these files, and the names that were
  /// included and are not in the set. An edit of comments and blanks leaves it
  /// as it is, even if it adds or removes lines.
  Digest digest;
  /// As above with the lines that the tokens are on, for a compilation that
  /// depends on them.
  Digest digestOfLines;
  /// Whether one of these files asks for lines: see dependsOnLines().
  bool asksForLines = false;
  /// Whether the text includes anything, in the set or not.
  bool isEmpty = true;
};

/// An immutable set of headers, sorted by name. Shared by every translation
/// unit that may include them; thread-safe.
class SourceSet {
public:
  /// Takes \p files over and removes their prose: 20 ns a byte. Errors:
  /// InvalidArgument for a name that is empty, absolute, repeated, or has an
  /// empty, "." or ".." component or a character that does not print, for
  /// contents with a NUL, and the errors of checkSource().
  static llvm::Expected<std::shared_ptr<const SourceSet>>
  create(std::vector<SourceFile> files);

  /// Copies embedded sources, which have no prose. Errors as create(), without
  /// those of checkSource(), because a test applies it to the sources of the
  /// library.
  static llvm::Expected<std::shared_ptr<const SourceSet>>
  fromEmbedded(llvm::ArrayRef<EmbeddedSource> sources);

  /// Reads every *.h and *.cuh below \p directory, named relative to it. Links
  /// to directories are not followed. Errors: Io with the path, and the errors
  /// of create(); an override without a single source is InvalidArgument.
  static llvm::Expected<std::shared_ptr<const SourceSet>>
  loadDirectory(llvm::StringRef directory);

  llvm::ArrayRef<SourceFile> files() const { return sources; }

  /// Succeeds when \p text, or one of a set, depends only on files that it
  /// includes by root-relative names. Errors: InvalidArgument for an absolute
  /// name, in an include or where a name is computed or asked for, and for
  /// macros of date and time. Comments do not count. Not seen: an absolute name
  /// that macros put together, or that one file defines and another includes.
  static llvm::Error checkSource(llvm::StringRef text);

  /// The contents of \p name, null when the set has no such file.
  const std::string *find(llvm::StringRef name) const;

  /// The files of the set that \p text sees. Includes in comments do not count.
  /// Includes behind #if and in literals do, so a closure may be too large. A
  /// text that names a file by a macro, or asks with __has_include, sees all of
  /// the set. Names are relative to the root, as NVRTC takes them, in quotes or
  /// in angle brackets; a name that the set lacks is for the compiler to refuse
  /// or to know. Remembered: the first call for a list of includes hashes files
  /// that no call before it reached, about 20 us per KiB; later ones read \p
  /// text, in 10 ns a byte.
  const SourceClosure &closureOf(llvm::StringRef text) const;

  SourceSet(const SourceSet &) = delete;
  SourceSet &operator=(const SourceSet &) = delete;

private:
  /// The names behind a text's include directives.
  struct Includes {
    std::vector<std::string> names;
    bool isComputed = false; ///< only a preprocessor knows them all
  };
  /// The addition of one file to closures that reach it.
  struct Scan {
    Digest digest, digestOfLines;
    bool asksForLines = false;
    Includes includes;
  };

  explicit SourceSet(std::vector<SourceFile> files);
  static llvm::Expected<std::shared_ptr<const SourceSet>>
  createFromStripped(std::vector<SourceFile> files);
  static Includes includesOf(llvm::StringRef keyText);
  size_t indexOf(llvm::StringRef name) const;
  const Scan &scan(size_t index) const;
  SourceClosure reach(const Includes &direct) const;

  std::vector<SourceFile> sources;

  mutable std::mutex mutex;                       ///< guards the next two:
  mutable std::vector<std::optional<Scan>> scans; ///< parallel to sources
  mutable std::map<std::string, SourceClosure> closures; ///< by direct includes
};

} // namespace kiln
