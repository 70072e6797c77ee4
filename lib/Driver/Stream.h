//===- Stream.h - a stream of Kiln's own ----------------------------------===//
#pragma once

#include "Driver/Driver.h"
#include "Driver/Handles.h"

#include <cstdint>

namespace kiln {

/// Whether \p stream is the legacy default stream: null or CU_STREAM_LEGACY.
inline bool isLegacyStream(CudaStream stream) {
  return reinterpret_cast<uintptr_t>(stream) <= 1;
}

/// Whether \p stream is CU_STREAM_PER_THREAD: another stream in each thread.
inline bool isPerThreadStream(CudaStream stream) {
  return reinterpret_cast<uintptr_t>(stream) == 2;
}

/// Process-unique id of \p stream, which must exist: handles of destroyed
/// streams are given out again, ids are not. In each thread
/// CU_STREAM_PER_THREAD has one of its own. Some 15 ns. Ends a capture of the
/// stream: ask captureStatus() first.
llvm::Expected<uint64_t> streamId(const Driver &driver, CudaStream stream);

/// Waits for all work of \p stream. Errors: those of that work.
llvm::Error synchronize(const Driver &driver, CudaStream stream);

/// Owns a stream of the context that was current when it was made; it does not
/// synchronise with the legacy default stream.
class Stream {
public:
  enum class Priority {
    Usual,
    Lowest, ///< blocks of all other streams go first
  };
  static llvm::Expected<Stream> create(const Driver &driver,
                                       Priority priority = Priority::Usual);
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
