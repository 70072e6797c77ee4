//===- Graph.h - work as a graph, replayed --------------------------------===//
//
// A graph is built by hand from launch specs or recorded by capturing a stream.
// A capture, even a thread-local one of a private stream, makes
// cuCtxSynchronize of every thread of the process fail, and is ruined by it. So
// in the process of a caller graphs are built.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Driver/Driver.h"
#include "Driver/Handles.h"
#include "Driver/LaunchSpec.h"

#include <llvm/ADT/ArrayRef.h>

#include <cstddef>
#include <cstdint>

namespace kiln {

/// The graph into which a stream in capture records.
struct OpenCapture {
  uint64_t id = 0;           ///< of the capture, unique in the process
  CudaGraph graph = nullptr; ///< null: nothing is recorded
};

/// The capture that \p stream is in, which stays as it is.
llvm::Expected<OpenCapture> openCapture(const Driver &driver,
                                        CudaStream stream);

/// Has \p released called with \p user, once and on any thread, when \p graph
/// and all graphs made of it are gone and run no more; it must not call the
/// driver. \p graph may be one that is being captured. If this fails, \p
/// released is not called.
llvm::Error callWhenGone(const Driver &driver, CudaGraph graph,
                         void (*released)(void *user), void *user);

/// Owns a graph and its executable form.
class Graph {
public:
  /// From here on work that is enqueued on \p stream is recorded and does not
  /// run. \p stream must not be the legacy default stream. Thread-local mode:
  /// other threads may go on calling anything but cuCtxSynchronize.
  static llvm::Error beginCapture(const Driver &driver, CudaStream stream);

  /// Ends the capture and instantiates the recorded graph. Errors: DriverError
  /// if something forbidden invalidated the capture, DeviceOutOfMemory. The
  /// capture is over in every case.
  static llvm::Expected<Graph> endCapture(const Driver &driver,
                                          CudaStream stream);

  Graph(Graph &&other) noexcept;
  Graph &operator=(Graph &&) = delete;
  ~Graph();

  /// Enqueues one run of all nodes on \p stream. One thread at a time.
  llvm::Error launch(CudaStream stream);

  /// Kernels and memsets.
  size_t nodeCount() const { return nodes; }

private:
  friend class GraphBuilder;
  explicit Graph(const Driver &driver) : driver(&driver) {}
  llvm::Error instantiate();

  const Driver *driver;
  CudaGraph graph = nullptr;
  CudaGraphExec executable = nullptr;
  size_t nodes = 0;
};

/// Makes a graph of launches that follow each other as on one stream, without
/// touching a stream. One thread at a time.
class GraphBuilder {
public:
  /// An empty graph for the current context.
  static llvm::Expected<GraphBuilder> create(const Driver &driver);

  /// Appends the steps of \p spec, as launch() would enqueue them: \p spec's
  /// parameters are patched and copied. Errors: those of launch().
  llvm::Error add(LaunchSpec &spec, llvm::ArrayRef<CudaFunction> functions);

  /// Returns the graph and leaves this object without use. Beside a capture it
  /// needs a CaptureModeGuard. Errors: Unsupported for a step that the device
  /// cannot take, DeviceOutOfMemory.
  llvm::Expected<Graph> instantiate();

private:
  GraphBuilder(Graph graph, CudaContext context)
      : graph(std::move(graph)), context(context) {}

  Graph graph;
  CudaContext context;
  CudaGraphNode last = nullptr; ///< the end of the chain
  bool lastIsKernel = false;
};

} // namespace kiln
