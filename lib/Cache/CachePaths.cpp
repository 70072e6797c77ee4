//===- CachePaths.cpp -----------------------------------------------------===//
#include "Cache/CachePaths.h"

#include "Support/Format.h"

#include <llvm/ADT/SmallVector.h>

#include <pwd.h>
#include <unistd.h>

namespace kiln::cache {

/// The names that the cache appends to a root fit into the rest of PATH_MAX.
static constexpr size_t kMaxRootBytes = 3072;

std::optional<std::string> describeBadPath(llvm::StringRef path) {
  if (path.empty())
    return "it is empty";
  if (path.contains('\0'))
    return "it contains a NUL byte";
  if (path.front() != '/')
    return fmt::format("\"{}\" is not an absolute path", path.take_front(200));
  if (path.size() > kMaxRootBytes)
    return fmt::format("its {} bytes are over the limit of {}", path.size(),
                       kMaxRootBytes);
  return std::nullopt;
}

CacheRoot chooseCacheRoot(const Environment &environment,
                          const std::optional<std::string> &passwdHome) {
  CacheRoot root;
  if (const auto &chosen = environment.kilnCacheDir) {
    if (auto bad = describeBadPath(*chosen))
      root.notes.push_back(fmt::format(
          "KILN_CACHE_DIR is not used, {}: caching in memory only", *bad));
    else
      root.path = *chosen;
    return root;
  }

  if (const auto &xdg = environment.xdgCacheHome) {
    std::string path = *xdg + "/kiln";
    auto bad = describeBadPath(path);
    if (!bad) {
      root.path = std::move(path);
      return root;
    }
    root.notes.push_back(fmt::format("XDG_CACHE_HOME is ignored, {}", *bad));
  }

  const char *name =
      environment.home ? "HOME" : "the home in the user database";
  const auto &home = environment.home ? environment.home : passwdHome;
  if (!home || home->empty()) {
    root.notes.push_back("no KILN_CACHE_DIR, XDG_CACHE_HOME, HOME or home in "
                         "the user database: caching in memory only");
    return root;
  }
  std::string path = *home + "/.cache/kiln";
  if (auto bad = describeBadPath(path))
    root.notes.push_back(
        fmt::format("{} is not used, {}: caching in memory only", name, *bad));
  else
    root.path = std::move(path);
  return root;
}

std::vector<std::string> chooseReadDirs(const Environment &environment) {
  const std::string text = environment.kilnCacheReadDirs.value_or("");
  llvm::SmallVector<llvm::StringRef, 4> paths;
  llvm::StringRef(text).split(paths, ':', -1, /*KeepEmpty=*/false);
  return {paths.begin(), paths.end()};
}

static std::optional<std::string> homeOfUser() {
  struct passwd entry = {};
  struct passwd *found = nullptr;
  char buffer[16384];
  if (::getpwuid_r(::geteuid(), &entry, buffer, sizeof buffer, &found) != 0 ||
      !found || !entry.pw_dir)
    return std::nullopt;
  return std::string(entry.pw_dir);
}

CacheRoot findCacheRoot(const Environment &environment) {
  bool needsUser = !environment.kilnCacheDir && !environment.home;
  return chooseCacheRoot(environment, needsUser ? homeOfUser() : std::nullopt);
}

} // namespace kiln::cache
