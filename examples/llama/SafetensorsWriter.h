//===- SafetensorsWriter.h - writing a checkpoint of one file -------------===//
//
// The tensors are declared first, so the header is complete before any data.
// The data then passes through in order: a model larger than the memory can be
// written. The file appears whole, under its name, or not at all.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_SAFETENSORSWRITER_H
#define KILN_EXAMPLES_LLAMA_SAFETENSORSWRITER_H

#include "DType.h"

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace llama {

struct TensorDeclaration {
  std::string name;
  DType dtype = DType::BF16;
  std::vector<int64_t> shape;
};

class SafetensorsWriter {
public:
  /// Writes the header to a temporary file beside \p path. Throws Error for a
  /// name that is empty, reserved or there twice, a negative size, and a file
  /// that cannot be written.
  SafetensorsWriter(const std::string &path,
                    const std::vector<TensorDeclaration> &tensors,
                    const std::map<std::string, std::string> &metadata = {});
  SafetensorsWriter(const SafetensorsWriter &) = delete;
  SafetensorsWriter &operator=(const SafetensorsWriter &) = delete;
  /// Removes the temporary file unless finish() has succeeded.
  ~SafetensorsWriter();

  /// Appends \p bytes bytes of data. The tensors follow each other in the order
  /// of their declaration; pieces may have any size. Throws Error.
  void write(const void *data, uint64_t bytes);

  /// Renames the file to its name. Throws Error, also if bytes are missing.
  void finish();

  /// Bytes of data that are still to be written.
  uint64_t remaining() const { return remainingBytes; }

private:
  void put(const void *data, uint64_t bytes);
  void fail(const char *action) const;

  std::string path, temporary;
  std::FILE *file = nullptr;
  uint64_t remainingBytes = 0;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_SAFETENSORSWRITER_H
