//===- Safetensors.h - headers of the safetensors format ------------------===//
//
// A safetensors file is a u64 N (little-endian), N bytes of JSON, and the data
// of tensors, to whose bytes the JSON points. Files come from elsewhere: every
// number in them is checked before it is used, so a wrong file is an Error that
// names file and tensor, never a read out of bounds.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_SAFETENSORS_H
#define KILN_EXAMPLES_LLAMA_SAFETENSORS_H

#include "DType.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace llama {

/// An entry of a header, with its bytes [begin, end) behind the header.
struct TensorEntry {
  DType dtype = DType::U8;
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;
};

/// The entries of a header by name, and where the data begins in the file.
struct SafetensorsHeader {
  std::map<std::string, TensorEntry> entries;
  std::map<std::string, std::string> metadata;
  uint64_t dataOffset = 0;
};

/// Parses the header of a whole file of \p bytes bytes at \p data. \p source
/// names it in messages. Throws Error unless the tensors' bytes cover the rest
/// of the file without holes and overlaps, as the format demands.
SafetensorsHeader parseSafetensors(const std::byte *data, uint64_t bytes,
                                   const std::string &source);

/// "source: tensor "name"", which begins messages about a tensor.
std::string tensorSource(const std::string &source, std::string_view name);

/// Throws Error for a name that is empty or has a NUL: names go to messages, C
/// interfaces and other files.
void checkTensorName(const std::string &name, const std::string &source);

/// Bytes of a tensor; throws Error, which begins with \p source, where they
/// exceed 2^63 or are not whole.
uint64_t tensorBytes(DType dtype, const std::vector<int64_t> &shape,
                     const std::string &source);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_SAFETENSORS_H
