//===- Error.h - the exception of the example engine ----------------------===//
//
// Wrong files, configs and requests are reported by this one type. Its message
// names the file, the key or tensor, and the value that is refused.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_ERROR_H
#define KILN_EXAMPLES_LLAMA_ERROR_H

#include <stdexcept>

namespace llama {

class Error : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_ERROR_H
