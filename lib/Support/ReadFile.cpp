//===- ReadFile.cpp -------------------------------------------------------===//
#include "Support/ReadFile.h"

#include "Support/AtomicFile.h"
#include "Support/Error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <limits>

namespace kiln {

static llvm::Error cannotRead(const std::string &path, int errnoValue) {
  return makeError(ErrorCode::InvalidArgument, "{}: {}", path,
                   std::strerror(errnoValue));
}

static bool isReadable(const struct stat &info) {
  return S_ISREG(info.st_mode) || S_ISFIFO(info.st_mode);
}

/// Reads at most \p most bytes, in pieces, because the size that a file reports
/// may be wrong.
static llvm::Error
readPieces(const std::string &path, uint64_t most,
           llvm::function_ref<void(llvm::StringRef piece)> take) {
  struct stat info = {};
  // Before it is opened: opening a device may do something.
  if (::stat(path.c_str(), &info) != 0)
    return cannotRead(path, errno);
  auto wrongKind = [&] {
    return makeError(ErrorCode::InvalidArgument,
                     "{}: it is neither a plain file nor a pipe", path);
  };
  if (!isReadable(info))
    return wrongKind();
  FileOps &ops = FileOps::system();
  ScopedFd file(ops, retryInterrupted([&] {
                  // A plain file has no reason to wait. Some of the kernel's
                  // only say that they are plain, such as /proc/kmsg.
                  return ::open(path.c_str(),
                                O_RDONLY | O_CLOEXEC | O_NOCTTY |
                                    (S_ISREG(info.st_mode) ? O_NONBLOCK : 0));
                }));
  if (!file || ops.status(file.get(), info) != 0)
    return cannotRead(path, errno);
  if (!isReadable(info))
    return wrongKind();

  constexpr uint64_t kPieceBytes = 1 << 20;
  std::string piece;
  for (;;) {
    piece.clear();
    const uint64_t wanted = std::min(kPieceBytes, most);
    if (int failure = readUpTo(ops, file.get(), wanted, piece))
      return cannotRead(path, failure);
    take(piece);
    most -= piece.size();
    if (piece.size() < kPieceBytes)
      return llvm::Error::success();
  }
}

llvm::Expected<std::string> readNamedFile(const std::string &path,
                                          uint64_t maxBytes) {
  std::string text;
  // One byte beyond the limit tells that there are more.
  if (llvm::Error error = readPieces(
          path, maxBytes + 1, [&](llvm::StringRef piece) { text += piece; }))
    return error;
  if (text.size() > maxBytes)
    return makeError(ErrorCode::InvalidArgument,
                     "{}: more than the {} bytes that are read", path,
                     maxBytes);
  return text;
}

llvm::Error
readNamedPieces(const std::string &path,
                llvm::function_ref<void(llvm::StringRef piece)> take) {
  return readPieces(path, std::numeric_limits<uint64_t>::max(), take);
}

} // namespace kiln
