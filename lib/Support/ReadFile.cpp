//===- ReadFile.cpp -------------------------------------------------------===//
#include "Support/ReadFile.h"

#include "Support/AtomicFile.h"
#include "Support/Error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>

namespace kiln {

static llvm::Error cannotRead(const std::string &path, int errnoValue) {
  return makeError(ErrorCode::InvalidArgument, "{}: {}", path,
                   std::strerror(errnoValue));
}

static bool isReadable(const struct stat &info) {
  return S_ISREG(info.st_mode) || S_ISFIFO(info.st_mode);
}

llvm::Expected<std::string> readNamedFile(const std::string &path,
                                          uint64_t maxBytes) {
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

  // Read in pieces, because the size that a file reports may be wrong.
  constexpr uint64_t kPieceBytes = 1 << 20;
  std::string text;
  for (;;) {
    const uint64_t before = text.size();
    // One byte beyond the limit tells that there are more.
    const uint64_t wanted = std::min(before + kPieceBytes, maxBytes + 1);
    if (int failure = readUpTo(ops, file.get(), wanted, text))
      return cannotRead(path, failure);
    if (text.size() > maxBytes)
      return makeError(ErrorCode::InvalidArgument,
                       "{}: more than the {} bytes that are read", path,
                       maxBytes);
    if (text.size() < wanted)
      return text;
  }
}

} // namespace kiln
