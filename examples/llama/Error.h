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

/// There is no GPU, or no driver for it.
class NoGpu : public Error {
public:
  using Error::Error;
};

/// A fault killed the context: no call of this process helps any more. The
/// message says what failed, and what was lost where that is known.
class DeviceLost : public Error {
public:
  using Error::Error;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_ERROR_H
