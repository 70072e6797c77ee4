//===- Graph.h - captured work, replayed ----------------------------------===//
#pragma once

#include "Driver/Driver.h"
#include "Driver/Handles.h"

#include <cstddef>

namespace kiln {

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
