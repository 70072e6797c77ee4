//===- Graph.h - captured work, replayed ----------------------------------===//
#pragma once

#include "Driver/Driver.h"
#include "Driver/Handles.h"

#include <cstddef>
#include <cstdint>

namespace kiln {

/// What a stream in capture records into.
struct OpenCapture {
  uint64_t id = 0;           ///< of the capture, unique in the process
  CudaGraph graph = nullptr; ///< null: nothing is recorded
};

/// The capture that \p stream is in, which stays as it is.
llvm::Expected<OpenCapture> openCapture(const Driver &driver,
                                        CudaStream stream);

/// Has \p released called with \p user, once and on any thread, when \p graph
/// and whatever is made of it are gone and run no more; it must not call the
/// driver. \p graph may be one that is being captured. If this fails,
/// \p released is not called.
llvm::Error callWhenGone(const Driver &driver, CudaGraph graph,
                         void (*released)(void *user), void *user);

/// Owns a captured graph and its executable form.
class Graph {
public:
  /// Starts to record what is enqueued on \p stream instead of running it.
  /// \p stream must not be the legacy default stream. Thread-local mode: other
  /// threads may go on calling anything.
  static llvm::Error beginCapture(const Driver &driver, CudaStream stream);

  /// Ends the capture and instantiates what was recorded. Errors: DriverError
  /// if something forbidden invalidated the capture, DeviceOutOfMemory. The
  /// capture is over in every case.
  static llvm::Expected<Graph> endCapture(const Driver &driver,
                                          CudaStream stream);

  Graph(Graph &&other) noexcept;
  Graph &operator=(Graph &&) = delete;
  ~Graph();

  /// Enqueues one run of all nodes on \p stream. One thread at a time.
  llvm::Error launch(CudaStream stream);

  /// Nodes that were recorded.
  size_t nodeCount() const { return nodes; }

private:
  explicit Graph(const Driver &driver) : driver(&driver) {}
  const Driver *driver;
  CudaGraph graph = nullptr;
  void *executable = nullptr; ///< CUgraphExec
  size_t nodes = 0;
};

} // namespace kiln
