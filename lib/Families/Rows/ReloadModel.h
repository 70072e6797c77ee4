//===- ReloadModel.h - the cost of rows that are read once for each pass --===//
//
// Shared by the estimates of the templates "reload" and "spread", which have
// the same kernel.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Rows/RowProblem.h"
#include "Model/MemoryPass.h"
#include "rows/RowSignature.h"

namespace kiln {

/// The way in which a row is read.
struct ReloadShape {
  int64_t vector = 8;     ///< elements of one access
  int64_t items = 1;      ///< vectors that a thread has in flight
  int64_t rowThreads = 1; ///< threads of a block that share a row
  int64_t cluster = 1;    ///< blocks of a cluster that share a row
  RowStart start = RowStart::Aligned;
  bool isStreaming = false;
  int64_t rowBlocks = 1; ///< blocks all over the GPU that share a row
  int64_t turns = 1;     ///< rows that these process one after the other
  double keptShare = 0;  ///< the share of a row that stays in shared memory

  /// Elements of a row that are in flight at once.
  int64_t chunk() const {
    return rowThreads * vector * items * cluster * rowBlocks;
  }
};

/// Adds loads, passes and arithmetic to \p kernel, which has bytes, tasks and
/// block.
void addReloading(MemoryPass &kernel, const RowProblem &problem,
                  const ReloadShape &shape, const DeviceModel &device);

} // namespace kiln
