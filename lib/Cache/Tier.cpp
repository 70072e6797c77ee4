//===- Tier.cpp -----------------------------------------------------------===//
#include "Cache/Tier.h"

#include <algorithm>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

namespace kiln::cache {

static constexpr llvm::StringLiteral kSuffix(".kiln");
static constexpr size_t kNameDigits = 64;
static constexpr int kFolderFlags =
    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;

Tier::Tier(FileOps &ops, std::string path, TierKind kind)
    : ops(ops), root(std::move(path)), tierKind(kind) {
  while (root.size() > 1 && root.back() == '/')
    root.pop_back();
}

ReadRules Tier::rules() const {
  ReadRules rules;
  rules.maxBytes =
      kHeaderBytes + kMaxKeyBytes + kMaxAttributeBytes + kMaxPayloadBytes;
  rules.rootMayOwn = tierKind == TierKind::Read;
  return rules;
}

/// Why \p path with \p info, a folder of the cache, is not one that this user
/// may trust.
std::optional<std::string> Tier::distrustOf(const struct stat &info,
                                            llvm::StringRef path) const {
  auto refuse = [&](const char *why, const char *remedy) {
    return fmt::format("{} (owner {}, mode {:04o}) {}: {}", path, info.st_uid,
                       static_cast<unsigned>(info.st_mode & 07777), why,
                       remedy);
  };
  if (S_ISLNK(info.st_mode))
    return refuse("is a symbolic link", "name the folder that it points to");
  if (!S_ISDIR(info.st_mode))
    return refuse("is not a directory", "choose another folder");
  bool rootMayOwn = tierKind == TierKind::Read;
  if (info.st_uid != ::geteuid() && !(rootMayOwn && info.st_uid == 0))
    return rootMayOwn
               ? refuse("belongs to neither this user nor root",
                        "copy it, or have root own it")
               : refuse("does not belong to this user",
                        info.st_uid == 0
                            ? "choose another folder, and name this one as a "
                              "read tier in KILN_CACHE_READ_DIRS"
                            : "choose another folder");
  if (info.st_mode & (S_IWGRP | S_IWOTH))
    return refuse("is writable by others",
                  "chmod go-w it, or choose another folder");
  return std::nullopt;
}

OpenedFolder Tier::openRoot() const {
  OpenedFolder opened;
  int fd = retryInterrupted(
      [&] { return ops.open(AT_FDCWD, root.c_str(), kFolderFlags, 0); });
  struct stat info = {};
  if (fd < 0) {
    opened.errnoValue = errno;
    // Say what is there instead, if anything is.
    if (ops.statusAt(AT_FDCWD, root.c_str(), info) == 0)
      if (auto distrust = distrustOf(info, root))
        opened.reason = std::move(*distrust);
    return opened;
  }
  ScopedFd guard(ops, fd);
  if (retryInterrupted([&] { return ops.status(fd, info); }) < 0) {
    opened.errnoValue = errno;
    return opened;
  }
  if (auto distrust = distrustOf(info, root)) {
    opened.errnoValue = EPERM;
    opened.reason = std::move(*distrust);
    return opened;
  }
  opened.fd = std::move(guard);
  return opened;
}

/// mkdir -p with mode 0700; an entry of a folder that is new is made durable
/// where the parent lets us. Returns 0 or an errno.
static int createFolders(FileOps &ops, const std::string &path) {
  auto make = [&] {
    return retryInterrupted(
        [&] { return ops.makeFolder(AT_FDCWD, path.c_str(), 0700); });
  };
  if (make() < 0) {
    if (errno != ENOENT)
      return errno == EEXIST ? 0 : errno;
    size_t slash = path.rfind('/');
    if (slash == 0 || slash == std::string::npos)
      return ENOENT;
    if (int failure = createFolders(ops, path.substr(0, slash)))
      return failure;
    if (make() < 0)
      return errno == EEXIST ? 0 : errno;
  }
  std::string parent = path.substr(0, std::max<size_t>(path.rfind('/'), 1));
  int fd =
      ops.open(AT_FDCWD, parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (fd >= 0) {
    ScopedFd guard(ops, fd);
    ops.sync(fd);
  }
  return 0;
}

/// A symbolic link in the path of the root must belong to root or to this user,
/// because its owner chooses where the cache lies. Where all users may rename
/// entries of a folder of the path, each of them could choose, too: an older
/// cache of this user's may be put in place of the present one.
static std::optional<std::string> checkParents(FileOps &ops,
                                               const std::string &path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    std::string parent = path.substr(0, slash);
    struct stat info = {};
    if (ops.statusAt(AT_FDCWD, parent.c_str(), info) != 0)
      return std::nullopt; // a missing folder will be made by us, or reported
    if (S_ISLNK(info.st_mode) && info.st_uid != 0 && info.st_uid != ::geteuid())
      return fmt::format("{} (owner {}, mode {:04o}) is a symbolic link of "
                         "another user in the path of {}",
                         parent, info.st_uid,
                         static_cast<unsigned>(info.st_mode & 07777), path);
    if (S_ISDIR(info.st_mode) && (info.st_mode & S_IWOTH) &&
        !(info.st_mode & S_ISVTX))
      return fmt::format("{} (owner {}, mode {:04o}) in the path of {} is "
                         "writable by all users and has no sticky bit: chmod "
                         "o-w or +t it, or choose another folder",
                         parent, info.st_uid,
                         static_cast<unsigned>(info.st_mode & 07777), path);
  }
  return std::nullopt;
}

std::optional<std::string> Tier::prepare(bool mayCreate) const {
  if (auto distrust = checkParents(ops, root))
    return distrust;
  OpenedFolder opened = openRoot();
  if (opened.ok())
    return std::nullopt;
  if (!opened.reason.empty())
    return opened.reason;
  int failure = opened.errnoValue;
  if (failure == ENOENT && tierKind == TierKind::Write && mayCreate) {
    failure = createFolders(ops, root);
    if (!failure) {
      opened = openRoot();
      if (opened.ok())
        return std::nullopt;
      if (!opened.reason.empty())
        return opened.reason;
      failure = opened.errnoValue;
    }
  }
  return fmt::format("{}: {}", root, std::strerror(failure));
}

static std::string versionFolder() {
  return fmt::format("v{}", kFormatVersion);
}

static std::string kindFolder(Kind kind) {
  return fmt::format("{}/{}", versionFolder(), nameOf(kind));
}

static std::string shardFolder(Kind kind, llvm::StringRef name) {
  return fmt::format("{}/{}", kindFolder(kind), name.take_front(2));
}

static std::string fileName(llvm::StringRef name) {
  return (name + kSuffix).str();
}

static std::string relativePath(Kind kind, llvm::StringRef name) {
  return shardFolder(kind, name) + "/" + fileName(name);
}

std::string Tier::pathOf(Kind kind, llvm::StringRef name) const {
  return root + "/" + relativePath(kind, name);
}

TierRead Tier::read(Kind kind, llvm::StringRef name) const {
  TierRead result;
  OpenedFolder folder = openRoot();
  if (!folder.ok()) {
    result.errnoValue = folder.errnoValue;
    if (folder.errnoValue != ENOENT)
      result.status = ReadStatus::Failed;
    return result;
  }
  // A user with the right to write to a folder of the path chooses which file
  // is read.
  for (const std::string &step :
       {versionFolder(), kindFolder(kind), shardFolder(kind, name)}) {
    struct stat info = {};
    if (retryInterrupted([&] {
          return ops.statusAt(folder.fd.get(), step.c_str(), info);
        }) < 0) {
      result.errnoValue = errno;
      if (errno != ENOENT && errno != ENOTDIR)
        result.status = ReadStatus::Failed;
      return result;
    }
    if (auto distrust = distrustOf(info, root + "/" + step)) {
      result.status = ReadStatus::WrongMode;
      result.reason = std::move(*distrust);
      return result;
    }
  }
  CheckedFile file = openChecked(ops, folder.fd.get(),
                                 relativePath(kind, name).c_str(), rules());
  result.status = file.status;
  result.errnoValue = file.errnoValue;
  result.info = file.info;
  if (file.status != ReadStatus::Ok)
    return result;
  result.errnoValue =
      readUpTo(ops, file.fd.get(), static_cast<uint64_t>(file.info.st_size),
               result.bytes);
  if (result.errnoValue)
    result.status = ReadStatus::Failed;
  result.file = std::move(file.fd);
  return result;
}

/// The sighting of \p path in \p folder now.
static Sighting sightingAt(FileOps &ops, int folder, const std::string &path) {
  struct stat info = {};
  if (retryInterrupted(
          [&] { return ops.statusAt(folder, path.c_str(), info); }) < 0)
    return {errno == ENOENT || errno == ENOTDIR, std::nullopt};
  return {true, FileIdentity::of(info)};
}

Sighting Tier::identify(Kind kind, llvm::StringRef name) const {
  OpenedFolder folder = openRoot();
  if (!folder.ok())
    return {folder.errnoValue == ENOENT, std::nullopt};
  return sightingAt(ops, folder.fd.get(), relativePath(kind, name));
}

Sighting Tier::identifyIn(int shard, llvm::StringRef name) const {
  // A network file system asks the server when a file is opened; without that
  // it may answer from memory.
  std::string file = fileName(name);
  ScopedFd opened(ops, retryInterrupted([&] {
                    return ops.open(shard, file.c_str(),
                                    O_RDONLY | O_NOFOLLOW | O_NONBLOCK |
                                        O_CLOEXEC | O_NOCTTY,
                                    0);
                  }));
  struct stat info = {};
  if (opened && ops.status(opened.get(), info) == 0)
    return {true, FileIdentity::of(info)};
  return sightingAt(ops, shard, file); // nothing, or no plain file
}

static ScopedFd openFolder(FileOps &ops, int folder, const char *name) {
  return ScopedFd(ops, retryInterrupted([&] {
                    return ops.open(folder, name, kFolderFlags, 0);
                  }));
}

/// Opens \p name in \p folder; makes it first, durably, if it is missing.
static ScopedFd openOrMakeFolder(FileOps &ops, int folder, const char *name) {
  ScopedFd opened = openFolder(ops, folder, name);
  if (opened || errno != ENOENT)
    return opened;
  int made =
      retryInterrupted([&] { return ops.makeFolder(folder, name, 0700); });
  if (made < 0 && errno != EEXIST)
    return ScopedFd(ops, -1);
  if (made == 0)
    ops.sync(folder);
  return openFolder(ops, folder, name);
}

OpenedFolder Tier::openBelow(llvm::ArrayRef<std::string> steps,
                             bool mayMake) const {
  OpenedFolder opened;
  // Another process may be removing the cache while we make it: ENOENT starts
  // again.
  for (int attempt = 0; attempt < (mayMake ? 4 : 1); ++attempt) {
    opened = openRoot();
    if (!opened.ok() && opened.errnoValue == ENOENT && mayMake &&
        createFolders(ops, root) == 0)
      opened = openRoot();
    if (!opened.ok())
      return opened;
    std::string path = root;
    for (const std::string &step : steps) {
      path += "/" + step;
      opened.fd = mayMake ? openOrMakeFolder(ops, opened.fd.get(), step.c_str())
                          : openFolder(ops, opened.fd.get(), step.c_str());
      struct stat info = {};
      if (!opened.ok() || retryInterrupted([&] {
                            return ops.status(opened.fd.get(), info);
                          }) < 0) {
        opened.errnoValue = errno;
        opened.fd.reset();
        break;
      }
      if (auto distrust = distrustOf(info, path)) {
        opened = {};
        opened.errnoValue = EPERM;
        opened.reason = std::move(*distrust);
        return opened;
      }
    }
    if (opened.ok() || opened.errnoValue != ENOENT)
      return opened;
  }
  return opened;
}

OpenedFolder Tier::openShard(Kind kind, llvm::StringRef name,
                             bool mayMake) const {
  const std::string steps[] = {versionFolder(), nameOf(kind).str(),
                               name.take_front(2).str()};
  return openBelow(steps, mayMake);
}

OpenedFolder Tier::openVersion(bool mayMake) const {
  return openBelow(versionFolder(), mayMake);
}

WriteResult Tier::write(Kind kind, llvm::StringRef name, llvm::StringRef bytes,
                        std::string &reason, MayReplace mayReplace) const {
  WriteResult result;
  std::string file = fileName(name);
  for (int attempt = 0; attempt < 4; ++attempt) {
    OpenedFolder shard = openShard(kind, name);
    if (!shard.ok()) {
      reason = std::move(shard.reason);
      return {shard.errnoValue, "open the folder"};
    }
    auto ask = [&] { return !mayReplace || mayReplace(shard.fd.get()); };
    result = replaceFile(ops, shard.fd.get(), file.c_str(), bytes, ask);
    // The shard was removed under our hands.
    if (result.errnoValue != ENOENT)
      return result;
  }
  return result;
}

bool Tier::removeIfUnchangedIn(int shard, llvm::StringRef name,
                               const FileIdentity &seen) const {
  const std::string file = fileName(name);
  struct stat info = {};
  if (ops.statusAt(shard, file.c_str(), info) != 0 ||
      FileIdentity::of(info) != seen)
    return false;
  // A writer may replace the file between these calls: its entry would be lost,
  // which is a miss, and the same writer still holds the bytes it needs.
  return ops.unlink(shard, file.c_str()) == 0;
}

/// The names in the open folder \p fd, sorted, without "." and "..". \p failure
/// gets the errno if these are not all.
static std::vector<std::string> namesIn(ScopedFd fd, int &failure) {
  std::vector<std::string> names;
  DIR *stream = fd ? ::fdopendir(fd.get()) : nullptr;
  if (!stream) {
    failure = errno;
    return names;
  }
  fd.release(); // closedir closes it
  errno = 0;
  while (const struct dirent *item = ::readdir(stream)) {
    llvm::StringRef name(item->d_name);
    if (name != "." && name != "..")
      names.push_back(name.str());
  }
  failure = errno;
  ::closedir(stream);
  llvm::sort(names);
  return names;
}

static bool isHex(llvm::StringRef text) {
  return text.find_first_not_of("0123456789abcdef") == llvm::StringRef::npos;
}

/// The 64 digits of an entry's file name, empty for any other name.
static llvm::StringRef entryNameIn(llvm::StringRef fileName,
                                   llvm::StringRef shard) {
  llvm::StringRef name = fileName;
  if (name.consume_back(kSuffix) && name.size() == kNameDigits && isHex(name) &&
      name.starts_with(shard))
    return name;
  return {};
}

void Tier::walk(Kind kind,
                llvm::function_ref<void(const Found &)> visit) const {
  OpenedFolder opened = openRoot();
  if (!opened.ok()) {
    if (opened.errnoValue != ENOENT)
      visit({-1, "", root, "",
             opened.reason.empty() ? std::strerror(opened.errnoValue)
                                   : opened.reason});
    return;
  }
  auto openIn = [&](int folder, const std::string &name) {
    return openFolder(ops, folder, name.c_str());
  };
  // Folders that lookups cannot open, or refuse, are shown and passed over.
  auto openTrusted = [&](int folder, const std::string &name,
                         const std::string &path) {
    ScopedFd fd = openIn(folder, name);
    int failure = fd ? 0 : errno;
    struct stat info = {};
    if (fd && ops.status(fd.get(), info) != 0)
      failure = errno;
    if (failure == ENOENT)
      return fd;
    // A link has no folder behind it that could be opened.
    if (failure && (ops.statusAt(folder, name.c_str(), info) != 0 ||
                    S_ISDIR(info.st_mode)))
      visit({folder, name, path, "", std::strerror(failure)});
    else if (auto distrust = distrustOf(info, path))
      visit({folder, name, path, "", std::move(*distrust)});
    else
      return fd;
    return ScopedFd(ops, -1);
  };
  auto namesOf = [&](const ScopedFd &folder, const std::string &path) {
    int failure = 0;
    std::vector<std::string> names;
    if (folder)
      names = namesIn(openIn(folder.get(), "."), failure);
    if (failure)
      visit({folder.get(), ".", path, "", std::strerror(failure)});
    return names;
  };
  std::string path = root + "/" + versionFolder();
  ScopedFd version = openTrusted(opened.fd.get(), versionFolder(), path);
  if (!version)
    return;
  path += ("/" + nameOf(kind)).str();
  ScopedFd folder = openTrusted(version.get(), nameOf(kind).str(), path);
  for (const std::string &shard : namesOf(folder, path)) {
    const std::string shardPath = path + "/" + shard;
    if (shard.size() != 2 || !isHex(shard)) {
      visit({folder.get(), shard, shardPath, "", ""});
      continue;
    }
    ScopedFd files = openTrusted(folder.get(), shard, shardPath);
    for (const std::string &name : namesOf(files, shardPath))
      if (name != kLockName)
        visit({files.get(), name, shardPath + "/" + name,
               entryNameIn(name, shard).str(), ""});
  }
}

} // namespace kiln::cache
