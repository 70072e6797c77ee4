//===- Bytes.h - numbers of bytes for readers -----------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_BYTES_H
#define KILN_EXAMPLES_LLAMA_BYTES_H

#include <cstdint>
#include <string>

namespace llama {

/// "14.96 GiB"; below 1 GiB "12.50 MiB".
std::string bytesText(uint64_t bytes);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_BYTES_H
