//===- Stream.h - a stream of Kiln's own ----------------------------------===//
#pragma once

#include "Driver/Driver.h"
#include "Driver/Handles.h"

namespace kiln {

/// Waits for all work of \p stream. Errors: whatever that work did wrong.
llvm::Error synchronize(const Driver &driver, CudaStream stream);

/// Waits for all work of the current context.
llvm::Error synchronizeContext(const Driver &driver);

/// Owns a stream of the context that was current when it was made; it does not
/// synchronise with the legacy default stream.
class Stream {
public:
  static llvm::Expected<Stream> create(const Driver &driver);
  Stream(Stream &&other) noexcept;
  Stream &operator=(Stream &&) = delete;
  /// Work still enqueued runs to its end.
  ~Stream();

  CudaStream handle() const { return stream; }
  llvm::Error synchronize() const { return kiln::synchronize(*driver, stream); }

private:
  Stream(const Driver &driver, CudaStream stream)
      : driver(&driver), stream(stream) {}
  const Driver *driver;
  CudaStream stream;
};

} // namespace kiln
