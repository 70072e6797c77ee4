//===- Layer.h - one folder of the cache ----------------------------------===//
//
// Knows paths, owners and modes; knows nothing of what is inside a file. The
// root is opened and checked again for every operation, so that a root that
// somebody removes, replaces or opens to others is noticed at once.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Cache/MemoryLayer.h"
#include "Cache/Store.h"
#include "Support/AtomicFile.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/STLFunctionalExtras.h>

#include <optional>
#include <string>

namespace kiln::cache {

/// A descriptor, or why there is none.
struct OpenedFolder {
  ScopedFd fd;
  int errnoValue = 0;
  std::string reason; ///< set if the folder exists but is not to be trusted
  bool ok() const { return static_cast<bool>(fd); }
};

/// Bytes of a file, or why there are none.
struct LayerRead {
  ReadStatus status = ReadStatus::Missing;
  int errnoValue = 0;
  struct stat info = {};
  std::string bytes;
  std::string reason; ///< set if a folder on the way is not to be trusted
  /// While this is open no other file gets the identity of the one read.
  ScopedFd file;
};

/// Immutable, hence thread-safe.
class Layer {
public:
  /// \p path is absolute; \p kind is Write or Read.
  Layer(FileOps &ops, std::string path, LayerKind kind);

  LayerKind kind() const { return layerKind; }
  const std::string &path() const { return root; }

  /// Creates a write layer's root, if \p mayCreate, and checks either kind of
  /// layer. Returns why the layer must not be used, or nullopt.
  std::optional<std::string> prepare(bool mayCreate = true) const;

  /// Reads all of the entry called \p name (64 hexadecimal digits).
  LayerRead read(Kind kind, llvm::StringRef name) const;

  /// What lies at the entry's path now.
  Sighting identify(Kind kind, llvm::StringRef name) const;
  /// The same, given a descriptor of the entry's shard, and without trust in
  /// what a network file system remembers.
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

  /// What files of this layer must be.
  ReadRules rules() const;

private:
  OpenedFolder openRoot() const;
  OpenedFolder openBelow(llvm::ArrayRef<std::string> steps, bool mayMake) const;
  std::optional<std::string> distrustOf(const struct stat &info,
                                        llvm::StringRef path) const;

  FileOps &ops;
  std::string root;
  LayerKind layerKind;
};

/// Name of the lock file in each shard of the write layer.
inline constexpr const char *kLockName = ".lock";

} // namespace kiln::cache
