//===- TrustedPath.cpp ----------------------------------------------------===//
#include "Support/TrustedPath.h"

#include "Support/Format.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallVector.h>

#include <climits>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace kiln {

/// Pushes the components of \p path, the first one on top.
static void pushComponents(llvm::StringRef path,
                           std::vector<std::string> &pending) {
  llvm::SmallVector<llvm::StringRef, 16> components;
  path.split(components, '/', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef component : llvm::reverse(components))
    if (component != ".")
      pending.push_back(component.str());
}

/// Whether code of \p user may run. In a user namespace the outer root, which
/// owns the system's files, has another number.
static bool isTrustedUser(uid_t user) {
  struct stat system = {};
  return user == 0 || user == ::geteuid() ||
         (::lstat("/usr", &system) == 0 && user == system.st_uid);
}

/// Why one file, folder or link of a path is not trusted.
static std::optional<std::string> describeStep(const std::string &path,
                                               const struct stat &info) {
  if (!isTrustedUser(info.st_uid))
    return fmt::format("'{}' belongs to user {}", path, info.st_uid);
  const bool isSticky = S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX);
  // The mode of a link says nothing.
  if (!S_ISLNK(info.st_mode) && (info.st_mode & S_IWOTH) && !isSticky)
    return fmt::format("others may write to '{}'", path);
  return std::nullopt;
}

static std::optional<std::string> readLink(const std::string &path) {
  char target[PATH_MAX];
  const ssize_t length = ::readlink(path.c_str(), target, sizeof(target));
  if (length <= 0 || static_cast<size_t>(length) == sizeof(target))
    return std::nullopt;
  return std::string(target, static_cast<size_t>(length));
}

std::optional<std::string> describeUntrusted(llvm::StringRef path) {
  constexpr int kMostLinks = 40; // as many as the kernel follows
  if (!path.starts_with("/"))
    return "it is a relative path";
  std::vector<std::string> pending;
  pushComponents(path, pending);
  std::string folder; // without a slash at its end
  for (int links = 0; !pending.empty();) {
    const std::string component = std::move(pending.back());
    pending.pop_back();
    if (component == "..") {
      folder.resize(folder.empty() ? 0 : folder.rfind('/'));
      continue;
    }
    const std::string step = folder + "/" + component;
    struct stat info = {};
    if (::lstat(step.c_str(), &info) != 0)
      return std::nullopt;
    if (auto bad = describeStep(step, info))
      return bad;
    if (!S_ISLNK(info.st_mode)) {
      folder = step;
      continue;
    }
    auto target = readLink(step);
    if (!target || ++links > kMostLinks)
      return std::nullopt; // nothing can be opened there
    if (target->front() == '/')
      folder.clear();
    pushComponents(*target, pending);
  }
  return std::nullopt;
}

} // namespace kiln
