//===- CachePaths.h - where the cache lives -------------------------------===//
//
// One root: KILN_CACHE_DIR, else $XDG_CACHE_HOME/kiln, else ~/.cache/kiln.
// Whatever is wrong with it costs a note and the disk, never a launch.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Support/Environment.h"

#include <llvm/ADT/StringRef.h>

#include <optional>
#include <string>
#include <vector>

namespace kiln::cache {

/// The chosen root, or none, and why it is not what one might expect.
struct CacheRoot {
  /// Absolute path of the write layer, not yet created or checked (opening a
  /// Store does both); nullopt means memory only.
  std::optional<std::string> path;
  /// One line each, naming the variable and its value.
  std::vector<std::string> notes;
};

/// Chooses the root from \p environment; \p passwdHome serves when HOME is
/// unset. Pure. A bad KILN_CACHE_DIR (relative, over 3072 bytes, a NUL) means
/// memory only, because the user asked for another place than the default; a
/// bad XDG_CACHE_HOME is ignored with a note, as its specification asks.
CacheRoot chooseCacheRoot(const Environment &environment,
                          const std::optional<std::string> &passwdHome);

/// The same with the passwd entry of the effective user. Reads the user
/// database only when it is needed; thread-safe.
CacheRoot findCacheRoot(const Environment &environment);

/// The layers that are only read, of KILN_CACHE_READ_DIRS: paths between
/// colons, first to last. Empty ones are left out; opening a Store says what is
/// wrong with others.
std::vector<std::string> chooseReadDirs(const Environment &environment);

/// Says what is wrong with \p path as a directory of the cache, nullopt if
/// nothing: empty, relative, over 3072 bytes, a NUL. Looks at the text alone.
std::optional<std::string> describeBadPath(llvm::StringRef path);

} // namespace kiln::cache
