//===- OutputPath.h - names of files that a process writes ----------------===//
#pragma once

#include "Support/FileOps.h"

#include <llvm/ADT/StringRef.h>

#include <cstdint>
#include <string>

namespace kiln {

/// \p path with the number \p process in place of each "%p".
std::string processPath(llvm::StringRef path, llvm::StringRef process);
/// As above, for this process.
std::string processPath(llvm::StringRef path);
/// \p path from the root, which no later change of the folder affects.
std::string absolutePath(const std::string &path);
/// \p path with \p part before its extension: "a.json" and "7" make "a.7.json".
std::string numberedPath(llvm::StringRef path, llvm::StringRef part);

/// Whether \p path, not followed if it is a link, leads to the open file \p
/// info. Another process may have replaced it since it was opened.
bool isAt(FileOps &ops, const std::string &path, const struct stat &info);

/// A file that no other process, and nothing else in this one, writes while it
/// lives. It holds the file's lock.
struct OwnedFile {
  ScopedFd fd;        ///< for reading and writing
  std::string path;   ///< the asked one, or with the number of the process
  int errnoValue = 0; ///< why there is no file
};

/// Opens \p path and creates the file where it does not exist. Where the file
/// has another owner, the name gets the number of this process, and then
/// further numbers. The file is not emptied, and nothing blocks. \p isPlain: a
/// file that is not plain (a link, a device, a FIFO, a folder) is refused, with
/// EINVAL.
OwnedFile openOwned(FileOps &ops, const std::string &path, bool isPlain);

/// Writes all of \p text to \p fd at \p offset. Returns 0 or an errno.
int writeAllAt(FileOps &ops, int fd, llvm::StringRef text, off_t offset);

} // namespace kiln
