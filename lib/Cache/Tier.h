//===- Tier.h - one folder of the cache -----------------------------------===//
//
// Knows paths, owners and modes, and nothing of the contents of a file. The
// root is opened and checked again for every operation, so that a root that is
// removed, replaced or opened to others is noticed at once.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Cache/MemoryTier.h"
#include "Cache/Store.h"
#include "Support/AtomicFile.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/STLFunctionalExtras.h>

#include <optional>
#include <string>

namespace kiln::cache {

/// A descriptor, or the reason why there is none.
struct OpenedFolder {
  ScopedFd fd;
  int errnoValue = 0;
  std::string reason; ///< set if the folder exists but is not trusted
  bool ok() const { return static_cast<bool>(fd); }
};

/// Bytes of a file, or the reason why there are none.
struct TierRead {
  ReadStatus status = ReadStatus::Missing;
  int errnoValue = 0;
  struct stat info = {};
  std::string bytes;
  std::string reason; ///< set if a folder of the path is not trusted
  /// While this is open no other file gets the identity of the one read.
  ScopedFd file;
};

/// Immutable, hence thread-safe.
class Tier {
public:
  /// \p path is absolute; \p kind is Write or Read.
  Tier(FileOps &ops, std::string path, TierKind kind);

  TierKind kind() const { return tierKind; }
  const std::string &path() const { return root; }

  /// Creates a write tier's root, if \p mayCreate, and checks either kind of
  /// tier. Returns why the tier must not be used, or nullopt.
  std::optional<std::string> prepare(bool mayCreate = true) const;

  /// Reads all of the entry called \p name (64 hexadecimal digits).
  TierRead read(Kind kind, llvm::StringRef name) const;

  /// The sighting of the entry's path now.
  Sighting identify(Kind kind, llvm::StringRef name) const;
  /// As above, given a descriptor of the entry's shard, and without trust in
  /// the memory of a network file system.
  Sighting identifyIn(int shard, llvm::StringRef name) const;

  /// Asked with a descriptor of the entry's shard just before it is replaced;
  /// false leaves the entry as it is. See replaceFile().
  using MayReplace = llvm::function_ref<bool(int shard)>;

  /// Replaces the entry, creating folders that are missing. \p reason gets the
  /// cause if it is more than the errno.
  WriteResult write(Kind kind, llvm::StringRef name, llvm::StringRef bytes,
                    std::string &reason, MayReplace mayReplace = nullptr) const;

  /// Deletes the entry if it is still the file that was read; \p shard is a
  /// descriptor of its folder.
  bool removeIfUnchangedIn(int shard, llvm::StringRef name,
                           const FileIdentity &seen) const;

  /// The folder of the entry; if it is missing it is created, where \p mayMake
  /// says so.
  OpenedFolder openShard(Kind kind, llvm::StringRef name,
                         bool mayMake = true) const;
  /// The folder of all that this version of the format keeps.
  OpenedFolder openVersion(bool mayMake) const;

  /// Absolute path of the entry.
  std::string pathOf(Kind kind, llvm::StringRef name) const;

  /// One name found by walk(), relative to the open folder \p folder.
  struct Found {
    int folder = -1;
    std::string name;      ///< file name in its folder
    std::string path;      ///< absolute
    std::string entryName; ///< 64 digits if it is named as an entry, else empty
    /// Set if it is a folder that is not trusted or could not be read.
    std::string reason;
  };
  /// Calls \p visit for everything in the kind's folders, sorted by name,
  /// except for lock files.
  void walk(Kind kind, llvm::function_ref<void(const Found &)> visit) const;

  /// The conditions under which files of this tier are read.
  ReadRules rules() const;

private:
  OpenedFolder openRoot() const;
  OpenedFolder openBelow(llvm::ArrayRef<std::string> steps, bool mayMake) const;
  std::optional<std::string> distrustOf(const struct stat &info,
                                        llvm::StringRef path) const;

  FileOps &ops;
  std::string root;
  TierKind tierKind;
};

/// Name of the lock file in each shard of the write tier.
inline constexpr const char *kLockName = ".lock";

} // namespace kiln::cache
