//===- CachePaths.h - the root of the cache -------------------------------===//
//
// One root: KILN_CACHE_DIR, else $XDG_CACHE_HOME/kiln, else ~/.cache/kiln. A
// fault of the root costs a note and the disk, never a launch.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Support/Environment.h"

#include <llvm/ADT/StringRef.h>

#include <optional>
#include <string>
#include <vector>

namespace kiln::cache {

/// The chosen root, or none, and the reasons where it is not the expected one.
struct CacheRoot {
  /// Absolute path of the write tier, not yet created or checked (opening a
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

/// As above with the passwd entry of the effective user. Reads the user
/// database only when it is needed; thread-safe.
CacheRoot findCacheRoot(const Environment &environment);

/// The read tiers of KILN_CACHE_READ_DIRS: paths between colons, first to last.
/// Empty ones are left out; opening a Store reports faults of the others.
std::vector<std::string> chooseReadDirs(const Environment &environment);

/// Why \p path cannot be a directory of the cache: it is empty, relative, over
/// 3072 bytes or has a NUL. Nullopt: it can. Looks at the text alone.
std::optional<std::string> describeBadPath(llvm::StringRef path);

} // namespace kiln::cache
