//===- ReloadModel.h - what rows cost that are read once for each pass ----===//
//
// Shared by the estimates of the templates "reload" and "spread", whose kernel
// is the same.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Rows/RowProblem.h"
#include "Model/Stream.h"
#include "rows/RowSignature.h"

namespace kiln {

/// How a row is read.
struct ReloadShape {
  int64_t vector = 8;     ///< elements of one access
  int64_t items = 1;      ///< vectors that a thread has in flight
  int64_t rowThreads = 1; ///< of a block that share a row
  int64_t cluster = 1;    ///< blocks of a cluster that do
  RowStart start = RowStart::Aligned;
  bool isStreaming = false;
  int64_t rowBlocks = 1; ///< blocks all over the GPU that do
  int64_t turns = 1;     ///< rows that these take one after the other
  double keptShare = 0;  ///< of a row, what stays in shared memory

  /// Elements of a row that are in flight at once.
  int64_t chunk() const {
    return rowThreads * vector * items * cluster * rowBlocks;
  }
};

/// Adds to \p kernel, which has bytes, tasks and block, its loads, its passes
/// and what it computes.
void addReloading(StreamKernel &kernel, const RowProblem &problem,
                  const ReloadShape &shape, const DeviceModel &device);

} // namespace kiln
