//===- MappedFile.h - a file in memory, read on demand --------------------===//
#ifndef KILN_EXAMPLES_LLAMA_MAPPEDFILE_H
#define KILN_EXAMPLES_LLAMA_MAPPEDFILE_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace llama {

/// A regular file, mapped read-only and privately. The size is the one at the
/// time of opening: a file that another process cuts short later ends this
/// process with SIGBUS when the missing bytes are read.
class MappedFile {
public:
  /// Throws Error if \p path is not a regular file that can be read.
  explicit MappedFile(const std::string &path);
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;
  ~MappedFile();

  /// Null for an empty file.
  const std::byte *data() const { return mapped; }
  uint64_t bytes() const { return size; }

private:
  const std::byte *mapped = nullptr;
  uint64_t size = 0;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_MAPPEDFILE_H
