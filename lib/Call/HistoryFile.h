//===- HistoryFile.h - the requests of engines in a file ------------------===//
//
// A head line with kind and version, then a ProblemLine for each request:
//
//   kiln_history 1
//   rmsnorm rows=8192 cols=4096 dtype=bf16 weight=1; rows=1..8192
//
// Engines of several processes append to one file, each under the file's lock
// and only lines that it does not have yet. A line without an end is what a
// writer that died left: readers skip it, and the next writer replaces it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Call/ProblemLine.h"
#include "Support/FileOps.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kiln {

/// The bounds of a file, and of a line of a writer, its end included.
inline constexpr size_t kMostHistoryLines = 65536;
inline constexpr size_t kMostHistoryLineBytes = 1023;
inline constexpr uint64_t kMostHistoryBytes = uint64_t(65) << 20;

struct History {
  std::vector<ProblemLine> requests;
  /// Lines that cannot be read: "history.txt:7: why".
  std::vector<std::string> skipped;

  /// Reads the text of a file; \p path names it in errors. Whether a problem is
  /// known is not looked at. Errors (InvalidArgument): it is no history, or one
  /// of a later version.
  static llvm::Expected<History> parse(llvm::StringRef text,
                                       llvm::StringRef path);
  /// Reads \p path. Errors: those of readNamedFile() and parse().
  static llvm::Expected<History> read(const std::string &path);
  /// Reads a file that engines append to, by the rules of appendHistory();
  /// waits for nothing. One that is not there is empty. Errors
  /// (InvalidArgument): it breaks the rules, cannot be read, or is no history.
  static llvm::Expected<History> readShared(const std::string &path);
};

/// The outcome of appendHistory().
struct HistoryAppend {
  size_t added = 0;
  size_t leftOut = 0; ///< new lines beyond kMostHistoryLines
  bool isNew = false; ///< there was no line, as in a file that was deleted
  /// Another process holds the lock: the lines are still to be appended.
  bool isBusy = false;
  std::string failure; ///< why nothing was written; empty: all is there
};

/// Appends those of \p lines that \p path does not have; makes the file if it
/// does not exist. Waits up to a second for the lock. A failure, such as a full
/// disk, leaves the file unchanged. A link, or anything else than a plain file,
/// is refused, and so is a file that is no history of this version, or one of
/// another user where any user may write to it or to its folder (as /tmp):
/// its lines decide what is compiled and measured.
HistoryAppend appendHistory(FileOps &ops, const std::string &path,
                            llvm::ArrayRef<std::string> lines);

} // namespace kiln
