//===- AtomicFile.h - read and replace small files safely -----------------===//
//
// Replacing is temporary file, fsync, close, rename, fsync of the folder: after
// a crash or a full disk the name holds the old bytes or the new ones, whole.
// Reading never follows a symbolic link, never blocks on a FIFO, and looks at
// type, owner, mode and size before it allocates.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Support/FileOps.h"

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/StringRef.h>

#include <cerrno>
#include <cstdint>
#include <string>

namespace kiln {

/// Calls \p call again while a signal interrupts it, but not for ever.
template <class Call> auto retryInterrupted(Call call) {
  constexpr int kMaxAttempts = 64;
  auto result = call();
  for (int i = 1; i < kMaxAttempts && result < 0 && errno == EINTR; ++i)
    result = call();
  return result;
}

/// The identity of the file that a name leads to. A replaced or rewritten file
/// has another one.
struct FileIdentity {
  uint64_t device = 0, inode = 0, bytes = 0;
  int64_t modifiedNs = 0, changedNs = 0;

  static FileIdentity of(const struct stat &info);
  friend bool operator==(const FileIdentity &, const FileIdentity &) = default;
};

enum class ReadStatus {
  Ok,
  Missing,
  NotRegular, ///< symbolic link, folder, FIFO, socket, device
  WrongOwner,
  WrongMode, ///< group or others may write
  TooLarge,
  Failed, ///< errnoValue says why
};

/// The conditions under which a file is read at all.
struct ReadRules {
  uint64_t maxBytes = 1ull << 30;
  /// The owner must be the effective user, or root if this allows it.
  bool rootMayOwn = false;
};

/// An open file that passed the rules, or the reason why it did not.
struct CheckedFile {
  ReadStatus status = ReadStatus::Missing;
  int errnoValue = 0;
  ScopedFd fd;
  struct stat info = {}; ///< zero if it could not be opened
};

/// Opens \p path in \p folder (a descriptor, or AT_FDCWD). Never blocks.
CheckedFile openChecked(FileOps &ops, int folder, const char *path,
                        const ReadRules &rules);

/// Appends to \p bytes what \p fd holds from its current offset until \p bytes
/// is \p total long or the file ends. Returns 0 or an errno.
int readUpTo(FileOps &ops, int fd, uint64_t total, std::string &bytes);

/// The outcome of replaceFile(). After an error in the step "sync folder" the
/// name holds the new bytes, which a power cut may still undo; after one in an
/// earlier step it holds the old ones.
struct WriteResult {
  int errnoValue = 0;    ///< 0: done
  const char *step = ""; ///< the step that failed, for messages
  bool ok() const { return errnoValue == 0; }
};

/// Makes \p name in \p folder (a descriptor) hold \p bytes, mode 0600, whatever
/// plain file, link or FIFO was there. No temporary file is left behind as long
/// as unlink works. Thread-safe, also between hosts that share the folder.
/// Cost: two fsyncs.
///
/// \p mayReplace, if given, is asked when nothing but the rename is left to do;
/// on false nothing is replaced, with ECANCELED as the error.
WriteResult replaceFile(FileOps &ops, int folder, const char *name,
                        llvm::StringRef bytes,
                        llvm::function_ref<bool()> mayReplace = nullptr);

/// The writer of a temporary file holds the lock of this byte until the file is
/// complete, where the file system has locks: see FileOps::tryLock().
inline constexpr off_t kWriterLockOffset = 0;

/// Names of temporary files start with this.
inline constexpr llvm::StringLiteral kTemporaryPrefix = ".tmp.";

/// A name that no other thread, process or host chooses: prefix, process, host
/// and 64 random bits; under 100 bytes.
std::string temporaryName();

/// Whether temporaryName() can have made \p name.
bool isTemporaryName(llvm::StringRef name);

} // namespace kiln
