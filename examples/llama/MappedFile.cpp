//===- MappedFile.cpp - a file in memory, read on demand ------------------===//
#include "MappedFile.h"

#include "Error.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace llama {

MappedFile::MappedFile(const std::string &path) {
  const auto fail = [&](const char *what) {
    throw Error(path + ": " + what + ": " + std::strerror(errno));
  };
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    fail("cannot be opened");
  struct stat status = {};
  const bool regular =
      fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  void *address = nullptr;
  if (regular && status.st_size > 0) {
    size = static_cast<uint64_t>(status.st_size);
    address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  }
  const int error = errno;
  close(descriptor); // The mapping stays.
  if (!regular)
    throw Error(path + ": is not a regular file");
  if (address == MAP_FAILED) {
    errno = error;
    fail("cannot be mapped");
  }
  mapped = static_cast<const std::byte *>(address);
  // Weights are read once, front to back. A hint, whose failure costs time
  // alone.
  if (mapped)
    (void)madvise(address, size, MADV_SEQUENTIAL);
}

MappedFile::~MappedFile() {
  if (mapped)
    munmap(const_cast<std::byte *>(mapped), size);
}

} // namespace llama
